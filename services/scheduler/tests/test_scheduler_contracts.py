"""The scheduler's hands and ears, and what stands for a driver in its tests, keep their promises."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from daggers.v1 import spec_pb2
from services.scheduler.tests.scheduler_world import command
from tests.contracts.beats import BeatsContract, MemoryBeats
from tests.contracts.drivers import NAME, DriversContract, Handle, until

from daggerspec.rundir import SPARE, DriverIdentity
from eventlog.admin import ensure_topics
from eventlog.topics import Topic
from kafkaclient import Connection
from scheduler.drivers.process_table import Drivers
from scheduler.leader.heartbeats import Heartbeats


class TestDrivers(DriversContract):
    """Of stand-ins; tests/integration has the same of real ones."""

    @pytest.fixture
    async def drivers(self, tmp_path: Path) -> AsyncIterator[Drivers]:
        made = Drivers(tmp_path / "runs", host="here", python=sys.executable)
        yield made

        def gone() -> bool:
            for driver in made.living():
                made.kill(driver)
            return not made.living()

        await until(gone)

    def start(self, drivers: Drivers, generation: int) -> Handle:
        job = self.job(drivers, generation)
        return drivers.start(job, *command(job, "local[1]"))

    def spare(self, drivers: Drivers) -> DriverIdentity:
        run_dir = str(drivers.runs / SPARE / str(time.time_ns()))
        job = spec_pb2.JobSpec(dagger=SPARE, generation=1, run_dir=run_dir)
        return drivers.start_spare(job, *command(job, "local[1]"))

    def job(self, drivers: Drivers, generation: int) -> spec_pb2.JobSpec:
        run_dir = str(drivers.run_dir(NAME, generation))
        job = spec_pb2.JobSpec(dagger=NAME, generation=generation, run_dir=run_dir)
        job.spec.sql = "run"
        return job

    def shadow(self, drivers: Drivers, job: spec_pb2.JobSpec) -> Handle:
        return drivers.start(job, *command(job, "local[1]"))

    async def ready(self, handle: Handle) -> None:
        await until((Path(handle.run_dir) / "driver.json").exists)

    def restarted(self, drivers: Drivers) -> Drivers:
        return Drivers(drivers.runs, host=drivers.host, python=sys.executable)


class TestMemoryBeats(BeatsContract):
    @pytest.fixture
    def topic(self) -> MemoryBeats:
        return MemoryBeats()

    @asynccontextmanager
    async def connected(self, topic: MemoryBeats) -> AsyncIterator[MemoryBeats]:
        yield topic


@pytest.mark.integration
class TestHeartbeats(BeatsContract):
    @pytest.fixture
    async def topic(self, kafka: str) -> tuple[Connection, str]:
        name = f"heartbeats-{uuid4().hex}"
        await ensure_topics(Connection(kafka), (Topic(name, 1, {}),))
        return Connection(kafka), name

    @asynccontextmanager
    async def connected(self, topic: tuple[Connection, str]) -> AsyncIterator[Heartbeats]:
        async with Heartbeats(*topic) as beats:
            yield beats
