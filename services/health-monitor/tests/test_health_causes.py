"""Spark and stores that are away are one incident each: alerts of their daggers are kept meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, timedelta
from typing import Any

from daggers.v1 import alerts_pb2, events_pb2, spec_pb2, telemetry_pb2

from daggerspec.exits import NO_EXECUTORS
from eventlog import Draft
from fleet.alerts.alert import CLUSTER, STORE

SPARK_AWAY, STORE_AWAY = alerts_pb2.ALERT_CONDITION_SPARK_AWAY, alerts_pb2.ALERT_CONDITION_STORE_AWAY
NO_PROGRESS = alerts_pb2.ALERT_CONDITION_NO_PROGRESS
SERVER = "influx.example:8086"
NAMES = ("orders", "trips", "rides")
MISSING = events_pb2.DaggerError(
    domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason="NOT_REACHED", detail="influx: nobody listens"
)
_WITHOUT = events_pb2.DaggerError(
    domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason=NO_EXECUTORS, detail="Spark master does not answer"
)


def build_spec() -> spec_pb2.DaggerSpec:
    influx = spec_pb2.InfluxSink(
        measurement="m",
        address=spec_pb2.InfluxAddress(url=f"https://{SERVER}", org="-", bucket="b"),
    )
    return spec_pb2.DaggerSpec(
        team="pricing", cluster="blue", sinks=[spec_pb2.Sink(name="influx", influx=influx)]
    )


async def launch(world: Any, name: str) -> events_pb2.FactMeta:
    """Create a dagger that runs; return the meta of its facts."""
    await world.tell(events_pb2.DaggerRequested(name=name, spec=build_spec()))
    meta = events_pb2.FactMeta(epoch=world.epoch, name=name)
    await relaunch(world, meta)
    return meta


async def relaunch(world: Any, meta: events_pb2.FactMeta) -> None:
    meta.ClearField("generation")
    await world.tell(events_pb2.LaunchIntended(meta=meta, submission_id="x", version=1))
    meta.generation = await world.control.end()
    await world.tell(events_pb2.Launched(meta=meta, driver=events_pb2.DriverHandle(host="h2")))
    await world.tell(events_pb2.Running(meta=meta))


async def beat(world: Any, metas: Iterable[events_pb2.FactMeta], *, stands_since: Any = None) -> None:
    """Say that daggers are well, or that their sink has taken no rows since then."""
    await world.beat()  # of the dagger that is there, and is well
    for meta in metas:
        message = telemetry_pb2.Heartbeat(
            dagger=meta.name, generation=meta.generation, retrying=[MISSING] if stands_since else ()
        )
        message.time.FromDatetime(world.now)
        message.last_progress.FromDatetime(stands_since or world.now)
        await world.beats.append(Draft(meta.name, "/test", meta.name, world.now, message))


async def test_a_store_that_is_away_is_told_in_place_of_its_daggers(world: Any) -> None:
    metas = [await launch(world, name) for name in NAMES]
    async with world.monitor() as running:
        for _ in range(5):
            await beat(world, metas)
            await running.step()
        since = world.now
        for _ in range(140):
            await beat(world, metas, stands_since=since)
            await running.step()
        ledger = running.monitor.ledger
        cause = ledger.alert(f"{STORE}{SERVER}", STORE_AWAY)
        followers = {(alert.dagger, alert.condition) for alert in ledger.list_held(cause)}
        notified = list(world.kinds())
        for _ in range(10):
            await beat(world, metas)
            await running.step()
        opened = [alert.subject for alert in ledger.list_open()]

    assert cause.fired is not None
    assert cause.fired.summary.startswith(f"3 daggers wait for {SERVER}, which takes no rows: ")
    assert cause.fired.since.ToDatetime(tzinfo=UTC) - since <= timedelta(seconds=1)
    assert followers == {(name, NO_PROGRESS) for name in NAMES}
    assert notified == ["pagerduty triggered"]
    assert opened == []
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]


async def test_one_dagger_that_waits_for_its_store_is_told_by_itself(world: Any) -> None:
    metas = [await launch(world, name) for name in NAMES]
    async with world.monitor() as running:
        since = world.now
        for _ in range(140):
            await beat(world, metas[:1], stands_since=since)
            await beat(world, metas[1:])
            await running.step()
        opened = [(alert.dagger, alert.condition) for alert in running.monitor.ledger.list_open()]
        fired = running.monitor.ledger.alert("orders", NO_PROGRESS).fired

    assert opened == [("orders", NO_PROGRESS)]
    assert (fired.store, fired.cluster) == (SERVER, "blue")


async def test_a_spark_that_gives_no_executors_is_told_in_place_of_its_daggers(world: Any) -> None:
    metas = [await launch(world, name) for name in NAMES]
    async with world.monitor() as running:
        for _ in range(5):
            await beat(world, metas)
            await running.step()
        for meta in metas:
            await world.tell(events_pb2.Exited(meta=meta, code=69, error=_WITHOUT))
        for _ in range(140):
            await beat(world, ())
            await running.step()
        ledger = running.monitor.ledger
        cause = ledger.alert(f"{CLUSTER}blue", SPARK_AWAY)
        followers = {alert.dagger for alert in ledger.list_held(cause)}
        notified = list(world.kinds())
        for meta in metas:
            await relaunch(world, meta)
        for _ in range(10):
            await beat(world, metas)
            await running.step()
        opened = [alert.subject for alert in ledger.list_open()]

    assert cause.fired is not None
    assert cause.fired.summary.startswith("3 daggers of cluster blue have no executors")
    assert followers == set(NAMES)
    assert notified == ["pagerduty triggered"]
    assert opened == []
    assert world.kinds() == ["pagerduty triggered", "pagerduty resolved"]
