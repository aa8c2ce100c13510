"""Drains with real processes: daggers move from host to host, one after another; starts wait for a core."""

from __future__ import annotations

import asyncio
from collections import Counter

from daggers.v1 import events_pb2, gateway_pb2
from services.scheduler.tests.scheduler_agents import THERE, agent, register
from services.scheduler.tests.scheduler_world import HOST, META, World

from election import identity
from eventlog.testing import START
from fleet import Dagger, Fleet
from fleet.decide.drain import CAME_BACK, HOST_CORDONED
from fleet.fold.dagger import create_dagger
from fleet.fold.hosts import Standing
from fleet.fold.phases import STARTING
from scheduler.leader.starts import Starts

AFAR = "afar"


async def change(world: World, kind: type, host: str) -> None:
    await world.append(kind(meta=META, host=host), f"host/{host}")


async def test_a_drain_moves_one_dagger_after_another_and_tells_the_silence_of_each(world: World) -> None:
    async with agent(world, HOST, max_drivers=0):
        await world.ask(name="d")
        await world.until(lambda dagger: dagger.last_error is not None)
        async with agent(world):
            first = await world.running(name="d")
            await world.ask(name="e")
            second = await world.running(name="e")
            await change(world, events_pb2.HostDrainRequested, THERE)
            async with agent(world, AFAR):
                moved = await world.running(name="d", after=first.generation)
                meanwhile = len(world.facts(events_pb2.StopIssued, name="e"))
                other = await world.running(name="e", after=second.generation)

    hosts = [dagger.driver.host for dagger in (first, second, moved, other) if dagger.driver]
    stops = [*world.facts(events_pb2.StopIssued, name="d"), *world.facts(events_pb2.StopIssued, name="e")]
    cordon = world.fleet.standing(THERE).cordon
    assert hosts == [THERE, THERE, AFAR, AFAR]
    assert (meanwhile, [stop.move for stop in stops]) == (0, [True, True])
    assert cordon is not None
    assert [(move.dagger, move.to_host) for move in cordon.moves] == [("d", AFAR), ("e", AFAR)]
    assert all(move.HasField("last_commit") and move.HasField("first_commit") for move in cordon.moves)
    assert cordon.moves[0].first_commit.ToNanoseconds() <= cordon.moves[1].stop_time.ToNanoseconds()


async def test_a_leader_drains_its_own_host_and_an_uncordoned_host_keeps_the_rest(world: World) -> None:
    async with agent(world, HOST), agent(world, THERE):
        for name in "de":
            await world.ask(name=name)
            await world.running(name=name)
        await change(world, events_pb2.HostDrainRequested, HOST)
        stopped = await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPING, name="d")
        await change(world, events_pb2.HostUncordoned, HOST)
        await world.running(name="d", after=stopped.generation)
        rest = world.fleet.daggers["e"]

    assert world.facts(events_pb2.StopIssued, name="e") == []
    assert rest.driver is not None
    assert rest.driver.host == HOST


async def test_a_dagger_waits_while_all_hosts_are_cordoned_and_a_restart_needs_no_other(world: World) -> None:
    async with agent(world, HOST):
        await world.ask(name="d")
        first = await world.running(name="d")
        await change(world, events_pb2.HostCordoned, HOST)
        await world.ask(name="e")
        waiting = await world.until(lambda dagger: dagger.last_error is not None, name="e")
        await world.append(events_pb2.RestartRequested(meta=META, name="d"))
        again = await world.running(name="d", after=first.generation)
        await change(world, events_pb2.HostUncordoned, HOST)
        await world.running(name="e")

    assert waiting.last_error is not None
    assert waiting.last_error.reason == HOST_CORDONED
    assert again.driver is not None
    assert again.driver.host == HOST
    assert CAME_BACK not in {error.reason for error in (again.last_error, waiting.last_error) if error}


async def test_a_host_begins_as_many_starts_at_once_as_it_has_cores(world: World) -> None:
    me, names = identity(), "abcdef"
    registered = register(HOST, me, cores=2)
    counts = []

    def list_in(phase: int) -> list[Dagger]:
        return [dagger for dagger in world.fleet.daggers.values() if dagger.phase == phase]

    async with world.serving(registered=registered, scheduler_id=me, shared=True):
        for name in names:
            await world.ask(name=name)
        async with asyncio.timeout(60):
            async for record in world.control.follow(world.fleet.sequence):
                world.fleet.apply(record)
                starting, running = list_in(STARTING), list_in(gateway_pb2.RUNNING)
                counts.append(len(starting))
                if len(running) == len(names):
                    break
                launched = [dagger for dagger in starting if dagger.driver is not None]
                if len(launched) == min(2, len(names) - len(running)):
                    await world.heartbeat(launched[0])  # the start that comes next waits for this one

    assert max(counts) == 2
    assert all(dagger.attempt == 0 for dagger in world.fleet.daggers.values())


async def test_edits_on_a_cordoned_host_wait_for_their_turn_where_their_successors_start(
    world: World,
) -> None:
    names, most, before, begun = "def", 0, {}, set[int]()
    async with agent(world, HOST, cores=1):
        await world.ask(name="stays")
        await world.running(name="stays")
        await change(world, events_pb2.HostCordoned, HOST)
        async with agent(world, THERE, cores=1), asyncio.timeout(60):
            for name in names:
                await world.ask(name=name)
                before[name] = await world.running(name=name)
            await change(world, events_pb2.HostUncordoned, HOST)
            await change(world, events_pb2.HostCordoned, THERE)
            for name in names:
                await world.ask("run other", name=name)
            async for record in world.control.follow(world.fleet.sequence):
                world.fleet.apply(record)
                daggers = [world.fleet.daggers[name] for name in names]
                phases = Counter(dagger.phase for dagger in daggers)
                most = max(most, len(names) - phases[gateway_pb2.RUNNING])
                for dagger in daggers:
                    if (
                        dagger.phase == STARTING
                        and dagger.driver is not None
                        and dagger.generation not in begun
                    ):
                        begun.add(dagger.generation)
                        await asyncio.sleep(0.5)  # in which the next one would be stopped
                        await world.heartbeat(dagger)
                edited = [dagger for dagger in daggers if dagger.generation > before[dagger.name].generation]
                if len(edited) == len(names) == phases[gateway_pb2.RUNNING]:
                    break

    assert {dagger.host for dagger in before.values()} == {THERE}
    assert {dagger.host for dagger in daggers} == {HOST}
    assert most == 1


def test_a_start_that_waited_and_is_not_asked_for_again_is_not_due_at_each_look() -> None:
    fleet = Fleet()
    fleet.standings[HOST] = Standing(registered=events_pb2.HostRegistered(host=HOST, cores=1))
    request = events_pb2.DaggerRequested(name="d")
    for name, more in {"d": {}, "e": {"phase": STARTING, "host": HOST, "generation": 1}}.items():
        fleet.put(create_dagger(request, 1, START).but(name=name, **more))
    fleet.sequence = 1
    starts = Starts(fleet, lambda: START)
    admitted, waiting = starts.admits(fleet.daggers["d"], HOST), starts.order([])
    fleet.put(fleet.daggers["e"].but(phase=gateway_pb2.RUNNING))
    fleet.sequence = 2
    due, later = starts.order([]), starts.order([])

    assert (admitted, waiting, due, later) == (False, [], ["d"], [])
