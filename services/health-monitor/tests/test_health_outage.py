"""Kafka away: it pages by itself, once; the log gets it later, and nobody is told again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from daggers.v1 import alerts_pb2
from pydantic import SecretStr

from fleet import Fleet
from fleet.alerts.alert import Alert
from fleet.alerts.ledger import Ledger
from fleet.conditions.finding import Finding, Measure
from fleet.health import watch
from fleet.health.degradation import Limits
from health_monitor.alerts import outage
from health_monitor.alerts.journal import FileJournal
from health_monitor.alerts.outage import Reach, kafka_away
from health_monitor.conditions.cause import Observation
from health_monitor.conditions.kafka_away import is_recovering as recovers

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LIMIT = 30 * SECOND
PROGRESS = Limits().progress
AWAY = alerts_pb2.ALERT_CONDITION_KAFKA_AWAY


# ---- How it is known ---------------------------------------------------------------------------------------


def test_two_writes_that_failed_over_the_limit_are_an_outage_and_the_number_is_right() -> None:
    reach = Reach().writes(NOON - 9 * SECOND).misses(NOON).misses(NOON + 15 * SECOND)

    assert kafka_away(reach, now=NOON + 29 * SECOND, limit=LIMIT, count_daggers=lambda: 40) is None
    assert kafka_away(reach, now=NOON + 31 * SECOND, limit=LIMIT, count_daggers=lambda: 40) == Finding(
        True,
        "Kafka has taken no record of the health monitor for 31 s: nothing is known of 40 daggers that should"
        " run, and those that need the same Kafka stand still",
        NOON,
        measure=Measure(31.0, 30.0, "s"),
    )


def test_a_monitor_that_was_suspended_in_a_write_says_nothing() -> None:
    woken = Reach().writes(NOON - 9 * SECOND).misses(NOON)

    assert kafka_away(woken, now=NOON + 600 * SECOND, limit=LIMIT, count_daggers=lambda: 40) is None


def test_one_write_that_is_taken_ends_it_and_a_monitor_that_wrote_nothing_knows_nothing() -> None:
    back = Reach().misses(NOON).misses(NOON + 15 * SECOND).writes(NOON + 60 * SECOND)

    found = kafka_away(back, now=NOON + 61 * SECOND, limit=LIMIT, count_daggers=lambda: 40)

    assert found == Finding(False, "Kafka takes records again", NOON + 60 * SECOND)
    assert kafka_away(Reach(), now=NOON, limit=LIMIT, count_daggers=lambda: 40) is None


# ---- What is done about it ---------------------------------------------------------------------------------


def away(world: Any, *, gone: bool) -> None:
    world.refuses = lambda _: gone


def pages(world: Any) -> list[str]:
    """What a person was shown of Kafka, in short."""
    return [" ".join(line.split()[:2]) for line in world.shown if "platform" in line and "pagerduty" in line]


def alert(world: Any) -> Alert:
    """The alert by a fold of the log from its first record."""
    ledger = Ledger()
    for record in world.alerts._records:
        ledger.apply(record)
    return ledger.alert("platform", AWAY)


async def outage_of(world: Any, running: Any, seconds: int) -> None:
    await running.steps(3)
    away(world, gone=True)
    await running.steps(seconds)


async def test_it_pages_each_receiver_once_while_the_log_takes_nothing_and_resolves_through_the_log(
    world: Any,
) -> None:
    async with world.monitor() as running:
        await outage_of(world, running, 120)
        told, before = len(world.receiver.received), await world.events()
        away(world, gone=False)
        await running.steps(10)
        after = (await world.events())[1:]

    assert (told, before) == (2, ["MonitorStarted"])
    assert after[0] == "OutageReported"
    assert sorted(after[1:]) == ["AlertResolved", "NotificationSent pagerduty", "NotificationSent slack"]
    assert pages(world) == ["pagerduty triggered", "pagerduty resolved"]
    assert world.journal.load() is None


async def test_it_is_told_within_its_limit_and_its_hold(world: Any) -> None:
    async with world.monitor() as running:
        await running.steps(3)
        away(world, gone=True)
        gone = world.now
        while not world.receiver.received:
            await running.step()

    # a beat is due after 2 s, the limit is 30 s, the hold 2 s, and a look is taken each second
    assert world.now - gone <= 36 * SECOND


async def test_a_short_outage_pages_nobody(world: Any) -> None:
    async with world.monitor() as running:
        for _ in range(5):
            await outage_of(world, running, 25)
            away(world, gone=False)
            await running.steps(10)

    assert pages(world) == []
    assert alert(world).incident == 0


@pytest.mark.parametrize("killed_after", [31, 33, 34, 35, 36, 60])
async def test_a_monitor_that_is_killed_in_it_tells_nothing_twice_and_its_heir_resolves_it(
    world: Any, killed_after: int
) -> None:
    async with world.monitor("one") as running:
        await outage_of(world, running, killed_after)
    told = len(world.receiver.received)
    away(world, gone=False)
    async with world.monitor("two") as running:
        await running.steps(30)

    assert pages(world) == (["pagerduty triggered", "pagerduty resolved"] if told else [])
    assert not alert(world).firing
    assert world.journal.load() is None


async def test_who_is_replaced_meanwhile_brings_it_in_and_the_other_resolves_it(world: Any) -> None:
    """Two monitors: the one that told of it finds another one leading when Kafka is back."""
    async with world.monitor("one") as one:
        await outage_of(world, one, 60)
        away(world, gone=False)
        async with world.monitor("two", here=False) as two:
            await two.steps(12)
            assert two.monitor.leads
            for _ in range(10):
                await one.step()
                await two.step()

    assert pages(world) == ["pagerduty triggered", "pagerduty resolved"]
    assert (alert(world).incident, alert(world).firing) == (1, False)


async def test_who_stood_still_until_kafka_was_back_and_another_led_tells_nobody(world: Any) -> None:
    world.answer = lambda _: web.Response(status=500)
    async with world.monitor("one") as one:
        await outage_of(world, one, 60)
        for follower in one.followers:
            follower.cancel()
        away(world, gone=False)
        async with world.monitor("two", here=False) as two:
            await two.steps(12)
            assert two.monitor.leads
            world.answer = lambda _: None
            one.follow()
            world.now += 600 * SECOND
            for channel in one.monitor.channels:  # the first of its timers when it goes on
                await one.monitor.deliveries.notify_outage(channel)

    assert [line for line in world.shown if "platform" in line] == []


async def test_a_receiver_in_trouble_is_tried_again_without_the_log_and_each_attempt_is_in_it_later(
    world: Any,
) -> None:
    troubles = [web.Response(status=500), web.Response(status=503)]
    world.answer = lambda received: troubles.pop() if "text" in received.body and troubles else None
    async with world.monitor() as running:
        await outage_of(world, running, 120)
        away(world, gone=False)
        await running.steps(2)
        (report,) = [
            record.message for record in world.alerts._records if record.type.endswith("OutageReported")
        ]

    slack = [
        attempt for attempt in report.attempts if "slack" in (attempt.sent.receiver, attempt.failed.receiver)
    ]
    assert [notification.WhichOneof("outcome") for notification in slack] == ["failed", "failed", "sent"]
    assert alert(world).deliveries["slack"].attempts == 3
    assert len(world.receiver.received) == 4


async def test_who_was_not_reached_in_it_is_told_when_it_is_over_by_the_log(world: Any) -> None:
    world.answer = lambda received: web.Response(status=500) if "text" in received.body else None
    async with world.monitor() as running:
        await outage_of(world, running, 60)
        away(world, gone=False)
        world.answer = lambda _: None
        await running.steps(30)

    slack = [line for line in world.shown if line.startswith("slack")]
    assert len(slack) == 1
    assert "resolved" in slack[0]


async def test_a_report_that_came_twice_counts_once(world: Any) -> None:
    async with world.monitor() as running:
        await outage_of(world, running, 60)
        away(world, gone=False)
        await running.steps(2)
    ledger = Ledger()
    changed = [ledger.apply(record) for record in world.alerts._records]
    (report,) = [record for record in world.alerts._records if record.type.endswith("OutageReported")]

    assert changed[-1]
    assert outage.apply_report(ledger.alert("platform", AWAY), report.message) == ledger.alert(
        "platform", AWAY
    )


async def test_a_disk_that_takes_nothing_holds_back_no_page(world: Any, tmp_path: Any) -> None:
    (tmp_path / "in the way").write_text("a file")
    world.journal = FileJournal(tmp_path / "in the way")
    async with world.monitor() as running:
        await outage_of(world, running, 60)

    assert pages(world) == ["pagerduty triggered"]


def test_a_journal_that_is_damaged_is_none(tmp_path: Any) -> None:
    (tmp_path / "outage.pb").write_bytes(b"\xff\xff")

    assert FileJournal(tmp_path).load() is None


# ---- What follows from it ----------------------------------------------------------------------------------


async def stall(running: Any, progressed: datetime, seconds: int) -> None:
    """Let a dagger be heard again that makes no progress."""
    for _ in range(seconds):
        await running.world.beat(progressed=progressed)
        await running.step()


async def lose_kafka(world: Any, running: Any) -> datetime:
    """Let a dagger stall and Kafka be away for minutes, until it is back; when the dagger progressed last."""
    progressed: datetime = world.now
    await stall(running, progressed, 3)
    away(world, gone=True)
    await running.steps(150)
    away(world, gone=False)
    return progressed


async def test_it_is_over_behind_daggers_that_need_longer_than_kafka(world: Any) -> None:
    async with world.monitor() as running:
        progressed = await lose_kafka(world, running)
        await stall(running, progressed, 40)
        opened = {(one.subject, one.condition) for one in running.monitor.ledger.list_open()}
        notified = world.kinds()
        for _ in range(10):
            await world.beat()
            await running.step()
        is_over = not running.monitor.ledger.list_open()

    assert opened == {("platform", AWAY), ("bookings", alerts_pb2.ALERT_CONDITION_NO_PROGRESS)}
    assert notified == ["pagerduty triggered"]
    assert (is_over, world.kinds()) == (True, ["pagerduty triggered", "pagerduty resolved"])


async def test_a_dagger_that_makes_no_progress_after_it_is_told_once_it_has_had_its_time(world: Any) -> None:
    async with world.monitor() as running:
        progressed = await lose_kafka(world, running)
        back = world.now
        for _ in range(300):
            await stall(running, progressed, 1)
            if not running.monitor.ledger.alert("platform", AWAY).firing and not world.journal.load():
                break
        lasted = world.now - back
        await stall(running, progressed, 3)
        opened = [(one.subject, one.condition) for one in running.monitor.ledger.list_open()]

    assert PROGRESS <= lasted <= PROGRESS + 5 * SECOND
    assert opened == [("bookings", alerts_pb2.ALERT_CONDITION_NO_PROGRESS)]
    assert sorted(world.kinds()) == ["pagerduty resolved", "pagerduty triggered", "pagerduty triggered"]


def test_a_host_and_a_dagger_that_are_heard_again_are_recovering() -> None:
    fleet, ledger = Fleet(), Ledger()
    watches = {"bookings": replace(watch.begin(NOON), heard_at=NOON + 55 * SECOND)}
    back = Observation(
        fleet, ledger, watches, [], now=NOON + 60 * SECOND, hearing=NOON, limits=Limits(silence=30 * SECOND)
    )
    lost = Alert(dagger="bookings", condition=alerts_pb2.ALERT_CONDITION_UNREACHABLE)
    host = Alert(dagger="host/h2", condition=alerts_pb2.ALERT_CONDITION_HOST_AWAY)
    late = Alert(dagger="bookings", condition=alerts_pb2.ALERT_CONDITION_LATE_ROWS)

    assert [recovers(lost, back), recovers(host, back), recovers(late, back)] == [True, True, False]
    assert not recovers(lost, replace(back, now=NOON + 90 * SECOND))


# ---- The monitor's own absence -----------------------------------------------------------------------------


async def test_the_watchdog_is_called_while_somebody_judges_and_not_while_kafka_is_away(world: Any) -> None:
    called: list[str] = []

    async def ping(request: web.Request) -> web.Response:
        called.append(f"{request.method} {request.path}")
        return web.Response()

    application = web.Application()
    application.router.add_post("/ping/key", ping)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    world.watchdog, world.allowed = SecretStr(f"http://127.0.0.1:{port}/ping/key"), f"127.0.0.1:{port}"
    try:
        async with world.monitor() as running:
            await running.monitor.call_watchdog()
            counts = [len(called)]  # it does not lead yet
            await running.steps(3)
            await running.monitor.call_watchdog()
            counts.append(len(called))
            away(world, gone=True)
            await running.steps(5)
            await running.monitor.call_watchdog()
            counts.append(len(called))
            away(world, gone=False)
            await running.steps(5)
            running.world.now += 61 * SECOND  # nobody has judged for so long
            await running.monitor.call_watchdog()
            counts.append(len(called))
            await running.step()
            await running.step()
            await running.monitor.call_watchdog()
            counts.append(len(called))
    finally:
        await runner.cleanup()

    assert counts == [0, 1, 1, 1, 2]
    assert set(called) == {"POST /ping/key"}


async def test_a_watchdog_that_does_not_answer_disturbs_nothing(world: Any) -> None:
    world.watchdog = SecretStr("http://127.0.0.1:9/ping/key")
    async with world.monitor() as running:
        await running.steps(3)
        await asyncio.wait_for(running.monitor.call_watchdog(), 5)
        await world.fail_dagger()
        await running.steps(6)

    assert world.kinds() == ["pagerduty triggered"]
