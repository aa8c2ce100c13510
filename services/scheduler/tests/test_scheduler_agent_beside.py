"""Two hosts with real processes: edits by a cutover, and replays, on the host that does not lead."""

from __future__ import annotations

import os
import signal

import pytest
from daggers.v1 import events_pb2
from services.scheduler.tests.scheduler_agents import THERE, agent, ask_in_vain
from services.scheduler.tests.scheduler_cutovers import AS_EVER, CAUGHT_UP, KEPT, edit, ended, says
from services.scheduler.tests.scheduler_replays import asked, finished, replay, runs, waits
from services.scheduler.tests.scheduler_world import HOST, META, World, run_dir, there

from daggerspec import rundir
from eventlog import Draft
from fleet.fold.phases import RUNNING


async def test_an_edit_is_made_by_a_cutover_on_a_host_that_does_not_lead(world: World) -> None:
    async with agent(world, HOST, max_drivers=0, cutover=True):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            dagger, place = await edit(world)
            says(place, CAUGHT_UP)
            await ended(world, dagger, place)
            after = await world.until(lambda after: after.generation > dagger.generation)
            await there(place / rundir.HANDED)
            await world.heartbeat(after)
            after = await world.until(lambda after: after.phase == RUNNING)

    assert [fact for fact in world.story() if fact in KEPT][-6:] == KEPT
    assert (run_dir(dagger) / rundir.BOUNDARY).read_text() == "120000000\n"
    assert (after.current, run_dir(after), after.host) == (True, place, THERE)
    assert all(fact.meta.host_epoch for fact in world.facts(events_pb2.CutoverHanded))
    assert [each.generation for each in world.drivers(THERE).living() if each.dagger == "d"] == [
        after.generation
    ]


async def test_where_a_shadow_dies_elsewhere_the_edit_is_made_without_it(world: World) -> None:
    async with agent(world, HOST, max_drivers=0, cutover=True):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            dagger, _ = await edit(world)
            assert dagger.shadow is not None
            assert dagger.shadow.driver is not None
            os.killpg(dagger.shadow.driver.pid, signal.SIGKILL)
            after = await world.launched(after=dagger.generation)

    assert [fact for fact in world.story() if fact in AS_EVER][-6:] == AS_EVER
    assert (after.current, after.shadow, after.host) == (True, None, THERE)


async def test_a_shadow_that_nobody_launched_is_answered_by_the_next_agent(world: World) -> None:
    async with agent(world, HOST, max_drivers=0, cutover=True):
        await ask_in_vain(world)
        async with agent(world):
            dagger = await world.running()
            epoch = world.facts(events_pb2.Running)[-1].meta.epoch
        intent = events_pb2.ShadowIntended(meta={"epoch": epoch, "name": "d"}, version=dagger.version + 1)
        await world.ask("run other")
        await world.append(intent, id_="as if its agent had died in between")
        async with agent(world):
            after = await world.launched(after=dagger.generation)

    assert {fact.error.reason for fact in world.facts(events_pb2.ShadowEnded)} <= {
        "SHADOW_NOT_LAUNCHED",
        "SHADOW_LEFT",
    }
    assert (after.current, after.shadow, after.host) == (True, None, THERE)


async def test_a_replay_runs_on_the_host_of_its_dagger(world: World) -> None:
    async with agent(world, HOST, max_drivers=0):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            await world.append(asked("finish"))
            after = replay(await world.until(finished))

    started = world.facts(events_pb2.ReplayStarted)
    assert [fact.process.host for fact in started] == [THERE, THERE]
    assert [bool(fact.meta.host_epoch) for fact in started] == [False, True]
    assert dict(after.finished.outcomes) == {"REPLAYED": 2}  # type: ignore[union-attr] # it has finished


async def cordon_all_and_ask(world: World) -> None:
    """Cordon both hosts, and ask for a replay."""
    for host in (THERE, HOST):
        await world.append(events_pb2.HostCordoned(meta=META, host=host))
    await world.append(asked("finish"))


async def test_a_replay_is_made_beside_a_cordoned_host_and_waits_where_all_are_cordoned(
    world: World,
) -> None:
    async with agent(world, HOST, max_drivers=0):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            await cordon_all_and_ask(world)
            waiting = replay(await world.until(waits)).waits
            await world.append(events_pb2.HostUncordoned(meta=META, host=HOST))
            await world.until(finished)

    assert waiting is not None
    assert waiting.reason == "HOST_CORDONED"
    assert f"({THERE}, {HOST})" in waiting.detail
    assert [fact.process.host for fact in world.facts(events_pb2.ReplayStarted)] == [HOST, HOST]


