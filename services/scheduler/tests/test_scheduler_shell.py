"""The scheduler with real processes: what a person asks for is launched, and launched again."""

import asyncio
import os
import signal
from dataclasses import replace
from datetime import timedelta

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2, telemetry_pb2
from services.scheduler.tests.scheduler_world import (
    META,
    PATIENT,
    World,
    driver_pid,
    run_dir,
    there,
)

from chassis import processes
from fleet import Dagger
from fleet.decide.observation import Presence
from fleet.fold.phases import DEGRADED
from fleet.health.degradation import SHOWN


async def test_a_dagger_that_is_asked_for_is_launched_and_runs_with_its_first_progress(world: World) -> None:
    async with world.serving():
        await world.ask()
        dagger = await world.running()

    assert world.story() == ["DaggerRequested", "LaunchIntended", "Launched", "Running"]
    assert (dagger.generation, dagger.observed_version) == (3, 1)
    assert os.getsid(driver_pid(dagger)) == dagger.driver.pid != os.getsid(0)


async def test_a_driver_that_is_killed_is_relaunched_with_a_newer_generation(world: World) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
        os.kill(driver_pid(first), signal.SIGKILL)
        second = await world.running(after=first.generation)

    (exited,) = world.facts(events_pb2.Exited)
    assert (exited.code, exited.error.reason, exited.error.retryable) == (-9, "KILLED", True)
    assert [fact.attempt for fact in world.facts(events_pb2.RelaunchScheduled)] == [1]
    assert second.generation > first.generation


async def test_a_clock_that_was_an_hour_ahead_for_a_moment_delays_no_relaunch(world: World) -> None:
    async with world.serving(policy=replace(PATIENT, first_delay=timedelta(seconds=1))):
        await world.ask()
        first = await world.running()
        world.ahead = timedelta(hours=1)
        await world.until(lambda dagger: bool(dagger.phase == DEGRADED))  # an hour without a heartbeat
        await asyncio.sleep(0.5)  # ten ticks at that time
        world.ahead = timedelta(0)
        os.kill(driver_pid(first), signal.SIGKILL)
        second = await world.running(after=first.generation)

    assert second.generation > first.generation


async def test_a_driver_whose_whole_session_is_killed_is_relaunched(world: World) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
        for process in processes.session(first.driver.pid):
            os.kill(process.pid, signal.SIGKILL)
        await world.running(after=first.generation)

    (exited,) = world.facts(events_pb2.Exited)
    assert (exited.HasField("code"), exited.error.reason) == (False, "DRIVER_LOST")


async def test_drivers_that_their_machine_took_along_are_launched_again_at_once_and_it_is_no_attempt(
    world: World,
) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
    ended = events_pb2.Launched(meta={"name": "d", "generation": first.generation, "epoch": first.epoch})
    ended.driver.CopyFrom(first.driver)
    ended.driver.boot_id = "the boot before"
    for process in processes.session(first.driver.pid):
        os.kill(process.pid, signal.SIGKILL)
    await world.append(ended)
    async with world.serving(policy=replace(PATIENT, first_delay=timedelta(hours=1), attempts=0)):
        second = await world.running(after=first.generation)

    (exited,) = world.facts(events_pb2.Exited)
    assert exited.error.reason == "ENDED_WITH_DEPLOYMENT"
    assert [fact.attempt for fact in world.facts(events_pb2.RelaunchScheduled)] == [0]
    assert (second.attempt, second.restarts) == (0, 1)


async def test_a_users_error_is_final_and_a_new_revision_begins_anew(world: World) -> None:
    async with world.serving():
        await world.ask("exit 64")
        failed = await world.until(lambda dagger: dagger.phase == gateway_pb2.FAILED)
        await world.ask("run")
        running = await world.running(after=failed.generation)

    assert (failed.last_error.reason, failed.last_error.domain) == ("BAD_SQL", events_pb2.ERROR_DOMAIN_USER)
    assert len(world.facts(events_pb2.RelaunchScheduled)) == 0
    assert (running.attempt, running.last_error) == (0, None)


