"""A cutover with real processes, for tests: a shadow, and what it and its predecessor say."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path

from services.scheduler.tests.scheduler_world import World, driver_pid, run_dir, there, until

from chassis.files import replace_text
from daggerspec import rundir
from daggerspec.shadow import ShadowState
from fleet import Dagger

CAUGHT_UP = ShadowState(caught_up=True, written=60_000_000, next_end=120_000_000)
FINAL = replace(CAUGHT_UP, written=120_000_000, closed=60_000_000, final=True)
KEPT = ["ShadowIntended", "ShadowLaunched", "CutoverDecided", "Exited", "CutoverHanded", "Running"]
AS_EVER = ["ShadowIntended", "ShadowLaunched", "ShadowEnded", "StopIssued", "Exited", "LaunchIntended"]


async def edit(world: World) -> tuple[Dagger, Path]:
    """Edit the dagger that runs; gives it with its shadow, and the directory of that one."""
    await world.ask("run other")
    dagger = await world.until(lambda dagger: dagger.shadow is not None and dagger.shadow.driver is not None)
    assert dagger.shadow is not None
    assert dagger.shadow.driver is not None
    place = Path(dagger.shadow.driver.run_dir)
    await there(place / rundir.DRIVER)
    return dagger, place


async def shadowed(world: World, *, spare: bool = False) -> tuple[Dagger, Path]:
    """A dagger that runs and was edited, and the directory of the shadow that it then has."""
    await world.ask()
    await world.running()
    spares = world.state_dir / "runs" / rundir.SPARE
    await until(lambda: not spare or any(spares.glob(f"*/{rundir.DRIVER}")), "there is no spare")
    return await edit(world)


def says(place: Path, state: ShadowState) -> None:
    replace_text(place / rundir.SHADOW, state.as_json())


async def ended(world: World, dagger: Dagger, place: Path) -> None:
    """Its driver ends at the boundary, and the shadow says what that one has written."""
    await there(run_dir(dagger) / rundir.BOUNDARY)
    os.kill(driver_pid(dagger), signal.SIGTERM)
    await there(place / rundir.PREDECESSOR_ENDED)
    says(place, FINAL)
