"""Schedulers with real processes that keep a spare: who gets it, and what becomes of it in every fall."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, spec_pb2
from services.scheduler.tests.scheduler_world import META, World, there, until
from tests.contracts.logs import TroubledLog, nothing

from chassis import drivers, processes
from daggerspec.rundir import IDENTITY, SPARE, DriverIdentity
from eventlog import Draft
from fleet import Dagger


async def registered(world: World) -> None:
    cluster = spec_pb2.Cluster(name="local", spark_master="local[1]")
    await world.append(events_pb2.ClusterRegistered(meta=META, cluster=cluster), "local")


def spares(world: World) -> list[DriverIdentity]:
    """The spares that live, and wait for a launch."""
    return [dagger for dagger in world.drivers().living() if dagger.dagger == SPARE]


async def ready(world: World) -> DriverIdentity:
    """The spare, once it could take a launch."""
    await until(lambda: any(map(world.drivers().ready, spares(world))), "there is no spare")
    [spare] = spares(world)
    return spare


def link_of(spare: DriverIdentity) -> bool:
    """Whether a link stands where it waited."""
    return Path(spare.run_dir).is_symlink()


def handle(dagger: Dagger) -> events_pb2.DriverHandle:
    assert dagger.driver is not None
    return dagger.driver


async def test_a_launch_takes_the_spare_and_another_is_kept_once_it_runs(world: World) -> None:
    async with world.serving(spare=True):
        await registered(world)
        spare = await ready(world)
        await world.ask()
        dagger = await world.running()
        another = await ready(world)

    assert (handle(dagger).pid, handle(dagger).spare) == (spare.pid, True)
    assert another.pid != spare.pid
    assert world.story() == ["DaggerRequested", "LaunchIntended", "Launched", "Running"]


async def test_a_launch_with_a_memory_of_its_own_starts_cold_beside_the_spare(world: World) -> None:
    async with world.serving(spare=True):
        await registered(world)
        spare = await ready(world)
        await world.ask(memory_mib=900)
        dagger = await world.running()

        assert (handle(dagger).spare, spares(world)) == (False, [spare])


async def test_without_the_setting_there_is_no_spare(world: World) -> None:
    async with world.serving():
        await world.ask()
        dagger = await world.running()

    assert (handle(dagger).spare, (world.state_dir / "runs" / SPARE).exists()) == (False, False)


async def test_the_next_scheduler_adopts_a_driver_that_was_a_spare_and_ends_the_spare_of_the_last(
    world: World,
) -> None:
    async with world.serving(spare=True):
        await registered(world)
        await ready(world)
        await world.ask()
        before = await world.running()
        left = await ready(world)
    async with world.serving(spare=True):
        after = await world.until(lambda dagger: dagger.epoch > before.epoch)
        await until(lambda: processes.find(left.pid) is None, "it lives on")
        await ready(world)

    assert world.facts(events_pb2.Launched)[-1].adopted
    assert handle(after) == handle(before)
    assert handle(after).spare


async def test_a_launch_whose_scheduler_ended_before_it_said_so_is_adopted_and_not_repeated(
    world: World,
) -> None:
    log = world.control = TroubledLog()

    async def killed(draft: Draft) -> None:
        if isinstance(draft.message, events_pb2.Launched):
            await until(lambda: False, "the scheduler is never heard of again")

    async with world.serving(spare=True) as scheduler:
        await registered(world)
        spare = await ready(world)
        log.before = killed
        await world.ask()
        inherited = await world.until(lambda dagger: dagger.unanswered)
        run_dir = world.state_dir / "runs" / "d" / str(inherited.generation)
        await there(run_dir / "identity.json")
        scheduler.cancel()
    log.before = nothing
    async with world.serving():
        dagger = await world.launched()

    assert (dagger.generation, handle(dagger).pid) == (inherited.generation, spare.pid)
    assert [fact.adopted for fact in world.facts(events_pb2.Launched)] == [True]


async def test_a_spare_that_was_killed_costs_a_launch_nothing(world: World) -> None:
    async with world.serving(spare=True):
        await registered(world)
        spare = await ready(world)
        for member in drivers.members(spare):
            os.kill(member.pid, signal.SIGKILL)
        await until(lambda: not drivers.alive(spare), "it lives on")
        await world.ask()
        dagger = await world.running()

    assert (handle(dagger).spare, dagger.attempt) == (False, 0)
    assert world.story() == ["DaggerRequested", "LaunchIntended", "Launched", "Running"]


async def test_a_driver_that_was_a_spare_and_is_killed_is_launched_again(world: World) -> None:
    async with world.serving(spare=True):
        await registered(world)
        await ready(world)
        await world.ask()
        first = await world.running()
        for member in drivers.members(handle(first)):
            os.kill(member.pid, signal.SIGKILL)
        again = await world.running(after=first.generation)

    assert again.generation > first.generation
    assert "Exited" in world.story()


async def test_a_spare_is_not_kept_where_it_would_be_one_driver_too_many(world: World) -> None:
    async with world.serving(spare=True, max_drivers=1):
        await registered(world)
        spare = await ready(world)
        await world.ask()
        dagger = await world.running()
        await world.append(events_pb2.RestartRequested(meta=META, name="d"))
        again = await world.running(after=dagger.generation)

        assert (handle(dagger).pid, spares(world)) == (spare.pid, [])
        assert not handle(again).spare


@pytest.mark.long
async def test_a_spare_gives_way_to_a_launch_that_is_not_its_own(world: World) -> None:
    async with world.serving(spare=True, max_drivers=1):
        await registered(world)
        await ready(world)
        await world.ask(memory_mib=900)
        await world.running()
        await until(lambda: spares(world) == [], "the spare is still there")


async def test_a_leader_that_is_deposed_ends_its_spare(world: World) -> None:
    async with world.serving(spare=True, patience=60):
        await registered(world)
        await ready(world)
        await world.append(events_pb2.SchedulerStarted(scheduler_id="another", host="there"), "scheduler")
        await until(lambda: spares(world) == [], "the spare is still there")


async def test_what_a_driver_leaves_that_was_a_spare_is_removed_with_it(world: World) -> None:
    async with world.serving(spare=True, max_drivers=1):
        await registered(world)
        spare = await ready(world)
        await world.ask()
        dagger = await world.running()
        await until(lambda: link_of(spare), "it never left a link")
        await world.append(events_pb2.StopRequested(meta=META, name="d", mode=events_pb2.STOP_MODE_NOW))
        await until(lambda: not link_of(spare), "its link is still there")

    assert (Path(handle(dagger).run_dir) / "identity.json").exists()


async def test_nobody_else_says_what_a_spare_is(world: World) -> None:
    """Who would, while it becomes a driver, would say it of that driver: a link leads there."""
    async with world.serving(spare=True):
        await registered(world)
        spare = await ready(world)
        said = Path(spare.run_dir) / IDENTITY
        aside = said.rename(said.with_name("aside"))
        world.drivers()  # as another scheduler of this host, which starts

        assert not said.exists()
        aside.rename(said)


@pytest.mark.long
@pytest.mark.parametrize("where", ["spec.pb", "identity.json"])
async def test_a_spare_that_cannot_be_given_its_launch_is_killed_and_the_launch_tried_again(
    world: World, where: str
) -> None:
    async with world.serving(spare=True):
        await registered(world)
        spare = await ready(world)
        (Path(spare.run_dir) / where).unlink(missing_ok=True)
        (Path(spare.run_dir) / where / "in-the-way").mkdir(parents=True)
        await world.ask()
        dagger = await world.running()

    assert not handle(dagger).spare
    assert "LaunchFailed" in world.story()
