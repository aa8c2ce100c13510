"""A host that is away is one incident: those of its daggers are kept, and told where they outlive it."""

from __future__ import annotations

from typing import Any

from daggers.v1 import alerts_pb2, events_pb2, spec_pb2, telemetry_pb2

from eventlog import Draft
from fleet.alerts.alert import HOST

HOST_AWAY, UNREACHABLE = alerts_pb2.ALERT_CONDITION_HOST_AWAY, alerts_pb2.ALERT_CONDITION_UNREACHABLE


async def launch(world: Any, name: str, host: str) -> int:
    """Create a dagger that runs on a host; its generation."""
    await world.tell(events_pb2.DaggerRequested(name=name, spec=spec_pb2.DaggerSpec(team="pricing")))
    meta = events_pb2.FactMeta(epoch=world.epoch, name=name)
    await world.tell(events_pb2.LaunchIntended(meta=meta, submission_id="x", version=1))
    meta.generation = await world.control.end()
    await world.tell(events_pb2.Launched(meta=meta, driver=events_pb2.DriverHandle(host=host)))
    await world.tell(events_pb2.Running(meta=meta))
    return meta.generation


async def beat(world: Any, generations: dict[str, int]) -> None:
    """Say that these daggers are well."""
    for name, generation in generations.items():
        message = telemetry_pb2.Heartbeat(dagger=name, generation=generation)
        message.time.FromDatetime(world.now)
        message.last_progress.FromDatetime(world.now)
        await world.beats.append(Draft(f"{name}", "/test", name, world.now, message))


async def open_alerts(running: Any) -> set[tuple[str, int]]:
    return {key for key, alert in running.monitor.ledger.alerts.items() if alert.firing}


async def test_a_host_that_is_away_is_told_in_place_of_its_daggers(world: Any) -> None:
    there = {name: await launch(world, name, "h2") for name in ("orders", "trips", "rides")}
    other = {"crm": await launch(world, "crm", "h3"), "bookings": world.generation}
    async with world.monitor() as running:
        for _ in range(5):
            await beat(world, {**there, **other})
            await running.step()
        for _ in range(50):  # silence of h2
            await beat(world, other)
            await running.step()
        ledger = running.monitor.ledger
        cause = ledger.alert(f"{HOST}h2", HOST_AWAY)
        followers = {alert.dagger for alert in ledger.list_held(cause)}
        before = list(world.kinds())
        texts = [line for line in world.shown if line.startswith("pagerduty")]
        for _ in range(10):  # it is back, but for one
            await beat(world, {**other, "orders": there["orders"], "trips": there["trips"]})
            await running.step()
        after = list(world.kinds())
        opened = await open_alerts(running)

    assert cause.firing
    assert followers == {"orders", "trips", "rides"}
    assert before == ["pagerduty triggered"]
    assert "none of the 3 daggers on h2" in texts[0]
    assert opened == {("rides", UNREACHABLE)}  # it outlives its cause
    assert sorted(after) == ["pagerduty resolved", "pagerduty triggered", "pagerduty triggered"]


async def test_one_dagger_alone_is_no_host(world: Any) -> None:
    there = {"orders": await launch(world, "orders", "h2")}
    async with world.monitor() as running:
        for _ in range(3):
            await beat(world, there)
            await running.step()
        for _ in range(50):
            await world.leader_beat()
            await running.step()
        opened = await open_alerts(running)

    assert (f"{HOST}h2", HOST_AWAY) not in opened
    assert ("orders", UNREACHABLE) in opened
