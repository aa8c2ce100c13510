"""A team that uses more than where its quotas warn: one alert of the team, told to its receivers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from daggers.v1 import access_pb2, alerts_pb2, events_pb2, spec_pb2

from eventlog.testing import given
from fleet import Fleet
from fleet.alerts.ledger import Ledger
from fleet.health import watch
from health_monitor.conditions import team_quota

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def team(slack: Path | None = None, **soft: int) -> events_pb2.TeamRegistered:
    quotas = access_pb2.Quotas(**{name: access_pb2.Quota(soft=bound) for name, bound in soft.items()})
    told = access_pb2.Team(name="pricing", quotas=quotas)
    if slack is not None:
        told.receivers.add(kind="slack").secrets["url"].file = str(slack)
    return events_pb2.TeamRegistered(team=told)


async def alerts(world: Any) -> list[Any]:
    kinds = (alerts_pb2.AlertFired, alerts_pb2.AlertResolved)
    return [record.message async for record in world.alerts.replay() if isinstance(record.message, kinds)]


async def steps(world: Any, running: Any, count: int) -> None:
    for _ in range(count):
        await world.beat()
        await running.step()


async def test_a_team_above_its_quota_fires_once_for_all_its_daggers_and_resolves_below_it(
    world: Any,
) -> None:
    await world.tell(events_pb2.DaggerRequested(name="other", spec=spec_pb2.DaggerSpec(team="pricing")))
    await world.tell(team(daggers=1, drivers=5))
    async with world.monitor() as running:
        await steps(world, running, 6)
        await world.tell(team(daggers=2, drivers=5))
        await steps(world, running, 6)

    fired, resolved = [alert for alert in await alerts(world) if alert.meta.dagger == "team/pricing"]
    assert fired.meta.condition == resolved.meta.condition == team_quota.CONDITION
    assert (fired.severity, fired.team) == (alerts_pb2.ALERT_SEVERITY_WARNING, "pricing")
    assert fired.summary == "team pricing has more than 1 daggers, from where on its quota warns"
    assert (fired.value, fired.limit, fired.unit) == (2, 1, "count")
    assert fired.next == "Read `daggers team usage pricing`: it says what each dagger takes."
    assert fired.receivers == ["slack", "pagerduty"]
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


async def test_the_receivers_of_the_team_are_told(world: Any, tmp_path: Path) -> None:
    file = tmp_path / "slack"
    file.write_text(f"{world.receiver.slack_url}?of=pricing\n")
    await world.tell(team(file, daggers=0))
    async with world.monitor() as running:
        await steps(world, running, 6)

    (fired,) = await alerts(world)
    assert fired.receivers == ["pricing/slack"]


async def test_a_team_whose_quotas_warn_of_nothing_any_more_is_over(world: Any) -> None:
    await world.tell(team(daggers=0))
    async with world.monitor() as running:
        await steps(world, running, 5)
        await world.tell(team())
        await steps(world, running, 5)

    assert [type(alert).__name__ for alert in await alerts(world)] == ["AlertFired", "AlertResolved"]


def fleet_of(**soft: int) -> Fleet:
    fleet = Fleet()
    request = events_pb2.DaggerRequested(name="bookings", spec=spec_pb2.DaggerSpec(team="pricing"))
    meta = events_pb2.FactMeta(epoch=0, name="bookings")
    facts = (events_pb2.LaunchIntended(meta=meta, version=1),)
    for record in given(events_pb2.SchedulerStarted(scheduler_id="s"), team(**soft), request, *facts):
        fleet.apply(record)
    return fleet


def test_while_nobody_hears_drivers_nothing_is_known_of_what_they_read() -> None:
    fleet = fleet_of(records_per_second=1)
    watches = {"bookings": watch.begin(NOON, 3)}

    def judged(**known: Any) -> Any:
        return team_quota.judge(fleet, "pricing", **({"watches": watches, "hearing": NOON} | known), now=NOON)

    assert judged(hearing=None) is None
    assert judged(watches={}) is None
    assert judged().active is False


def test_a_team_that_nothing_warns_of_is_not_looked_at() -> None:
    assert team_quota.teams_to_judge(fleet_of(), Ledger()) == []
    assert team_quota.teams_to_judge(fleet_of(drivers=1), Ledger()) == ["pricing"]
