"""What the drivers of a host promise a scheduler, whatever runs as a driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2

from daggerspec import rundir
from daggerspec.rundir import DriverIdentity
from daggerspec.shadow import ShadowState
from fleet.decide.observation import Presence
from scheduler.drivers.process_table import as_handle

NAME, GENERATION = "d", 5
READY_S = 300.0
"""Two spares warm up at once, beside all else."""
Handle = events_pb2.DriverHandle


async def until(holds: Callable[[], bool], seconds: float = 90) -> None:
    """Wait for what no event tells of, up to a deadline."""
    end = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < end, "it never came to that"
        await asyncio.sleep(0.02)


class DriversContract:
    """A subclass brings a fixture `drivers` (of a host without any) and what is said below."""

    def start(self, drivers: Any, generation: int) -> Handle:
        """Start this generation of `NAME`. Raises: OSError."""
        raise NotImplementedError

    def spare(self, drivers: Any) -> DriverIdentity:
        """Start a spare. Raises: OSError."""
        raise NotImplementedError

    def job(self, drivers: Any, generation: int) -> spec_pb2.JobSpec:
        """The launch of this generation of `NAME`, which somebody has intended."""
        raise NotImplementedError

    def shadow(self, drivers: Any, job: spec_pb2.JobSpec) -> Handle:
        """Start what this job is, which is a shadow's. Raises: OSError."""
        raise NotImplementedError

    def told(self, drivers: Any, handle: Handle, file: str) -> str:
        """What a launch was told in a file."""
        return (Path(handle.run_dir) / file).read_text()

    async def ready(self, handle: Handle) -> None:
        """Wait until the driver would hear that it is to drain."""

    def restarted(self, drivers: Any) -> Any:
        """What the next scheduler on the same host has in place of `drivers`."""
        raise NotImplementedError

    @pytest.fixture
    async def handle(self, drivers: Any) -> Handle:
        """A driver that lives, and that whoever takes it down finds."""
        started = self.start(drivers, GENERATION)
        await until(lambda: drivers.find(NAME, GENERATION) is not None)
        return started

    async def test_what_was_started_lives_and_is_found_by_its_generation(
        self, drivers: Any, handle: Handle
    ) -> None:
        await until(lambda: drivers.find(NAME, GENERATION) is not None)

        assert drivers.presence(handle) is Presence.ALIVE
        assert drivers.find(NAME, GENERATION) == handle
        assert [(dagger.dagger, dagger.generation) for dagger in drivers.living()] == [(NAME, GENERATION)]
        assert [as_handle(dagger, drivers.host) for dagger in drivers.living()] == [handle]
        assert drivers.find(NAME, GENERATION + 1) is None
        assert drivers.find("other", GENERATION) is None

    async def test_a_driver_lives_on_when_its_scheduler_does_not(self, drivers: Any, handle: Handle) -> None:
        await until(lambda: drivers.find(NAME, GENERATION) is not None)

        later = self.restarted(drivers)

        assert (later.presence(handle), later.find(NAME, GENERATION)) == (Presence.ALIVE, handle)

    async def test_of_another_host_nothing_is_known(self, drivers: Any, handle: Handle) -> None:
        elsewhere = Handle()
        elsewhere.CopyFrom(handle)
        elsewhere.host = "elsewhere"

        assert drivers.presence(elsewhere) is Presence.REMOTE

    async def test_a_generation_is_started_once(self, drivers: Any, handle: Handle) -> None:
        with pytest.raises(FileExistsError):
            self.start(drivers, GENERATION)

        assert drivers.presence(handle) is Presence.ALIVE

    async def test_a_driver_that_is_drained_ends_without_an_error(self, drivers: Any, handle: Handle) -> None:
        await self.ready(handle)
        asked = [drivers.drain(handle), drivers.drain(handle)]
        await until(lambda: drivers.presence(handle) is Presence.GONE)
        left = drivers.exit(handle)

        assert asked == [True, False]
        assert (left.code, left.HasField("code"), left.HasField("error")) == (0, True, False)
        assert (drivers.living(), drivers.find(NAME, GENERATION)) == ([], None)

    async def test_a_driver_that_is_killed_is_gone_and_may_be_tried_again(
        self, drivers: Any, handle: Handle
    ) -> None:
        def gone() -> bool:
            drivers.kill(handle)
            return drivers.presence(handle) is Presence.GONE

        await until(gone)
        left = drivers.exit(handle)

        assert (left.error.reason in {"KILLED", "DRIVER_LOST"}, left.error.retryable) == (True, True)
        assert (drivers.living(), drivers.drain(handle)) == ([], False)

    async def test_a_launch_of_which_no_process_lives_is_gone_and_left_nothing(self, drivers: Any) -> None:
        lost = drivers.build_lost_handle(NAME, GENERATION)

        assert (drivers.presence(lost), drivers.drain(lost)) == (Presence.GONE, False)
        assert drivers.exit(lost).error.reason == "DRIVER_LOST"
        assert lost.run_dir == str(drivers.run_dir(NAME, GENERATION))

    async def test_what_a_launch_is_told_once_stays_as_it_was_told(
        self, drivers: Any, handle: Handle
    ) -> None:
        for text in ("1\n", "2\n"):
            drivers.tell(handle.run_dir, rundir.BOUNDARY, text)

        assert self.told(drivers, handle, rundir.BOUNDARY) == "1\n"

    async def test_what_runs_beside_a_driver_says_of_itself_how_far_it_is(self, drivers: Any) -> None:
        job = self.job(drivers, GENERATION)
        job.shadow.beside = GENERATION - 1
        handle = self.shadow(drivers, job)
        said = drivers.shadow_state(handle)
        await until(lambda: drivers.find(NAME, GENERATION) is not None)

        assert said == ShadowState()

    async def test_a_driver_that_began_as_one_says_nothing_of_the_kind(
        self, drivers: Any, handle: Handle
    ) -> None:
        assert drivers.shadow_state(handle) is None

    async def test_a_spare_becomes_the_driver_of_a_launch_and_ends_as_one(self, drivers: Any) -> None:
        spare = self.spare(drivers)
        await until(lambda: drivers.ready(spare), READY_S)
        before = drivers.find(NAME, GENERATION), drivers.lives(spare)
        handle = drivers.assign(spare, self.job(drivers, GENERATION))
        assert handle is not None
        found = drivers.find(NAME, GENERATION), self.restarted(drivers).find(NAME, GENERATION)
        drivers.clear_spares(None)
        alive = drivers.presence(handle)
        await self.ready(handle)
        drivers.drain(handle)
        await until(lambda: drivers.presence(handle) is Presence.GONE)
        left = drivers.exit(handle)

        assert before == (None, True)
        assert (handle.pid, handle.start_ticks, handle.spare) == (spare.pid, spare.start_ticks, True)
        assert handle.run_dir == str(drivers.run_dir(NAME, GENERATION))
        assert (found, alive) == ((handle, handle), Presence.ALIVE)
        assert (left.code, left.HasField("code"), left.HasField("error")) == (0, True, False)
        assert drivers.living() == []

    async def test_a_launch_that_was_started_is_not_given_to_a_spare_as_well(
        self, drivers: Any, handle: Handle
    ) -> None:
        spare = self.spare(drivers)
        await until(lambda: drivers.ready(spare), READY_S)

        with pytest.raises(OSError, match=r"exist|not empty"):
            drivers.assign(spare, self.job(drivers, GENERATION))

        assert drivers.find(NAME, GENERATION) == handle

    async def test_a_spare_is_given_no_second_launch_and_none_once_it_is_killed(self, drivers: Any) -> None:
        first, second = self.spare(drivers), self.spare(drivers)
        await until(lambda: drivers.ready(first) and drivers.ready(second), READY_S)
        drivers.assign(first, self.job(drivers, GENERATION))

        def gone() -> bool:
            drivers.kill(second)
            return not drivers.lives(second)

        await until(gone)
        given = [drivers.assign(each, self.job(drivers, GENERATION + 1)) for each in (first, second)]

        assert given == [None, None]
        assert drivers.find(NAME, GENERATION + 1) is None

    async def test_the_spares_of_schedulers_that_have_ended_are_cleared_away_but_not_ours(
        self, drivers: Any
    ) -> None:
        kept, others = self.spare(drivers), self.spare(drivers)
        await until(lambda: drivers.ready(kept) and drivers.ready(others), READY_S)

        def cleared() -> bool:
            drivers.clear_spares(kept)
            return not drivers.lives(others)

        await until(cleared)

        assert drivers.lives(kept)
        assert [dagger.run_dir for dagger in drivers.living()] == [kept.run_dir]
