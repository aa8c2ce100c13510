"""What becomes of daggers whose host is gone, and of a host that is not."""

from __future__ import annotations

import asyncio

from daggers.v1 import events_pb2
from services.scheduler.tests.scheduler_world import DEADLINE_S, HOST, META, World

from fleet import Fleet
from fleet.fold.hosts import host_subject


def gone(host: str, epoch: int = 0) -> events_pb2.HostGone:
    return events_pb2.HostGone(meta=META, host=host, epoch=epoch, cause=events_pb2.HOST_GONE_CAUSE_PERSON)


async def test_a_dagger_of_a_host_that_is_gone_is_launched_by_the_leader(world: World) -> None:
    await world.append(events_pb2.SchedulerStarted(scheduler_id="afar", host="there"), "scheduler")
    await world.ask()
    meta = events_pb2.FactMeta(epoch=0, name="d")
    await world.append(events_pb2.LaunchIntended(meta=meta, version=1))
    meta.generation = await world.control.end()
    driver = events_pb2.DriverHandle(host="there", pid=7)
    await world.append(events_pb2.Launched(meta=meta, driver=driver))
    async with world.serving():
        await world.append(gone("there"), host_subject("there"))
        dagger = await world.launched(after=meta.generation)

    assert dagger.host == HOST
    assert [exited.error.reason for exited in world.facts(events_pb2.Exited)] == ["HOST_LOST"]


async def test_a_host_that_somebody_vouched_for_by_mistake_registers_again(world: World) -> None:
    await world.append(events_pb2.SchedulerStarted(scheduler_id="afar", host="there"), "scheduler")
    registered, fleet = events_pb2.HostRegistered(scheduler_id="standby", host=HOST), Fleet()
    async with world.serving(registered=registered, patience=600.0), asyncio.timeout(DEADLINE_S):
        async for record in world.control.follow():
            fleet.apply(record)
            standing = fleet.standing(HOST)
            if isinstance(record.message, events_pb2.HostRegistered) and standing.loss is None:
                await world.append(gone(HOST, standing.epoch), host_subject(HOST))
            elif isinstance(record.message, events_pb2.HostRegistered):
                break

    assert not standing.is_gone
    assert standing.has_lost(standing.loss.sequence - 1)  # type: ignore[union-attr] # as it was vouched for
