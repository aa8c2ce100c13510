"""Silences: what they hold back is told by nobody, over restarts, and once they end."""

from __future__ import annotations

from datetime import datetime, timedelta
from html import unescape
from typing import Any

from aiohttp import web
from daggers.v1 import alerts_pb2

from eventlog import Draft
from fleet.alerts.routing.matching import parse_matcher
from fleet.alerts.routing.silences import ENDS_SOON, Silence, build_message

SECOND = timedelta(seconds=1)


async def silence(world: Any, until: datetime, *matchers: str) -> None:
    """Write a silence as a gateway does, from now on."""
    silence_ = Silence(
        id="pricing/1",
        matchers=tuple(map(parse_matcher, matchers)),
        begin=world.now,
        end=until,
        author="user:ada",
        reason="deploy",
    )
    created = alerts_pb2.SilenceCreated(silence=build_message(silence_))
    await world.alerts.append(Draft("silence", "/api-gateway/test", silence_.id, world.now, created))


async def end_silence(world: Any) -> None:
    expired = alerts_pb2.SilenceExpired(silence_id="pricing/1", actor="user:ada")
    await world.alerts.append(Draft("expired", "/api-gateway/test", "pricing/1", world.now, expired))


async def test_a_silenced_alert_fires_and_is_told_by_whoever_leads_when_the_silence_ends(world: Any) -> None:
    end = world.now + 60 * SECOND
    await silence(world, end, "dagger=bookings")
    async with world.monitor() as first:
        await first.steps(3)
        await world.fail_dagger()
        await first.steps(10)
        assert (world.kinds(), await world.events()) == (
            [], ["SilenceCreated", "MonitorStarted", "AlertFired"],
        )  # fmt: skip
    async with world.monitor("two") as second:
        while world.now < end - 2 * SECOND:
            await second.step()
        assert world.kinds() == []
        await second.steps(5)

    assert world.kinds() == ["pagerduty triggered"]
    assert (await world.events())[-2:] == ["NotificationSent slack", "NotificationSent pagerduty"]


async def test_what_is_over_within_a_silence_is_told_to_nobody(world: Any) -> None:
    end = world.now + 15 * SECOND
    await silence(world, end, "dagger=bookings")
    async with world.monitor() as running:
        await running.steps(3)
        await world.fail_dagger()
        await running.steps(5)
        await world.mend_dagger()
        await running.steps(12)
        assert world.now > end + 3 * SECOND

    assert world.shown == []
    assert (await world.events())[-1] == "AlertResolved"


async def test_a_silence_of_others_holds_nothing_back_and_one_that_is_ended_no_more(world: Any) -> None:
    await silence(world, world.now + 3600 * SECOND, "dagger=book*")
    async with world.monitor() as running:
        await running.steps(3)
        await world.fail_dagger()
        await running.steps(5)
        assert world.kinds() == []
        await end_silence(world)
        await running.steps(3)

    assert world.kinds() == ["pagerduty triggered"]


async def test_an_outage_of_kafka_that_somebody_silenced_is_told_to_nobody(world: Any) -> None:
    await silence(world, world.now + 3600 * SECOND, "condition=kafka_away")
    async with world.monitor() as running:
        await running.steps(3)
        world.refuses = lambda _: True
        await running.steps(60)
        assert running.monitor.deliveries.has_outage
        world.refuses = lambda _: False
        await running.steps(20)

    assert world.shown == []
    assert (await world.events())[-2:] == ["OutageReported", "AlertResolved"]


async def test_a_silence_that_ends_soon_is_announced_once_and_by_no_monitor_again(world: Any) -> None:
    end = world.now + 40 * 60 * SECOND
    await silence(world, end, "dagger=bookings")
    async with world.monitor() as first:
        await first.steps(3)
        await world.fail_dagger()
        await first.steps(5)
        await first.step((end - world.now - ENDS_SOON).total_seconds() - 3)
        await first.step()
        assert world.shown == []
        await first.steps(5)
    async with world.monitor("two") as second:
        await second.steps(20)

    text = unescape(world.shown[0])
    assert len(world.shown) == 1
    assert "warning, silence ends (id=pricing/1)" in text
    assert (
        "the silence of dagger=bookings ends at 2026-01-01 12:40:00 UTC, and holds back 1 open alert" in text
    )
    assert "silenced by: user:ada" in text
    assert "reason: deploy" in text
    assert "next: `daggers alerts silence dagger=bookings --for 2h --reason deploy` goes on with it" in text
    assert [event for event in await world.events() if "Notification" in event] == ["SilenceNotificationSent"]


async def test_a_receiver_that_is_away_is_told_later_that_a_silence_ends(world: Any) -> None:
    end = world.now + 40 * 60 * SECOND
    await silence(world, end, "dagger=bookings")
    world.answer = lambda _: web.Response(status=503)
    async with world.monitor() as running:
        await running.steps(3)
        await world.fail_dagger()
        await running.steps(5)
        await running.step((end - world.now - ENDS_SOON).total_seconds() + 1)
        world.answer = lambda _: None
        await running.steps(5)

    assert len(world.shown) == 1
    assert "attempt 2: an earlier one may have come through" in world.shown[0]
    assert [event for event in await world.events() if "Notification" in event] == [
        "SilenceNotificationFailed", "SilenceNotificationSent",
    ]  # fmt: skip
