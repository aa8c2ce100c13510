"""The scheduler with real processes: what a person asks for, and what happens to drivers."""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from services.scheduler.tests.scheduler_world import (
    DEADLINE_S,
    HOST,
    META,
    PATIENT,
    World,
    driver_pid,
    gone,
    run_dir,
    there,
    until,
)
from tests.contracts.logs import TroubledLog, nothing

from chassis import processes
from eventlog import Draft
from fleet import Fleet
from fleet.health import SHOWN
from fleet.observation import Presence

NOW = events_pb2.STOP_MODE_NOW


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.end()


async def test_a_dagger_that_is_asked_for_is_launched_and_runs_with_its_first_progress(world: World) -> None:
    async with world.serving():
        await world.ask()
        dagger = await world.running()

    assert world.story() == ["DaggerRequested", "LaunchIntended", "Launched", "Running"]
    assert (dagger.generation, dagger.observed_version) == (3, 1)
    assert os.getsid(driver_pid(dagger)) == dagger.driver.pid != os.getsid(0)


async def test_the_end_of_the_scheduler_does_not_touch_drivers_and_the_next_one_adopts_them(
    world: World,
) -> None:
    async with world.serving():
        await world.ask()
        before = await world.running()
    async with world.serving():
        after = await world.until(lambda dagger: dagger.epoch > before.epoch)

    assert world.story()[-1] == "Launched"
    assert world.facts(events_pb2.Launched)[-1].adopted
    assert (after.generation, after.driver.pid) == (before.generation, before.driver.pid)
    assert world.drivers().presence(after.driver) is Presence.ALIVE


async def test_a_scheduler_that_stands_by_says_where_its_host_is_read(world: World) -> None:
    await world.append(events_pb2.SchedulerStarted(scheduler_id="afar", host="there"), "scheduler")
    said = events_pb2.HostServing(scheduler_id="standby", host=HOST, address="here:50061")
    async with world.serving(serving=said, patience=600.0):
        fleet = Fleet()
        async with asyncio.timeout(DEADLINE_S):
            async for record in world.control.follow():
                fleet.apply(record)
                if fleet.hosts:
                    break

    assert (fleet.leader and fleet.leader.scheduler_id) == "afar"
    assert [each.address for each in fleet.hosts[HOST]] == ["here:50061"]


async def test_a_living_driver_that_another_host_only_heard_of_is_adopted_by_its_own(world: World) -> None:
    async with world.serving():
        await world.ask()
        before = await world.running()
    await world.append(events_pb2.SchedulerStarted(scheduler_id="afar", host="there"), "scheduler")
    meta = events_pb2.FactMeta(epoch=await world.control.end(), name="d", generation=before.generation)
    heard = events_pb2.DriverHandle(host=HOST)
    await world.append(events_pb2.Launched(meta=meta, driver=heard, adopted=True))
    async with world.serving():
        after = await world.until(lambda dagger: dagger.epoch > meta.epoch)

    assert world.story()[-2:] == ["Launched", "Launched"]
    assert after.driver == before.driver


async def test_a_driver_that_is_killed_is_relaunched_with_a_newer_generation(world: World) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
        os.kill(driver_pid(first), signal.SIGKILL)
        second = await world.running(after=first.generation)

    (exited,) = world.facts(events_pb2.Exited)
    assert (exited.code, exited.error.reason, exited.error.retryable) == (-9, "KILLED", True)
    assert [each.attempt for each in world.facts(events_pb2.RelaunchScheduled)] == [1]
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


async def test_a_standby_takes_over_when_the_beat_of_the_leader_is_missing(world: World) -> None:
    async with world.serving() as leader:
        await world.ask()
        dagger = await world.running()
        async with world.serving():
            leader.cancel()
            after = await world.until(lambda each: each.epoch > dagger.epoch)

    assert world.story() == ["DaggerRequested", "LaunchIntended", "Launched", "Running", "Launched"]
    assert (after.generation, after.driver.pid) == (dagger.generation, dagger.driver.pid)


async def test_a_standby_leaves_a_leader_alone_that_beats(world: World) -> None:
    async with world.serving(patience=10), world.serving(patience=10):
        await world.ask()
        first = await world.running()
        beats = world.beats.follow()
        async with asyncio.timeout(60):
            count = 0
            while count < 8:  # a fifth of the patience each
                count += isinstance((await anext(beats)).message, telemetry_pb2.SchedulerBeat)
        await world.append(events_pb2.RestartRequested(meta=META, name="d"))
        await world.launched(after=first.generation)

    assert len(world.fleet.claims) == 1
    assert len(world.facts(events_pb2.Launched)) == 2


async def test_a_leader_that_sees_a_newer_claim_stands_by(world: World) -> None:
    async with world.serving(patience=60):
        await world.ask()
        await world.running()
        await world.append(events_pb2.SchedulerStarted(scheduler_id="another", host="there"), "scheduler")
        await world.append(events_pb2.StopRequested(meta=META, name="d"))
        dagger = await world.until(lambda dagger: dagger.desired == gateway_pb2.DESIRED_STOPPED)
        written = len(world.story())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPING)

    assert len(world.story()) == written
    assert world.drivers().presence(dagger.driver) is Presence.ALIVE


async def test_a_leader_that_was_overtaken_in_the_act_adopts_when_it_leads_again(world: World) -> None:
    log = world.control = TroubledLog()
    claim = events_pb2.SchedulerStarted(scheduler_id="another", host="there")

    async def overtake(draft: Draft) -> None:
        """Another scheduler's claim comes just before an adoption."""
        if isinstance(draft.message, events_pb2.Launched) and draft.message.adopted:
            log.before = nothing
            await log.append(Draft("overtakes", "/another", "scheduler", draft.time, claim))

    log.before = overtake
    async with world.serving():
        await world.ask()
        before = await world.running()
    async with world.serving():
        after = await world.until(lambda dagger: dagger.epoch > before.epoch)

    assert world.story()[-2:] == ["Launched", "Launched"]
    assert after.driver == before.driver


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

    assert [each.attempt for each in world.facts(events_pb2.RelaunchScheduled)] == [1, 2]
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


