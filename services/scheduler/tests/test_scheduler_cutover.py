"""The scheduler with real processes: an edit whose driver begins beside the one that runs.

What a shadow would say, and what a driver does at its boundary, the test says and does in their place.
"""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import timedelta

import pytest
from daggers.v1 import events_pb2
from services.scheduler.tests.scheduler_cutovers import (
    AS_EVER,
    CAUGHT_UP,
    KEPT,
    ended,
    says,
    shadowed,
)
from services.scheduler.tests.scheduler_world import PATIENT, World, gone, run_dir, there

from daggerspec import rundir
from fleet.fold.phases import RUNNING
from scheduler.host import driver_log


@pytest.mark.parametrize("spare", [False, True], ids=["cold", "spare"])
async def test_a_driver_is_replaced_by_its_shadow_which_goes_on_as_it_is(world: World, spare: bool) -> None:
    async with world.serving(cutover=True, spare=spare):
        dagger, place = await shadowed(world, spare=spare)
        says(place, CAUGHT_UP)
        await ended(world, dagger, place)
        after = await world.until(lambda after: after.generation > dagger.generation)
        await there(place / rundir.HANDED)
        await world.heartbeat(after)
        after = await world.until(lambda after: after.phase == RUNNING)

    assert [fact for fact in world.story() if fact in KEPT][-6:] == KEPT
    assert (run_dir(dagger) / rundir.BOUNDARY).read_text() == "120000000\n"
    assert (place / rundir.HANDED).read_text() == "120000000\n"
    assert (after.current, run_dir(after)) == (True, place)
    assert after.driver is not None
    assert after.driver.spare == spare
    assert [each.generation for each in world.drivers().living() if each.dagger == "d"] == [after.generation]


async def test_who_leads_next_adopts_a_shadow_and_hands_over_to_it(world: World) -> None:
    async with world.serving(cutover=True):
        dagger, place = await shadowed(world)
        says(place, CAUGHT_UP)
    async with world.serving(cutover=True):
        await ended(world, dagger, place)
        await world.until(lambda after: after.generation > dagger.generation)
        await there(place / rundir.HANDED)
    (place / rundir.HANDED).unlink()  # as if that one had died between the log and the file
    async with world.serving():
        await there(place / rundir.HANDED)

    assert [fact.adopted for fact in world.facts(events_pb2.ShadowLaunched)][-1:] == [True]
    assert (place / rundir.HANDED).read_text() == "120000000\n"


async def test_where_a_shadow_dies_its_driver_stops_and_the_new_one_starts(world: World) -> None:
    async with world.serving(cutover=True):
        dagger, place = await shadowed(world)
        assert dagger.shadow is not None
        assert dagger.shadow.driver is not None
        os.killpg(dagger.shadow.driver.pid, signal.SIGKILL)
        after = await world.launched(after=dagger.generation)

    assert [fact for fact in world.story() if fact in AS_EVER][-6:] == AS_EVER
    assert (after.current, after.shadow, place == run_dir(after)) == (True, None, False)
    assert not (run_dir(dagger) / rundir.BOUNDARY).exists()


async def test_a_shadow_that_takes_too_long_is_killed_and_the_edit_made_without_it(world: World) -> None:
    impatient = replace(PATIENT, catch_up=timedelta(0))
    async with world.serving(cutover=True, policy=impatient):
        await world.ask()
        dagger = await world.running()
        await world.ask("run other")
        after = await world.launched(after=dagger.generation)

    assert [fact for fact in world.story() if fact in AS_EVER][-6:] == AS_EVER
    assert world.facts(events_pb2.ShadowEnded)[0].error.reason == "CUTOVER_GIVEN_UP"
    assert after.current


async def test_logs_are_the_drivers_until_it_is_replaced_and_retention_leaves_the_shadows_alone(
    world: World,
) -> None:
    runs = world.state_dir / "runs"
    async with world.serving(cutover=True):
        dagger, place = await shadowed(world)
        logs = driver_log.launches(runs, "d", 0), driver_log.launches(runs, "d", 0, shadows=True)
        await world.append(events_pb2.StopRequested(name="d"))
        await world.until(lambda after: after.shadow is None)
        await gone(place / rundir.TEMPORARY)

    assert [log.parent for log in logs[0]] == [run_dir(dagger)]
    assert [log.parent for log in logs[1]] == [run_dir(dagger), place]


async def test_switched_off_no_edit_has_a_shadow(world: World) -> None:
    async with world.serving():
        await world.ask()
        dagger = await world.running()
        await world.ask("run other")
        await world.launched(after=dagger.generation)

    assert not [fact for fact in world.story() if "Shadow" in fact]
