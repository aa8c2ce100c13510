"""Real drivers keep the promises that scheduler, monitor and their doubles rely on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.launches import Dagger, whole
from tests.contracts.drivers import NAME, DriversContract, Handle, until
from tests.contracts.spark_ui import SparkUiContract

from chassis.processes import start_ticks
from daggerspec.rundir import SPARE, DriverIdentity
from scheduler.__main__ import find_installation, find_java
from scheduler.drivers import command
from scheduler.drivers.process_table import Drivers

pytestmark = [pytest.mark.integration, pytest.mark.long]
MASTER = "local[1]"


class RealDrivers(Drivers):
    """The drivers of this host, and the dagger that they run."""

    def __init__(self, runs: Path, dagger: Dagger) -> None:
        super().__init__(runs, host="here", python=str(find_installation().python))
        self.dagger = dagger

    def launch(self, name: str, generation: int) -> Handle:
        """Start a driver as the scheduler does."""
        return self.submit(self.job(name, generation))

    def submit(self, job: spec_pb2.JobSpec) -> Handle:
        """Start what a job is."""
        return self.start(job, command.spark_submit(job, MASTER, find_installation()), self._environment(job))

    def job(self, name: str, generation: int) -> spec_pb2.JobSpec:
        """A launch of the dagger."""
        self.dagger.name, self.dagger.generation = name, generation
        return whole(self.dagger.spec(self.run_dir(name, generation)))

    def spare(self) -> DriverIdentity:
        """Start a spare as the scheduler does, and as its scheduler."""
        run_dir = str(self.runs / SPARE / str(time.time_ns()))
        job = spec_pb2.JobSpec(dagger=SPARE, generation=1, run_dir=run_dir)
        me = f"{os.getpid()}:{start_ticks(os.getpid())}"
        words = command.spare(job, MASTER, find_installation(), me)
        return self.start_spare(job, words, self._environment(job))

    def _environment(self, job: spec_pb2.JobSpec) -> dict[str, str]:
        inherited = {"JAVA_HOME": str(find_java(None, os.environ))}  # noqa: TID251 - as the scheduler's root does
        return command.environment(job, MASTER, find_installation(), inherited)


@pytest.fixture
async def drivers(tmp_path: Path, kafka: str) -> AsyncIterator[RealDrivers]:
    log = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(log=spec_pb2.LogSink()))
    made = RealDrivers(tmp_path / "runs", Dagger(tmp_path, kafka, sinks=[log]))
    yield made

    def gone() -> bool:
        for driver in made.living():
            made.kill(driver)
        return not made.living()

    await until(gone)


def told(handle: Handle) -> dict[str, Any]:
    """What the driver says of itself."""
    file = Path(handle.run_dir) / "driver.json"
    said: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return said


class TestRealDrivers(DriversContract):
    def start(self, drivers: RealDrivers, generation: int) -> Handle:
        return drivers.launch(NAME, generation)

    def spare(self, drivers: RealDrivers) -> DriverIdentity:
        return drivers.spare()

    def job(self, drivers: RealDrivers, generation: int) -> spec_pb2.JobSpec:
        return drivers.job(NAME, generation)

    def shadow(self, drivers: RealDrivers, job: spec_pb2.JobSpec) -> Handle:
        return drivers.submit(job)

    async def ready(self, handle: Handle) -> None:
        await until(lambda: bool(told(handle)))

    def restarted(self, drivers: RealDrivers) -> RealDrivers:
        return RealDrivers(drivers.runs, drivers.dagger)


class TestRealSparkUi(SparkUiContract):
    @pytest.fixture
    async def ui(self, drivers: RealDrivers) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
        handle = drivers.launch(self.DAGGER, self.GENERATION)
        await until(lambda: bool(told(handle).get("ui_url")))
        async with httpx.AsyncClient(trust_env=False) as client:
            url = told(handle)["ui_url"]
            await client.get(f"{url}/api/v1/applications", timeout=60)  # its first answer takes longest
            yield client, url
