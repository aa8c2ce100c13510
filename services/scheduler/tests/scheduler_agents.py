"""Two hosts with real processes, for tests: one leads, the other's agent launches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from daggers.v1 import events_pb2
from services.scheduler.tests.scheduler_world import HOST, World

from election import identity
from fleet import Dagger
from fleet.fold.hosts import AGENT

THERE = "there"


def register(
    host: str, scheduler_id: str, *, shared: bool = True, level: int = AGENT, cores: int = 0
) -> events_pb2.HostRegistered:
    return events_pb2.HostRegistered(
        scheduler_id=scheduler_id,
        host=host,
        boot_id="b",
        agent=level,
        shared_checkpoints=shared,
        cores=cores,
    )


@asynccontextmanager
async def agent(
    world: World, host: str = THERE, *, level: int = AGENT, cores: int = 0, **how: object
) -> AsyncIterator[str]:
    """Run a scheduler that registers a host, and stands by unless nobody leads; gives its identity.

    level: what its agent says that it can do. cores: of its host; 0 where it does not say.
    """
    me = identity()
    how = {"patience": 600.0, "shared": True} | how
    shares = bool(how["shared"])
    registered = register(host, me, shared=shares, level=level, cores=cores)
    async with world.serving(registered=registered, host=host, scheduler_id=me, **how) as task:
        yield me
        if task.done():
            await task


@asynccontextmanager
async def two_hosts(world: World) -> AsyncIterator[Dagger]:
    """Run a leader whose host takes no driver, and an agent; gives the dagger on the agent's host."""
    async with agent(world, HOST, max_drivers=0):
        await world.ask()
        await world.until(lambda dagger: dagger.last_error is not None)  # somebody leads
        async with agent(world):
            yield await world.running()


async def ask_in_vain(world: World) -> None:
    """Ask for a dagger that the leader's host has no room for, and wait until that is said."""
    await world.ask()
    await world.until(lambda dagger: dagger.last_error is not None)