async def test_a_thousand_waiting_daggers_each_say_so_once_and_do_not_hold_up_a_launch(world: World) -> None:
    names = [f"waiting{number:03}" for number in range(1_000)]
    async with world.serving(max_drivers=1):
        await world.ask(name="first")
        await world.launched(name="first")
        for name in names:
            await world.ask(name=name)
        await world.until(lambda dagger: dagger.last_error is not None, name=names[-1])
        await world.append(events_pb2.StopRequested(meta=META, name="first"), "first")
        await world.launched(name=names[0])

    assert {len(world.facts(events_pb2.LaunchFailed, name=name)) for name in names} == {1}
    assert sum(len(world.facts(events_pb2.LaunchIntended, name=name)) for name in names) == 1


async def test_an_inherited_intent_is_never_submitted_but_fenced_by_a_new_one(world: World) -> None:
    await world.append(events_pb2.SchedulerStarted(scheduler_id="gone", host="here"), "scheduler")
    await world.ask()
    meta = events_pb2.FactMeta(epoch=0, name="d")
    await world.append(events_pb2.LaunchIntended(meta=meta, version=1))
    inherited = await world.until(lambda dagger: dagger.unanswered)
    async with world.serving():
        dagger = await world.launched(after=inherited.generation)

    assert dagger.generation > inherited.generation
    assert not (world.state_dir / "runs" / "d" / str(inherited.generation)).exists()


async def test_an_inherited_intent_whose_driver_lives_is_adopted(world: World) -> None:
    async with world.serving():
        await world.ask()
        dagger = await world.running()
    # the same log as if its writer had died between starting the driver and saying so
    (world.state_dir / "control.json").unlink(missing_ok=True)  # the first sweep may not have been
    crashed = World(world.state_dir)
    crashed.control._records = world.control._records[: dagger.generation + 1]
    async with crashed.serving():
        adopted = await crashed.until(lambda dagger: dagger.driver is not None)

    assert crashed.facts(events_pb2.Launched)[0].adopted
    assert adopted.generation == dagger.generation
    assert adopted.driver.pid == dagger.driver.pid
    assert len(crashed.facts(events_pb2.LaunchIntended)) == 1


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


async def test_a_deleted_dagger_leaves_nothing_and_its_successor_starts_afresh(world: World) -> None:
    async with world.serving():
        await world.ask()
        first = await world.running()
        checkpoints = world.state_dir / "checkpoints"
        (checkpoints / f"d-{first.create_sequence}").mkdir(parents=True)
        await world.append(events_pb2.DeleteRequested(meta=META, name="d"))
        await world.until(lambda dagger: dagger.phase == gateway_pb2.DELETED)
        await world.ask()
        second = await world.running(after=first.generation)
        await gone(run_dir(first))
        await gone(checkpoints / f"d-{first.create_sequence}")

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


async def test_a_standby_ends_an_orphan_of_its_host_that_a_leader_elsewhere_cannot_reach(
    world: World,
) -> None:
    async with world.serving(patience=60):
        await world.ask()
        first = await world.running()
        await world.append(events_pb2.SchedulerStarted(scheduler_id="another", host="there"), "scheduler")
        epoch = await world.control.end()
        meta = events_pb2.FactMeta(epoch=epoch, name="d", generation=first.generation)
        await world.append(events_pb2.Exited(meta=meta))  # as after on-call vouched for its death
        await until(
            lambda: world.drivers().presence(first.driver) is Presence.GONE, "the orphan goes on for ever"
        )
        dagger = await world.until(lambda dagger: dagger.phase == gateway_pb2.BACKING_OFF)

    assert world.story()[-1] == "Exited"
    assert dagger.driver is None


async def test_a_driver_that_never_gives_a_sign_of_life_is_killed_and_relaunched(world: World) -> None:
    policy = replace(PATIENT, limits=replace(SHOWN, start=timedelta(milliseconds=500)))
    async with world.serving(policy=policy):
        await world.ask("stubborn")  # on a slow host it is killed before it can write a file
        first = await world.until(lambda dagger: dagger.driver is not None)
        await world.until(lambda dagger: dagger.driver is not None and dagger.generation > first.generation)

    exited = world.facts(events_pb2.Exited)[0]
    assert exited.error.reason == "START_TIMEOUT"
    assert world.drivers().presence(first.driver) is Presence.GONE


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


async def test_an_inherited_intent_that_cannot_be_resolved_any_more_fails_too(world: World) -> None:
    await world.append(events_pb2.SchedulerStarted(scheduler_id="gone", host="here"), "scheduler")
    await world.append(
        events_pb2.DaggerRequested(meta=META, name="d", spec={"cluster": "nowhere", "sql": "run"})
    )
    meta = events_pb2.FactMeta(epoch=0, name="d")
    await world.append(events_pb2.LaunchIntended(meta=meta, version=1))
    async with world.serving():
        failed = await world.until(lambda dagger: dagger.phase == gateway_pb2.FAILED)

    assert world.story()[-2:] == ["LaunchFailed", "Failed"]
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

    (damage,) = {str(each) for each in raised.value.exceptions}
    assert why in damage
    assert "When the log is damaged" in str(damage)
    assert world.drivers().presence(dagger.driver) is Presence.ALIVE
    assert await foreign.control.end() == 2 * others - 1
