"""What becomes of daggers whose host is gone, and of a host that is not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final
from uuid import uuid4

import pytest
from daggers.v1 import events_pb2, telemetry_pb2
from services.scheduler.tests.scheduler_agents import THERE, agent, register
from services.scheduler.tests.scheduler_world import DEADLINE_S, HOST, META, World

from daggerspec import anew
from eventlog import Draft
from fleet import Fleet
from fleet.fold.hosts import Standing, host_subject
from scheduler.leader.host_watch import BEAT_EVERY, GONE_AFTER

_LOOKS_S: Final = 0.15
"""Time in which a leader looks at silent hosts at least once."""


async def standing_of(world: World, host: str) -> Standing:
    """Fold what stands in the log now, and return the standing of a host."""
    unread = range(world.fleet.sequence + 1, await world.control.end() + 1)
    for record in await world.control.read(unread):
        world.fleet.apply(record)
    return world.fleet.standing(host)


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


# ---- A host that is silent ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_reached", [True, False])
async def test_a_silent_host_is_gone_while_the_shared_root_is_reached(
    world: World, *, is_reached: bool
) -> None:
    """Take nobody for gone without the root: who leads may be the one that is cut off."""
    root = world.state_dir / "shared"
    async with agent(world, HOST):
        if is_reached:
            root.mkdir()
            (root / anew.MARKER).touch()
        await world.append(register(THERE, "nobody"), host_subject(THERE))
        standing, silent = Standing(), timedelta(0)
        while silent < 2 * GONE_AFTER and not standing.is_gone:
            world.ahead += BEAT_EVERY
            silent += BEAT_EVERY
            beat = telemetry_pb2.SchedulerBeat(epoch=0)
            await world.beats.append(Draft(uuid4().hex, "/test", "scheduler", world.now(), beat))
            await asyncio.sleep(_LOOKS_S)
            standing = await standing_of(world, THERE)

    assert standing.is_gone is is_reached
    assert silent >= GONE_AFTER
    if standing.loss is not None:
        assert standing.loss.event.cause == events_pb2.HOST_GONE_CAUSE_SILENCE
        assert silent <= GONE_AFTER + 4 * BEAT_EVERY
