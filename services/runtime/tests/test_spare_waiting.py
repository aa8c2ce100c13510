"""A spare while it waits, without Spark: what makes it a launch's driver, and what ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chassis import drivers, processes
from chassis.drivers import DriverIdentity
from daggerspec import rundir
from runtime.errors import JobError
from runtime.launch.spare import Spare

DEADLINE_S = 60.0


def scheduler(pid: int | None = None, *, later: int = 0) -> str:
    """This process as somebody's scheduler, or another one."""
    pid = pid or os.getpid()
    return f"{pid}:{(processes.start_ticks(pid) or 0) + later}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the spare works; back at the end, for a directory may be gone by then."""
    made = tmp_path / "runs" / rundir.SPARE / "17"
    made.mkdir(parents=True)
    (made / rundir.LOG).write_text("what it said at its warm-up run\n")
    monkeypatch.chdir(made)
    return made


def launched(home: Path) -> Path:
    """The directory of a launch, which the spare's becomes."""
    run_dir = home.parents[1] / "d" / "42"
    run_dir.parent.mkdir()
    identity = drivers.led_by(os.getpid(), run_dir, dagger="d", generation=42)
    (home / rundir.IDENTITY).write_text(identity.as_json())
    return home.rename(run_dir)


def waiting(spare: Spare, home: Path, meanwhile: threading.Event) -> DriverIdentity | None:
    """What it waits for; `meanwhile` is set once it is ready."""
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(spare.wait, "http://ui")
        while not (home / rundir.DRIVER).exists() and not waits.done():
            os.sched_yield()
        meanwhile.set()
        return waits.result(DEADLINE_S)


def test_a_spare_is_the_launch_whose_directory_its_own_has_become(home: Path) -> None:
    ready = threading.Event()
    spare = Spare(scheduler())
    with ThreadPoolExecutor(1) as threads:
        moved = threads.submit(lambda: ready.wait(DEADLINE_S) and launched(home))
        assigned = waiting(spare, home, ready)
        run_dir = moved.result(DEADLINE_S)

    assert assigned is not None
    assert (assigned.dagger, assigned.generation, assigned.run_dir) == ("d", 42, str(run_dir))
    assert (home.is_symlink(), home.resolve()) == (True, run_dir)
    assert (run_dir / rundir.LOG).read_text() == ""
    told = json.loads((run_dir / rundir.DRIVER).read_text())
    assert told == {
        "pid": os.getpid(),
        "start_ticks": processes.start_ticks(os.getpid()),
        "ui_url": "http://ui",
    }


def test_a_spare_that_is_told_to_stop_or_has_lost_its_directory_is_over(home: Path) -> None:
    told, lost = Spare(scheduler()), Spare(scheduler())
    before = told.is_over()
    (home / rundir.STOP).touch()
    stopped = told.is_over(), told.wait("")
    for file in home.iterdir():
        file.unlink()
    home.rmdir()

    assert (before, stopped) == (False, (True, None))
    assert lost.is_over()


def test_a_spare_whose_scheduler_has_ended_is_over(home: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        spare = Spare(scheduler(process.pid))
        before = spare.is_over()
        process.communicate(b"\n", DEADLINE_S)

    assert (before, spare.is_over(), spare.wait("")) == (False, True, None)


def test_another_process_with_the_pid_of_its_scheduler_is_not_its_scheduler(home: Path) -> None:
    assert Spare(scheduler(later=-1)).is_over()


def test_a_launch_that_a_scheduler_gave_before_it_ended_is_run(home: Path) -> None:
    spare = Spare(scheduler(later=-1))
    gone = spare.is_over()
    launched(home)
    assigned = spare.wait("")

    assert gone
    assert assigned is not None
    assert assigned.generation == 42
    assert not spare.is_over()


def test_a_spare_in_whose_place_something_else_is_runs_nothing(home: Path) -> None:
    spare = Spare(scheduler())
    launched(home)
    home.mkdir()

    with pytest.raises(JobError, match="SPARE_LOST"):
        spare.wait("")


def test_a_directory_without_the_identity_of_a_launch_is_no_launch(home: Path) -> None:
    spare = Spare(scheduler())
    home.rename(home.with_name("18"))

    with pytest.raises(JobError, match="has no identity"):
        spare.wait("")
