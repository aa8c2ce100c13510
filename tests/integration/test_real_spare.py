"""A real spare: it warms up without any Kafka, is given a launch, and is that launch's driver to its end."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.launches import TOOLS
from tests.contracts.drivers import until

from chassis import processes
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity
from daggerspec.topics import HEARTBEATS, QUARANTINE
from fleet.decide.observation import Presence
from runtime.clients import mock_cluster
from runtime.launch import warmup_run
from runtime.spark.home import ARCHIVE
from scheduler.__main__ import find_installation, find_java
from scheduler.drivers import command
from scheduler.drivers.process_table import Drivers

pytestmark = pytest.mark.integration
MASTER = "local[1]"


@pytest.fixture
async def drivers(tmp_path: Path) -> AsyncIterator[Drivers]:
    made = Drivers(tmp_path / "runs", host="here", python=str(find_installation().python))
    yield made

    def gone() -> bool:
        for driver in made.living():
            made.kill(driver)
        return not made.living()

    await until(gone)


def started(drivers: Drivers, scheduler: int) -> DriverIdentity:
    """A spare, started as a scheduler starts it; from the prepared home, where there is one."""
    prepared = next((path.parent for path in TOOLS.glob(f"spark-{pyspark.__version__}-*/{ARCHIVE}")), None)
    installation = replace(find_installation(), prepared=prepared)
    run_dir = drivers.runs / rundir.SPARE / str(time.time_ns())
    job = spec_pb2.JobSpec(dagger=rundir.SPARE, generation=1, run_dir=str(run_dir))
    inherited = {"JAVA_HOME": str(find_java(None, os.environ))}  # noqa: TID251 - as the scheduler's root does
    whose = f"{scheduler}:{processes.start_ticks(scheduler) or 0}"
    words = command.spare(job, MASTER, installation, whose)
    return drivers.start_spare(job, words, command.environment(job, MASTER, installation, inherited))


def log(run_dir: Path | str) -> str:
    return (Path(run_dir) / rundir.LOG).read_text(errors="replace")


@pytest.mark.long
async def test_a_spare_that_has_warmed_up_runs_the_launch_that_it_is_given(
    drivers: Drivers, tmp_path: Path
) -> None:
    spare = started(drivers, os.getpid())
    await until(lambda: drivers.ready(spare) or not drivers.lives(spare), 240)
    assert drivers.ready(spare), log(spare.run_dir)
    with mock_cluster.run_cluster([warmup_run._TOPIC, warmup_run._ROWS, HEARTBEATS, QUARANTINE]) as kafka:
        warmup_run._write(spec_pb2.KafkaAddress(bootstrap_servers=kafka))
        job = warmup_run.job(tmp_path / "own", kafka, 42)
        job.dagger, job.run_dir = "d", str(drivers.run_dir("d", 42))
        handle = drivers.assign(spare, job)
        assert handle is not None
        commits = tmp_path / "own"
        await until(lambda: bool([*commits.glob("checkpoints-42/checkpoints/*/commits/1")]), 240)
        members = {process.pid for process in processes.session(handle.pid)}
        drivers.drain(handle)
        await until(lambda: drivers.presence(handle) is Presence.GONE, 240)
    left, run_dir = drivers.exit(handle), Path(handle.run_dir)

    assert (left.code, left.HasField("code"), left.HasField("error")) == (0, True, False), log(run_dir)
    assert len(members) >= 4
    assert "assigned" in log(run_dir).splitlines()[0]
    assert "warmup" not in log(run_dir)
    assert 'batch dagger=d batch_id=0 rows={"kafka":' in log(run_dir)
    assert (run_dir / rundir.EXIT_CODE).read_text() == "0\n"


@pytest.mark.long
async def test_a_spare_without_a_scheduler_ends_by_itself(drivers: Drivers) -> None:
    spare = started(drivers, 2**22)  # beyond the greatest process id
    await until(lambda: not drivers.lives(spare), 240)

    assert (Path(spare.run_dir) / rundir.EXIT_CODE).read_text() == "0\n", log(spare.run_dir)
