"""The interpreter: what is recorded and told, over restarts, outages, and receivers in bad health."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from daggers.v1 import alerts_pb2

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

FIRED = ["AlertFired", "NotificationSent pagerduty", "NotificationSent slack"]
RESOLVED = ["AlertResolved", "NotificationSent pagerduty", "NotificationSent slack"]


async def test_an_alert_is_recorded_first_then_told_then_recorded_as_told(world: Any) -> None:
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(6)
        events = await world.events()

    assert events[:2] == ["MonitorStarted", "AlertFired"]
    assert sorted(events[1:]) == FIRED
    assert world.kinds() == ["pagerduty triggered"]


async def test_it_resolves_when_the_dagger_runs_again(world: Any) -> None:
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(6)
        await world.mend_dagger()
        await running.steps(6)

    assert sorted(await world.events()) == sorted(["MonitorStarted", *FIRED, *RESOLVED])
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


async def test_a_stopped_dagger_resolves_its_incidents(world: Any) -> None:
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(6)
        await world.stop_dagger()
        await running.steps(3)

    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


@pytest.mark.parametrize("crash_after", [*range(1, 9), *range(26, 34)])
async def test_a_restart_at_any_step_repeats_nothing_and_loses_nothing(world: Any, crash_after: int) -> None:
    """The monitor is killed after so many steps, and another one takes over when its patience is spent."""
    script = {2: world.fail_dagger, 26: world.mend_dagger}
    for name, steps in (("one", range(crash_after)), ("two", range(crash_after, 60))):
        async with world.monitor(name) as running:
            for number in steps:
                if number in script:
                    await script[number]()
                await world.beat()
                await running.step()

    assert sorted(await world.events()) == sorted([*["MonitorStarted"] * 2, *FIRED, *RESOLVED])
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


async def test_a_crash_between_the_post_and_its_record_repeats_one_under_the_same_key(world: Any) -> None:
    world.refuses = lambda message: isinstance(message, alerts_pb2.NotificationSent)
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(2)
        last = asyncio.create_task(running.steps(2))
        await world.refused.wait()
        last.cancel()
    world.refuses = lambda _: False
    async with world.monitor("two") as running:
        await running.steps(14)

    told = [request.body for request in world.receiver.received]
    texts = [body["text"] for body in told if "text" in body]
    keys = {body["dedup_key"] for body in told if "dedup_key" in body}
    assert (len(texts), len(set(texts)), keys) == (2, 1, {"daggers/bookings/failed"})


async def test_what_was_sent_is_recorded_when_kafka_is_back_and_not_sent_again(world: Any) -> None:
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(2)
        world.refuses = lambda message: isinstance(message, alerts_pb2.NotificationSent)
        going = asyncio.create_task(running.steps(4))
        await world.refused.wait()
        world.refuses = lambda _: False
        await going

    assert sorted(await world.events()) == sorted(["MonitorStarted", *FIRED])
    assert len(world.receiver.received) == 2


async def test_a_drain_lets_what_is_under_way_be_recorded(world: Any) -> None:
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.step(notify=False)
        await running.step(2, notify=False)
        timer = asyncio.create_task(running.monitor.deliveries.notify(running.monitor.channels[0]))
        await world.called.wait()
        timer.cancel()
        await running.monitor.drain(5 * SECOND)

    assert await world.events() == ["MonitorStarted", "AlertFired", "NotificationSent slack"]


async def test_nothing_is_fired_while_kafka_is_away_and_once_when_it_is_back(world: Any) -> None:
    async with world.monitor() as running:
        await running.step()
        world.refuses = lambda _: True
        await world.fail_dagger()
        await running.step()
        await running.step(3)
        world.refuses = lambda _: False
        await running.steps(4)

    assert sorted(await world.events()) == sorted(["MonitorStarted", *FIRED])


# ---- Receivers in bad health -------------------------------------------------------------------------------


async def test_a_receiver_in_trouble_is_tried_again_and_does_not_hold_up_the_other(world: Any) -> None:
    troubles = [web.Response(status=500), web.Response(status=503)]
    world.answer = lambda received: troubles.pop() if "text" in received.body and troubles else None
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(20)
        events = await world.events()

    assert [event for event in events if event.endswith("pagerduty")] == ["NotificationSent pagerduty"]
    assert [event for event in events if event.endswith("slack")] == [
        "NotificationFailed slack",
        "NotificationFailed slack",
        "NotificationSent slack",
    ]


async def test_what_a_receiver_refuses_is_given_up_and_the_end_is_told_all_the_same(world: Any) -> None:
    refusals = [web.Response(status=400, text="invalid_payload")]
    world.answer = lambda received: refusals.pop() if "text" in received.body and refusals else None
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(20)
        refused = [event for event in await world.events() if event.endswith("slack")]
        await world.mend_dagger()
        await running.steps(5)

    assert refused == ["NotificationFailed slack"]
    assert sum("resolved" in line for line in world.shown if line.startswith("slack")) == 1


async def test_retry_after_is_obeyed(world: Any) -> None:
    busy = [web.Response(status=429, headers={"Retry-After": "20"})]
    world.answer = lambda received: busy.pop() if "text" in received.body and busy else None
    async with world.monitor() as running:
        await world.fail_dagger()
        await running.steps(20)
        before = sum("text" in request.body for request in world.receiver.received)
        await running.steps(5)

    assert (before, sum("text" in request.body for request in world.receiver.received)) == (1, 2)
