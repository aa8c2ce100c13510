"""The scheduler with real processes: how drivers are stopped, drained and killed."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from services.scheduler.tests.scheduler_world import (
    HOST,
    META,
    PATIENT,
    World,
    gone,
    run_dir,
    until,
)

from chassis import processes
from daggerspec import rundir
from fleet import Dagger
from fleet.decide.observation import Presence

NOW = events_pb2.STOP_MODE_NOW


async def test_a_stop_drains_the_driver(world: World) -> None:
    async with world.serving():
        await world.ask()
        running = await world.running()
        await world.append(events_pb2.StopRequested(meta=META, name="d"))
        stopped = await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPED)

    assert world.story()[-4:] == ["StopRequested", "StopIssued", "Exited", "Stopped"]
    assert world.facts(events_pb2.Exited)[0].code == 0
    assert (run_dir(running) / "stop").exists()
    assert (stopped.driver, stopped.last_error) == (None, None)


async def test_each_launch_is_told_until_when_its_sinks_may_refuse(world: World) -> None:
    def says(dagger: Dagger, seconds: int) -> Callable[[], bool]:
        file = run_dir(dagger) / rundir.ALLOWED
        return lambda: file.exists() and file.read_text() == f"{seconds}.0\n"

    async with world.serving():
        await world.ask()
        first = await world.running()
        for seconds in (2_000_000_000, 1_900_000_000):
            allowed = events_pb2.AllowRefusalsRequested(meta=META, name="d", until={"seconds": seconds})
            await world.append(allowed)
            await until(says(first, seconds), "the driver is not told")
        await world.append(events_pb2.RestartRequested(meta=META, name="d"))
        second = await world.running(after=first.generation)
        await until(says(second, 1_900_000_000), "the next driver is not told")

    assert world.story().count("LaunchIntended") == 2


async def test_each_launch_is_told_which_sinks_are_paused(world: World) -> None:
    def says(dagger: Dagger, text: str) -> Callable[[], bool]:
        file = run_dir(dagger) / rundir.PAUSED
        return lambda: (file.read_text() if file.exists() else "") == text

    async with world.serving():
        sink = "crm"
        await world.ask(sinks=[spec_pb2.Sink(log={}, name=sink)])
        first = await world.running()
        await world.append(events_pb2.SinkPauseRequested(meta=META, name="d", sink=sink, paused=True))
        await until(says(first, f"{sink}\n"), "the driver is not told")
        await world.append(events_pb2.RestartRequested(meta=META, name="d"))
        second = await world.running(after=first.generation)
        await until(says(second, f"{sink}\n"), "the next driver is not told")
        await world.append(events_pb2.SinkPauseRequested(meta=META, name="d", sink=sink))
        await until(says(second, ""), "the driver is not told that it goes on")

    assert world.story().count("LaunchIntended") == 2


async def test_a_stop_now_kills_a_driver_that_does_not_listen(world: World) -> None:
    async with world.serving():
        await world.ask("stubborn")
        running = await world.running()
        await world.append(events_pb2.StopRequested(meta=META, name="d", mode=NOW))
        await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPED)

    assert world.drivers().presence(running.driver) is Presence.GONE


async def test_a_drain_that_takes_too_long_becomes_a_kill(world: World) -> None:
    async with world.serving(policy=replace(PATIENT, grace=timedelta(milliseconds=200))):
        await world.ask("stubborn")
        running = await world.running()
        await world.append(events_pb2.StopRequested(meta=META, name="d"))
        await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPED)

    assert world.drivers().presence(running.driver) is Presence.GONE


async def test_a_kill_reaches_processes_that_left_the_group(world: World) -> None:
    async with world.serving():
        await world.ask("linger")
        running = await world.running()
        child = int((run_dir(running) / "child").read_text())
        group = os.getpgid(child)
        await world.append(events_pb2.StopRequested(meta=META, name="d", mode=NOW))
        await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPED)

    assert group != running.driver.pid
    assert processes.find(child) is None


async def test_a_restart_drains_and_launches_again(world: World) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
        await world.append(events_pb2.RestartRequested(meta=META, name="d"))
        second = await world.running(after=first.generation)

    assert world.story()[-6:] == [
        "RestartRequested",
        "StopIssued",
        "Exited",
        "LaunchIntended",
        "Launched",
        "Running",
    ]
    assert (second.version, second.observed_version, second.attempt) == (2, 2, 0)


async def test_a_deleted_dagger_leaves_its_log_and_its_successor_starts_afresh(world: World) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
        checkpoints = world.state_dir / "checkpoints"
        (checkpoints / f"d-{first.create_sequence}").mkdir(parents=True)
        await world.append(events_pb2.DeleteRequested(meta=META, name="d"))
        await world.until(lambda dagger: dagger.phase == gateway_pb2.DELETED)
        await world.ask()
        second = await world.running(after=first.generation)
        await gone(run_dir(first) / rundir.TEMPORARY)
        await gone(checkpoints / f"d-{first.create_sequence}")

    assert (run_dir(first) / rundir.LOG).is_file()
    assert world.drivers().presence(first.driver) is Presence.GONE
    assert second.create_sequence > first.create_sequence
    assert world.drivers().presence(second.driver) is Presence.ALIVE


async def test_a_living_driver_that_nobody_asks_for_is_killed_and_said_so(world: World) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
    # a later launch that the first driver never heard of, as after a paused scheduler went on
    await world.append(events_pb2.SchedulerStarted(scheduler_id="x", host=HOST), "scheduler")
    epoch = await world.control.end()
    meta = events_pb2.FactMeta(epoch=epoch, name="d", generation=first.generation)
    await world.append(events_pb2.Exited(meta=meta))
    meta = events_pb2.FactMeta(epoch=epoch, name="d")
    await world.append(events_pb2.LaunchIntended(meta=meta, version=1))
    async with world.serving():
        second = await world.running(after=await world.control.end() - 1)
        if not world.facts(events_pb2.OrphanKilled):
            await world.until(lambda _: bool(world.facts(events_pb2.OrphanKilled)))
        await until(lambda: world.drivers().presence(first.driver) is Presence.GONE, "it lives on")

    # killed until it is gone: said again under the same id, it counts once
    killed = [record for record in world.records if isinstance(record.message, events_pb2.OrphanKilled)]
    assert {each.message.meta.generation for each in killed} == {first.generation}
    assert len({each.id for each in killed}) == 1
    assert world.drivers().presence(second.driver) is Presence.ALIVE
