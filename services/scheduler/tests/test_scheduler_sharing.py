"""Schedulers with real processes that several daggers share: who joins, what ends one, and what ends all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from services.scheduler.tests.scheduler_world import META, World, run_dir, there, until

from chassis import drivers, processes
from daggerspec import rundir
from fleet import Dagger
from fleet.fold.phases import RUNNING, STOPPED
from scheduler.drivers import process_table

SHARED = spec_pb2.ISOLATION_SHARED


def handle(dagger: Dagger) -> events_pb2.DriverHandle:
    assert dagger.driver is not None
    return dagger.driver


async def run(world: World, *names: str, sql: str = "run", team: str = "one") -> list[Dagger]:
    """Create shared daggers one after another, and return them once they run."""
    daggers = []
    for name in names:
        await world.ask(sql, name=name, isolation=SHARED, team=team)
        daggers.append(await world.running(name=name))
    return daggers


async def again(world: World, *before: Dagger) -> list[Dagger]:
    """Return daggers once a later launch of each runs: they start together, in any order."""

    def are_later() -> bool:
        return all(world.fleet.daggers[old.name].generation > old.generation for old in before)

    def are_launched() -> bool:
        return are_later() and all(world.fleet.daggers[old.name].driver is not None for old in before)

    def are_running() -> bool:
        return are_later() and all(world.fleet.daggers[old.name].phase == RUNNING for old in before)

    await reach(world, are_launched)
    for old in before:
        await there(run_dir(world.fleet.daggers[old.name]) / rundir.DRIVER)
        await world.heartbeat(world.fleet.daggers[old.name])
    await reach(world, are_running)
    return [world.fleet.daggers[old.name] for old in before]


async def reach(world: World, holds: Callable[[], bool]) -> None:
    """Read the log until something holds."""
    while not holds():
        await world.until(lambda _: True, name=next(iter(world.fleet.daggers)))


async def test_daggers_of_one_team_share_a_process_and_each_ends_alone(world: World) -> None:
    async with world.serving():
        a, b, c = await run(world, "a", "b", "c")
        (other,) = await run(world, "d", team="two")
        await world.append(events_pb2.StopRequested(meta=META, name="a"), "a")
        stopped = await world.until(lambda dagger: dagger.phase == STOPPED, name="a")
        await world.ask("run again", name="b", isolation=SHARED, team="one")
        edited = await world.running(name="b", after=b.generation)
        is_alive = drivers.alive(handle(c))
        company = [one.name for one in world.fleet.drivers.in_process(handle(c))]

    assert len({handle(dagger).pid for dagger in (a, b, c, edited)}) == 1
    assert handle(other).pid != handle(a).pid
    assert [handle(dagger).process_dir for dagger in (a, b, c)] == ["", *[handle(a).run_dir] * 2]
    assert stopped.last_exit is not None
    assert (stopped.last_exit.code, is_alive) == (0, True)
    assert sorted(company) == ["b", "c"]
    assert world.fleet.drivers.on("here").usage.drivers == 2


async def test_the_next_scheduler_adopts_all_of_a_process(world: World) -> None:
    async with world.serving():
        before = await run(world, "a", "b")
    async with world.serving():
        after = [
            await world.until(lambda dagger, old=old: dagger.epoch > old.epoch, name=old.name)
            for old in before
        ]
        await run(world, "c")

    assert [handle(dagger) for dagger in after] == [handle(dagger) for dagger in before]
    assert handle(world.fleet.daggers["c"]).pid == handle(before[0]).pid


async def test_who_dies_with_a_process_starts_again_with_the_others_and_no_attempt_counts(
    world: World,
) -> None:
    async with world.serving():
        before = await run(world, "a", "b", "c")
        os.killpg(handle(before[0]).pid, signal.SIGKILL)
        after = await again(world, *before)

    assert len({handle(dagger).pid for dagger in after}) == 1
    assert [dagger.attempt for dagger in after] == [0, 0, 0]
    assert [dagger.restarts for dagger in after] == [1, 1, 1]
    reasons = {dagger.last_exit.error.reason for dagger in after if dagger.last_exit is not None}
    assert reasons == {"PROCESS_LOST"}


async def test_who_was_computing_in_two_deaths_of_its_process_is_set_alone_until_it_is_edited(
    world: World,
) -> None:
    async with world.serving():
        a, b = await run(world, "a", "b")
        (culprit,) = await run(world, "c", sql="compute")
        for _ in range(2):
            os.killpg(handle(culprit).pid, signal.SIGKILL)
            a, b, culprit = await again(world, a, b, culprit)
        assert (a.isolated, b.isolated, culprit.isolated) == (False, False, True)
        assert handle(a).pid == handle(b).pid != handle(culprit).pid
        assert (a.attempt, culprit.attempt) == (0, 2)

        await world.ask("run", name="c", isolation=SHARED, team="one")
        edited = await world.running(name="c", after=culprit.generation)

    assert (edited.isolated, handle(edited).pid) == (False, handle(a).pid)


async def test_a_launch_that_does_not_end_when_it_is_asked_ends_with_its_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_table, "_PATIENCE_S", 0.5)
    async with world.serving():
        (other,) = await run(world, "a")
        (hanging,) = await run(world, "b", sql="hang")
        stop = events_pb2.StopRequested(meta=META, name="b", mode=events_pb2.STOP_MODE_NOW)
        await world.append(stop, "b")
        await world.until(lambda dagger: dagger.phase == STOPPED, name="b")
        (later,) = await again(world, other)

    assert handle(hanging).pid == handle(other).pid != handle(later).pid
    assert (later.attempt, later.suspected) == (0, None)


async def test_a_launch_that_has_no_link_yet_has_not_begun(world: World) -> None:
    async with world.serving():
        (a,) = await run(world, "a")
    job = spec_pb2.JobSpec(dagger="b", generation=99, run_dir=str(world.state_dir / "runs/b/99"))
    job.spec.sql = "run"
    table = world.drivers()
    joined = table.join(handle(a), job)
    assert joined is not None
    await there(Path(job.run_dir) / rundir.DRIVER)
    assert table.find("b", 99) == joined
    drivers.link_of(Path(job.run_dir), Path(handle(a).run_dir)).unlink()

    assert table.find("b", 99) is None
    assert [launch.dagger for launch in table.living()] == ["a"]


async def test_a_launch_that_its_scheduler_ends_was_not_ended_with_its_deployment(world: World) -> None:
    async with world.serving():
        a, b = await run(world, "a", "b")
    table = world.drivers()
    table.kill(handle(b))
    by_scheduler = table.deployment(handle(b))
    (run_dir(b) / rundir.KILL).unlink()

    assert (by_scheduler, drivers.alive(handle(a))) == ("", True)
    assert table.deployment(handle(b)).startswith("its deployment was taken down")


async def test_the_directory_of_a_process_stays_while_it_runs_others(world: World) -> None:
    async with world.serving():
        a, b = await run(world, "a", "b")
        await world.append(events_pb2.DeleteRequested(meta=META, name="a"), "a")
        await world.until(lambda dagger: dagger.phase == gateway_pb2.DELETED, name="a")
        world.ahead += process_table.retention.DELETED_KEPT * 2
        (c,) = await run(world, "c")
        assert processes.working_directory(handle(b).pid) == handle(a).run_dir
        os.killpg(handle(b).pid, signal.SIGKILL)
        await again(world, b, c)
        await until(lambda: not run_dir(a).exists(), "its directory stays")