async def test_after_enough_attempts_a_dagger_is_given_up(world: World) -> None:
    async with world.serving(policy=replace(PATIENT, attempts=2)):
        await world.ask("crash")
        failed = await world.until(lambda dagger: dagger.phase == gateway_pb2.FAILED)

    assert [fact.attempt for fact in world.facts(events_pb2.RelaunchScheduled)] == [1, 2]
    assert len(world.facts(events_pb2.LaunchIntended)) == 3
    assert failed.last_error.detail.startswith("given up after 2 relaunches: ")


async def test_a_launch_beyond_max_drivers_waits_says_so_once_and_is_made_when_there_is_room(
    world: World,
) -> None:
    async with world.serving(max_drivers=1):
        await world.ask(name="first")
        await world.running(name="first")
        await world.ask(name="second")
        waiting = await world.until(lambda dagger: dagger.last_error is not None, name="second")
        await world.append(events_pb2.StopRequested(meta=META, name="first"), "first")
        await world.running(name="second")

    assert (waiting.phase, waiting.last_error.reason) == (gateway_pb2.PENDING, "MAX_DRIVERS")
    assert world.story(name="second") == [
        "DaggerRequested",
        "LaunchFailed",
        "LaunchIntended",
        "Launched",
        "Running",
    ]


async def test_a_launch_that_needs_more_memory_than_is_left_waits_and_a_smaller_one_does_not(
    world: World,
) -> None:
    async with world.serving(max_drivers=None, memory_mib=5_000):
        await world.ask(name="first")
        await world.running(name="first")
        await world.ask(name="huge", memory_mib=4_000_000_000)
        waiting = await world.until(lambda dagger: dagger.last_error is not None, name="huge")
        await world.ask(name="small")
        await world.running(name="small")

    assert (waiting.phase, waiting.last_error.reason) == (gateway_pb2.PENDING, "MAX_MEMORY")
    assert "it needs 4,000,001,536 MiB" in waiting.last_error.detail
    assert world.story(name="huge") == ["DaggerRequested", "LaunchFailed"]


async def test_a_thousand_waiting_daggers_each_say_so_once_and_do_not_hold_up_a_launch(world: World) -> None:
    names = [f"waiting{number:03}" for number in range(1_000)]
    async with world.serving(max_drivers=1):
        await world.ask(name="first")
        await world.launched(name="first")
        for name in names:
            await world.ask(name=name)
        await world.until(lambda dagger: dagger.last_error is not None, name=names[-1])
        await world.append(events_pb2.StopRequested(meta=META, name="first"), "first")
        # by the order of starts any of them may be the next
        await world.until(
            lambda _: any(world.fleet.daggers[name].driver is not None for name in names), name=names[0]
        )

    assert {len(world.facts(events_pb2.LaunchFailed, name=name)) for name in names} == {1}
    assert sum(len(world.facts(events_pb2.LaunchIntended, name=name)) for name in names) == 1


async def test_a_driver_that_never_gives_a_sign_of_life_is_killed_and_relaunched(world: World) -> None:
    policy = replace(PATIENT, limits=replace(SHOWN, start=timedelta(milliseconds=500)))
    async with world.serving(policy=policy):
        await world.ask("stubborn")  # on a slow host it is killed before it can write a file
        first = await world.until(lambda dagger: dagger.driver is not None)
        await world.until(lambda dagger: dagger.driver is not None and dagger.generation > first.generation)

    exited = world.facts(events_pb2.Exited)[0]
    assert exited.error.reason == "START_TIMEOUT"
    assert world.drivers().presence(first.driver) is Presence.GONE


