"""The interpreter: who leads, and what is heard of drivers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from daggers.v1 import alerts_pb2

from eventlog import Draft, LogUnavailable, read_record
from health_monitor.observe.observer import UnreadableHeartbeat

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

# ---- Leadership --------------------------------------------------------------------------------------------


async def test_the_first_monitor_of_a_log_leads_at_once_and_the_second_stands_by(world: Any) -> None:
    async with world.monitor("one") as one, world.monitor("two") as two:
        for _ in range(30):
            await one.step(0.5)
            await two.step(0.5)

    assert (one.monitor.leads, two.monitor.leads, await world.events()) == (True, False, ["MonitorStarted"])


async def test_a_silent_leader_is_replaced_and_does_nothing_when_it_wakes(world: Any) -> None:
    async with world.monitor("one") as one, world.monitor("two") as two:
        await one.step()
        await world.fail_dagger()
        await one.step()
        await two.steps(14)  # one is suspended; two takes over and tells
        told = len(world.shown)
        await one.steps(5)

    assert (one.monitor.leads, two.monitor.leads) == (False, True)
    assert (told, len(world.shown)) == (2, 2)


async def test_two_monitors_do_not_claim_in_turns(world: Any) -> None:
    """One wakes, has read the other's claim and none of its beats yet: it has to be patient all the same."""
    async with world.monitor("one") as one, world.monitor("two") as two:
        await one.step()
        await two.steps(14)
        await one.monitor.leadership.lead()

    assert (one.monitor.leads, await world.events()) == (False, ["MonitorStarted", "MonitorStarted"])


async def test_a_leader_that_wakes_reads_before_it_sends(world: Any) -> None:
    """It still owes a notification by what it knew; the log says that another one has taken over and told."""
    async with world.monitor("one") as one:
        await world.fail_dagger()
        await one.step(notify=False)
        await one.step(3, notify=False)
        for follower in one.followers:
            follower.cancel()
        async with world.monitor("two") as two:
            await two.steps(14)
        one.follow()
        for channel in one.monitor.channels:
            await one.monitor.deliveries.notify(channel)

    assert one.monitor.leads is False
    assert len(world.receiver.received) == 2


async def test_who_leads_again_does_not_record_again_what_the_log_took_unseen(world: Any) -> None:
    """Its write was taken, but it was replaced before it learnt so, and leads again before it tries again."""
    async with world.monitor("one") as one:
        await one.step()
        await world.fail_dagger()

        lost = asyncio.Event()

        async def lose_the_answer(draft: Draft) -> None:
            if isinstance(draft.message, alerts_pb2.NotificationSent) and not lost.is_set():
                lost.set()
                raise LogUnavailable("Kafka does not answer")

        world.alerts.after = lose_the_answer
        telling = asyncio.create_task(one.steps(4))
        await lost.wait()
        rival = alerts_pb2.MonitorStarted(monitor_id="two", host="h")
        await world.alerts.append(Draft("claim", "/test", "health-monitor", world.now, rival))
        await one.monitor.leadership.follower.catch_up()
        world.now += 11 * SECOND
        await one.monitor.leadership.lead()
        await telling

    assert await world.events() == [
        "MonitorStarted",
        "AlertFired",
        "NotificationSent slack",
        "MonitorStarted",
        "MonitorStarted",
        "NotificationSent pagerduty",
    ]


# ---- Heartbeats --------------------------------------------------------------------------------------------


async def test_no_progress_fires_and_resolves_by_heartbeats(world: Any) -> None:
    async with world.monitor() as running:
        await running.step()
        for _ in range(15):
            await world.beat(progressed=NOON)
            await running.step(10)
        stuck = list(world.kinds())
        for _ in range(3):
            await world.beat()
            await running.step(2)

    assert (stuck, world.kinds()) == (
        ["pagerduty triggered"],
        ["pagerduty triggered", "pagerduty resolved"],
    )
    assert "no progress" in world.shown[0]


async def test_silence_fires_unreachable_and_a_heartbeat_resolves_it(world: Any) -> None:
    async with world.monitor() as running:
        await world.beat(progressed=NOON)
        await running.steps(40)
        silent = list(world.kinds())
        for _ in range(5):
            await world.beat()
            await running.step()

    assert (silent, world.kinds()) == (
        ["pagerduty triggered"],
        ["pagerduty triggered", "pagerduty resolved"],
    )
    assert any("does not answer" in line for line in world.shown)


async def test_a_silent_driver_is_unreachable_only_when_its_spark_does_not_answer(world: Any) -> None:
    names = [f"dagger bookings {world.generation}"]

    async def applications(_: web.Request) -> web.Response:
        return web.json_response([{"id": "local-1", "name": name} for name in names])

    application = web.Application()
    application.router.add_get("/api/v1/applications", applications)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with world.monitor() as running:
            await world.beat(ui_url=f"http://127.0.0.1:{runner.addresses[0][1]}")
            await running.steps(60)
            answering = list(world.kinds())
            names[:] = ["dagger another 99"]  # its port is another's now
            await running.steps(5)
    finally:
        await runner.cleanup()

    assert (answering, world.kinds()) == ([], ["pagerduty triggered"])


async def test_a_record_that_cannot_be_read_is_refused_by_name_and_others_are_heard(world: Any) -> None:
    async with world.monitor() as running:
        broken = read_record(7, [("ce_type", b"daggers.v1.Heartbeat")], b"\xff")
        with pytest.raises(UnreadableHeartbeat, match=r"daggers\.v1\.Heartbeat"):
            running.monitor.receive(broken)
        await world.beat(progressed=NOON)
        await running.step()

    assert running.monitor.observer.watches["bookings"].heard_at == world.now