async def test_an_agent_starts_an_attempt_that_was_given_to_it_before_its_host_was_cordoned(
    world: World,
) -> None:
    async with agent(world, HOST, max_drivers=0):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            await cordon_all_and_ask(world)
            await world.until(waits)
            assert world.fleet.leader is not None
            intent = events_pb2.ReplayStarted(
                meta={"epoch": world.fleet.leader.epoch, "name": "d"},
                replay_id="to-finish",
                process={"host": THERE},
            )
            await world.append(intent, id_="as if its leader had not known")
            after = replay(await world.until(finished))

    assert dict(after.finished.outcomes) == {"REPLAYED": 2}  # type: ignore[union-attr] # it has finished


async def test_a_replay_goes_on_with_the_next_agent_and_ends_with_its_dagger(world: World) -> None:
    async with agent(world, HOST, max_drivers=0):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            await world.append(asked("hang"))
            before = replay(await world.until(runs))
        async with agent(world):
            await world.append(events_pb2.DeleteRequested(meta=META, name="d"))
            after = replay(await world.until(finished))

    assert len(world.facts(events_pb2.ReplayStarted)) == 2
    assert before.process is not None
    assert world.drivers(THERE).attempts() == []
    assert after.finished.error.reason == "DAGGER_DELETED"  # type: ignore[union-attr] # it has finished


async def test_the_end_of_a_replay_that_a_newer_claim_overtook_is_reported_to_the_next_leader(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, overtaken = world.control.append, []

    async def overtake(draft: Draft) -> None:
        if isinstance(draft.message, events_pb2.ReplayFinished) and not overtaken:
            overtaken.append(draft.id)
            await world.append(events_pb2.SchedulerStarted(scheduler_id="newer", host=HOST), "scheduler")
        await append(draft)

    async with agent(world, HOST, max_drivers=0):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            monkeypatch.setattr(world.control, "append", overtake)
            await world.append(asked("finish"))
            after = replay(await world.until(finished))

    first, *again = world.facts(events_pb2.ReplayFinished)
    assert len(overtaken) == 1
    assert [fact.meta.epoch > first.meta.epoch for fact in again] == [True]
    assert dict(after.finished.outcomes) == {"REPLAYED": 2}  # type: ignore[union-attr] # it has finished


async def test_an_attempt_that_a_leader_before_has_intended_is_not_started(world: World) -> None:
    """Report it as abandoned: that leader may have been on this host, and have started it."""
    async with agent(world, HOST, max_drivers=0):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            await cordon_all_and_ask(world)
            await world.until(waits)
            assert world.fleet.leader is not None
            meta = events_pb2.FactMeta(epoch=world.fleet.leader.epoch, name="d")
            intent = events_pb2.ReplayStarted(meta=meta, replay_id="to-finish", process={"host": THERE})
            # No other task has its turn in between.
            await world.append(intent, id_="as if its leader had not known")
            await world.append(events_pb2.SchedulerStarted(scheduler_id="newer", host=HOST), "scheduler")
            await world.until(lambda dagger: replay(dagger).exits > 0)

    assert [fact.error.reason for fact in world.facts(events_pb2.ReplayExited)] == ["ATTEMPT_ABANDONED"]
    assert [bool(fact.process.pid) for fact in world.facts(events_pb2.ReplayStarted)] == [False]


async def test_an_attempt_that_nobody_started_is_made_anew(world: World) -> None:
    async with agent(world, HOST, max_drivers=0):
        await ask_in_vain(world)
        async with agent(world):
            await world.running()
            await world.append(asked("hang"))
            before = replay(await world.until(runs))
            epoch = world.facts(events_pb2.ReplayStarted)[0].meta.epoch
        world.drivers(THERE).kill(before.process)  # type: ignore[arg-type] # it runs
        intent = events_pb2.ReplayStarted(
            meta={"epoch": epoch, "name": "d"}, replay_id="to-hang", process={"host": THERE}
        )
        await world.append(intent, id_="as if its agent had died in between")
        await world.until(lambda dagger: replay(dagger).unanswered)
        async with agent(world):
            after = replay(await world.until(runs))

    assert after.attempt > before.attempt
    assert after.exits == 1
