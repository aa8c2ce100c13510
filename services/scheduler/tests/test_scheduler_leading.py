"""Schedulers with real processes: who leads, and what a new leader does with drivers and intents."""

import asyncio
from contextlib import suppress
from datetime import datetime

import pytest
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from services.scheduler.tests.scheduler_world import (
    DEADLINE_S,
    HOST,
    META,
    World,
    until,
)
from tests.contracts.logs import TroubledLog, nothing

from eventlog import Draft
from fleet import Dagger, Fleet
from fleet.decide.observation import Presence
from fleet.fold.dagger import create_dagger
from fleet.fold.phases import STOPPED


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
    async with world.serving(said, patience=600.0):
        fleet = Fleet()
        async with asyncio.timeout(DEADLINE_S):
            async for record in world.control.follow():
                fleet.apply(record)
                if fleet.hosts:
                    break

    assert (fleet.leader and fleet.leader.scheduler_id) == "afar"
    assert [host.address for host in fleet.hosts[HOST]] == ["here:50061"]


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


async def test_a_standby_takes_over_when_the_beat_of_the_leader_is_missing(world: World) -> None:
    async with world.serving() as leader:
        await world.ask()
        dagger = await world.running()
        async with world.serving():
            leader.cancel()
            after = await world.until(lambda each: each.epoch > dagger.epoch)

    assert world.story() == ["DaggerRequested", "LaunchIntended", "Launched", "Running", "Launched"]
    assert (after.generation, after.driver.pid) == (dagger.generation, dagger.driver.pid)


async def test_the_beat_of_the_leader_says_for_how_many_more_there_is_room(world: World) -> None:
    async with world.serving(patience=2, max_drivers=3), asyncio.timeout(60):
        await world.ask()
        await world.running()
        async for record in world.beats.follow():
            beat = record.message
            if isinstance(beat, telemetry_pb2.SchedulerBeat) and beat.room == 2:
                break

    assert len(world.fleet.occupied) == 1


async def test_a_first_look_at_many_daggers_leaves_room_for_beats(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    many, longest, looks = 2_000, 0, 0
    clock = world.now

    def count_look() -> datetime:
        nonlocal looks
        looks += 1
        return clock()

    monkeypatch.setattr(world, "now", count_look)
    scheduler = world.scheduler()
    request = events_pb2.DaggerRequested(name="d")
    stopped = create_dagger(request, 0, clock()).but(desired=gateway_pb2.DESIRED_STOPPED, phase=STOPPED)
    for number in range(many):
        scheduler.fleet.put(stopped.but(name=f"d{number}"))
    serving = asyncio.create_task(scheduler.run())
    total = 0
    async with asyncio.timeout(DEADLINE_S):
        while total < many:
            await asyncio.sleep(0)
            total, longest, looks = total + looks, max(longest, looks), 0
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving

    assert longest < many / 2


@pytest.mark.long
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


async def launched_and_not_logged(world: World) -> tuple[World, Dagger]:
    """The same log as if its writer had died between starting a driver and saying so; and what it runs."""
    async with world.serving():
        await world.ask()
        dagger = await world.running()
    (world.state_dir / "control.json").unlink(missing_ok=True)  # the first sweep may not have been
    crashed = World(world.state_dir)
    crashed.control._records = world.control._records[: dagger.generation + 1]
    return crashed, dagger


async def test_an_inherited_intent_whose_driver_lives_is_adopted(world: World) -> None:
    crashed, dagger = await launched_and_not_logged(world)
    async with crashed.serving():
        adopted = await crashed.until(lambda dagger: dagger.driver is not None)

    assert crashed.facts(events_pb2.Launched)[0].adopted
    assert adopted.generation == dagger.generation
    assert adopted.driver.pid == dagger.driver.pid
    assert len(crashed.facts(events_pb2.LaunchIntended)) == 1


async def test_a_driver_that_another_host_gave_up_before_it_was_known_is_stopped_by_its_own(
    world: World,
) -> None:
    crashed, dagger = await launched_and_not_logged(world)
    # Another host's leader was asked to delete it, and could not know.
    await crashed.append(events_pb2.SchedulerStarted(scheduler_id="another", host="there"), "scheduler")
    epoch = await crashed.control.end()
    await crashed.append(events_pb2.DeleteRequested(meta=META, name="d"))
    meta = events_pb2.FactMeta(epoch=epoch, name="d", generation=dagger.generation)
    await crashed.append(events_pb2.Unreachable(meta=meta))
    async with crashed.serving():
        await crashed.until(lambda dagger: dagger.phase == gateway_pb2.DELETED)

    assert crashed.facts(events_pb2.Launched)[0].adopted
    assert world.drivers().presence(dagger.driver) is Presence.GONE


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
