"""Two hosts with real processes: one leads, the other's agent launches, stops and reports."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from services.scheduler.tests.scheduler_agents import THERE, agent, register, two_hosts
from services.scheduler.tests.scheduler_world import DEADLINE_S, HOST, META, World
from tests.contracts.drivers import until

from chassis.files import replace_bytes
from daggerspec import rundir
from eventlog.testing import START
from fleet import Fleet
from fleet.decide.observation import Presence
from fleet.fold.hosts import AGENT, Standing, record_registration
from fleet.fold.quotas import Room
from scheduler.leader.host_watch import GONE_AFTER, HEARD_WITHIN, HostWatch
from scheduler.leader.neighbours import NoSharedCheckpoints
from scheduler.leader.peers import Peers


async def test_a_dagger_runs_stops_and_restarts_on_a_host_that_does_not_lead(world: World) -> None:
    async with two_hosts(world) as first:
        await world.append(events_pb2.StopRequested(meta=META, name="d"))
        await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPED)
        stopped = world.drivers(THERE).presence(first.driver)
        await world.append(events_pb2.StartRequested(meta=META, name="d"))
        second = await world.running(after=first.generation)
        await world.append(events_pb2.RestartRequested(meta=META, name="d"))
        third = await world.running(after=second.generation)

    assert world.story()[-14:] == [
        *("StopRequested", "StopIssued", "Exited", "Stopped"),
        *("StartRequested", "LaunchIntended", "Launched", "Running"),
        *("RestartRequested", "StopIssued", "Exited", "LaunchIntended", "Launched", "Running"),
    ]
    assert [one.driver.host for one in (first, second, third) if one.driver] == [THERE] * 3
    assert stopped is Presence.GONE
    assert {intent.host for intent in world.facts(events_pb2.LaunchIntended)} == {THERE}
    assert all(launched.meta.host_epoch for launched in world.facts(events_pb2.Launched))


async def test_an_agent_reports_the_end_of_a_driver_and_launches_it_again(world: World) -> None:
    async with two_hosts(world) as first:
        world.drivers(THERE).kill(first.driver)  # type: ignore[arg-type] # it has one
        second = await world.running(after=first.generation)

    assert world.facts(events_pb2.Exited)[0].code == -9
    assert second.driver.host == THERE  # type: ignore[union-attr] # it has one


async def test_an_agent_sends_what_drivers_there_have_left_with_its_beat_while_it_collects(
    world: World,
) -> None:
    async with agent(world, HOST, max_drivers=0):
        await world.ask()
        await world.until(lambda dagger: dagger.last_error is not None)
        async with agent(world, host_beats=True), aclosing(world.beats.follow()) as records:
            dagger = await world.running()
            assert dagger.driver is not None
            run_dir = Path(dagger.driver.run_dir)
            async with asyncio.timeout(DEADLINE_S):
                await until((run_dir / rundir.COLLECTED).exists)
                latest = telemetry_pb2.Heartbeat(batch_id=41, state=telemetry_pb2.Heartbeat.STATE_RUNNING)
                replace_bytes(run_dir / rundir.HEARTBEAT, latest.SerializeToString())
                found = await anext(
                    record.message
                    async for record in records
                    if isinstance(record.message, telemetry_pb2.Heartbeat) and record.message.batch_id
                )

    assert (found.dagger, found.generation, found.batch_id) == ("d", dagger.generation, 41)


async def test_an_agent_that_is_started_anew_goes_on_with_its_drivers(world: World) -> None:
    async with agent(world, HOST, max_drivers=0):
        await world.ask()
        await world.until(lambda dagger: dagger.last_error is not None)
        async with agent(world):
            first = await world.running()
        async with agent(world):
            await world.append(events_pb2.StopRequested(meta=META, name="d"))
            await world.until(lambda dagger: dagger.phase == gateway_pb2.STOPPED)

    assert len(world.facts(events_pb2.LaunchIntended)) == 1
    assert world.drivers(THERE).presence(first.driver) is Presence.GONE  # type: ignore[arg-type] # it had one


async def test_a_second_host_without_a_shared_root_is_refused_by_the_settings_name(world: World) -> None:
    async with agent(world, HOST, shared=False):
        await world.ask()
        await world.running()
        with pytest.RaisesGroup(
            pytest.RaisesExc(NoSharedCheckpoints, match="DAGGERS_SCHEDULER_CHECKPOINT_ROOT")
        ):
            async with asyncio.timeout(60):
                await world.scheduler(host=THERE, patience=600.0).run(
                    None, register(THERE, "second", shared=False)
                )


# ---- What is heard -----------------------------------------------------------------------------------------


class SteppedClock:
    """A clock of a test."""

    def __init__(self) -> None:
        self.now = START


def watch_of(clock: SteppedClock) -> HostWatch:
    return HostWatch(lambda: clock.now)


def pass_time(
    watch: HostWatch, clock: SteppedClock, time: timedelta, standing: Standing, *, hears: bool = True
) -> None:
    for _ in range(int(time.total_seconds())):
        clock.now += timedelta(seconds=1)
        if hears:
            watch.note_scheduler()
        watch.advance({THERE: standing})


def beat(epoch: int) -> telemetry_pb2.HostBeat:
    return telemetry_pb2.HostBeat(host=THERE, epoch=epoch)


def test_an_agent_is_heard_in_its_newest_epoch_and_for_a_while() -> None:
    clock = SteppedClock()
    watch, standing = watch_of(clock), Standing(epoch=3)
    watch.note_agent(beat(3))

    assert (watch.hears_agent(THERE, 3), watch.hears_agent(THERE, 4)) == (True, False)
    pass_time(watch, clock, HEARD_WITHIN + timedelta(seconds=1), standing)
    assert (watch.hears_agent(THERE, 3), watch.misses_agent(THERE)) == (False, True)


def test_an_agent_that_has_just_registered_is_not_missed_and_not_heard() -> None:
    clock = SteppedClock()
    watch = watch_of(clock)
    watch.note_agent(beat(3))
    pass_time(watch, clock, timedelta(seconds=1), Standing(epoch=9))

    assert (watch.hears_agent(THERE, 9), watch.misses_agent(THERE)) == (False, False)


def test_a_silence_is_added_up_of_the_time_in_which_anybody_was_heard() -> None:
    silences = []
    for jump, hears in ((0, True), (3600, True), (0, False)):
        clock = SteppedClock()
        watch = watch_of(clock)
        clock.now += timedelta(seconds=jump)
        pass_time(watch, clock, GONE_AFTER, Standing(epoch=1), hears=hears)
        silences.append(watch.silence(THERE) >= GONE_AFTER)
        assert watch.silence(THERE) <= GONE_AFTER + timedelta(seconds=5)

    assert silences == [True, True, False]


def test_a_heartbeat_of_a_driver_is_a_sign_of_its_host() -> None:
    clock = SteppedClock()
    watch = watch_of(clock)
    pass_time(watch, clock, timedelta(seconds=90), Standing(epoch=1))
    watch.note_driver(THERE)

    assert watch.silence(THERE) == timedelta(0)


def test_in_a_rolling_upgrade_and_back_a_host_gets_what_the_agent_there_knows() -> None:
    """Level 0 is of schedulers before intents named a host, level 1 of those before shadows and replays."""
    fleet, watch = Fleet(), watch_of(SteppedClock())
    peers = Peers(fleet, watch, host=HOST, shared=True)
    given = []
    for sequence, level in enumerate((0, 1, AGENT, 1, 0), start=1):
        registered = register(THERE, f"s{sequence}", level=level)
        record_registration(fleet.standings, registered, sequence=sequence, time=START)
        watch.note_agent(beat(sequence))
        launches = THERE in [candidate.host for candidate in peers.candidates(Room(), "")]
        given.append((launches, peers.takes(THERE)))

    assert given == [(False, False), (True, False), (True, True), (True, False), (False, False)]
