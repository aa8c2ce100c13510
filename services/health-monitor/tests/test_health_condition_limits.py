"""A dagger, its team and the platform say when conditions are alerts, also while the monitor runs."""

from __future__ import annotations

from typing import Any

from daggers.v1 import access_pb2, alerts_pb2, events_pb2, rules_pb2
from google.protobuf.duration_pb2 import Duration

Said = rules_pb2.ConditionLimits


async def test_a_team_switches_a_condition_off_and_on_again(world: Any) -> None:
    async def say(*, off: bool) -> None:
        team = access_pb2.Team(name="pricing", conditions={"failed": Said(off=off)})
        await world.tell(events_pb2.TeamRegistered(team=team))

    async with world.monitor() as running:
        await say(off=True)
        await world.fail_dagger()
        await running.steps(6)
        before = world.kinds()
        await say(off=False)
        await running.steps(6)
        during = world.kinds()
        await say(off=True)
        await running.steps(3)

    assert before == []
    assert during == ["pagerduty triggered"]
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


async def test_the_platform_says_how_long_a_condition_must_hold_and_the_monitor_what_it_has(
    world: Any,
) -> None:
    team = access_pb2.Team(name="platform", conditions={"failed": Said(hold=Duration(seconds=20))})
    await world.tell(events_pb2.TeamRegistered(team=team))
    async with world.monitor() as running:
        await running.steps(2)
        await world.fail_dagger()
        await running.steps(15)
        early = world.kinds()
        await running.steps(10)
        settings = running.monitor.ledger.monitor_conditions
    claims = [
        record.message
        async for record in world.alerts.replay()
        if isinstance(record.message, alerts_pb2.MonitorStarted)
    ]

    assert (early, world.kinds()) == ([], ["pagerduty triggered"])
    assert settings["no_progress"].limit == 120
    assert claims[0].conditions["failed"].hold.ToSeconds() == 2