async def test_a_launch_is_given_what_the_log_says_of_the_checkpoints(world: World) -> None:
    def job(dagger: Dagger) -> spec_pb2.JobSpec:
        return spec_pb2.JobSpec.FromString((run_dir(dagger) / "spec.pb").read_bytes())

    async with world.serving():
        await world.ask()
        first = await world.running()
        jobs = [job(first)]
        await world.ask(name="other")
        jobs.append(job(await world.launched(name="other")))
        anew = events_pb2.RestartRequested(meta=META, name="d", from_start=True)
        await world.append(anew)
        jobs.append(job(await world.running(after=first.generation)))

    known = [(job.checkpoints.used, job.checkpoints.has_own, job.from_start) for job in jobs]
    assert known == [(False, False, 0), (True, False, 0), (True, True, 2)]
    assert {job.checkpoints.root for job in jobs} == {str(world.state_dir / "checkpoints")}
    assert jobs[0].checkpoint_root == f"{jobs[0].checkpoints.root}/d-{first.create_sequence}"


async def test_a_retrying_sink_degrades_a_dagger_until_it_clears(world: World) -> None:
    async with world.serving():
        await world.ask()
        running = await world.running()
        refused = events_pb2.DaggerError(reason="INFLUX_DOWN", detail="connection refused")
        await world.heartbeat(running, retrying=[refused])
        degraded = await world.until(lambda dagger: dagger.phase == gateway_pb2.DEGRADED)
        await world.heartbeat(running)
        recovered = await world.until(lambda dagger: dagger.phase == gateway_pb2.RUNNING)

    assert degraded.reasons == ("SINK_RETRYING", "INFLUX_DOWN")
    assert recovered.reasons == ()


async def test_heartbeats_of_an_older_generation_mean_nothing(world: World) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
        os.kill(driver_pid(first), signal.SIGKILL)
        second = await world.launched(after=first.generation)
        await world.heartbeat(first)
        await world.heartbeat(second, state=telemetry_pb2.Heartbeat.STATE_STARTING)
        await world.append(events_pb2.StopRequested(meta=META, name="d"))
        await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPED)

    assert len(world.facts(events_pb2.Running)) == 1


async def test_a_dagger_that_cannot_be_resolved_fails_with_the_reason_and_is_never_launched(
    world: World,
) -> None:
    async with world.serving():
        await world.append(
            events_pb2.DaggerRequested(meta=META, name="d", spec={"cluster": "nowhere", "sql": "run"})
        )
        failed = await world.until(lambda dagger: dagger.phase == gateway_pb2.FAILED)

    assert world.story() == ["DaggerRequested", "Failed"]
    assert failed.last_error.reason == "UNKNOWN_CLUSTER"


async def test_a_dagger_whose_history_cannot_be_read_is_left_alone(world: World) -> None:
    await world.ask()
    world.control.place([("ce_type", b"daggers.v1.Unheard"), ("ce_subject", b"d")], b"\x01")
    async with world.serving():
        await world.ask(name="other")
        await world.running(name="other")

    assert world.story() == ["DaggerRequested", "Unheard"]


@pytest.mark.parametrize(("others", "why"), [(0, "ends at sequence -1"), (9, "holds other records")])
async def test_a_log_that_is_not_the_one_read_before_is_refused_and_drivers_are_left_alone(
    world: World, others: int, why: str
) -> None:
    async with world.serving():
        await world.ask()
        dagger = await world.running()
        await there(world.state_dir / "control.json")
    foreign = World(world.state_dir)
    for number in range(others):
        await foreign.ask(name=f"other_{number}")

    with pytest.raises(ExceptionGroup, match="unhandled") as raised:
        await foreign.scheduler().run()

    (damage,) = {str(error) for error in raised.value.exceptions}
    assert why in damage
    assert "When the log is damaged" in str(damage)
    assert world.drivers().presence(dagger.driver) is Presence.ALIVE
    assert await foreign.control.end() == 2 * others - 1
