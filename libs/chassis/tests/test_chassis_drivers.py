"""Which process is which driver: by identities in run directories, or by what older versions left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from chassis import drivers, processes
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity

DEADLINE_S = 60
PAUSE = "import signal; signal.pause()"
# Leads a session, starts one more process with the words of its argument, says which, and waits.
FAMILY = f"""
import signal, subprocess, sys
words = sys.argv[1].split("|") if sys.argv[1:] else []
print(subprocess.Popen([sys.executable, "-c", {PAUSE!r}, *words]).pid, flush=True)
signal.pause()
"""
NOBODY = 65534
AS_NOBODY = f"import os; os.setuid({NOBODY}); print('ready', flush=True); {PAUSE}"


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    made = tmp_path / "runs" / "d" / "5"
    made.mkdir(parents=True)
    return made


@contextmanager
def leader(code: str, *words: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that leads a session; all of that is killed in the end."""
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=cwd,
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            for driver in processes.session(process.pid):
                os.kill(driver.pid, signal.SIGKILL)


@contextmanager
def leaderless(cwd: Path) -> Iterator[tuple[int, int]]:
    """A session whose leader is gone: its process id, and that of the process that is left."""
    with leader(FAMILY, cwd=cwd) as process:
        left = int(process.stdout.readline())
        process.kill()
        process.wait(DEADLINE_S)
        yield process.pid, left


def identity(run_dir: Path, pid: int) -> DriverIdentity:
    return drivers.led_by(pid, run_dir, dagger="d", generation=5)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, "it never came to that"
        os.sched_yield()


def test_an_identity_is_read_as_it_was_written_and_what_later_versions_add_is_ignored(run_dir: Path) -> None:
    written = identity(run_dir, os.getpid())
    drivers.write(written)
    later = written.as_json().replace("{", '{"spare": true, ', 1)

    assert drivers.read(run_dir) == written == DriverIdentity.from_json(later)


@pytest.mark.parametrize("text", ["", "{}", "[]", "7", '{"dagger": "d", "generation": "x"}', "\x00" * 40])
def test_a_damaged_identity_is_none(run_dir: Path, text: str) -> None:
    (run_dir / rundir.IDENTITY).write_text(text)

    assert drivers.read(run_dir) is None
    assert drivers.living(run_dir.parent.parent) == []


def test_a_driver_lives_while_its_leader_does_and_all_of_its_session_is_its_own(run_dir: Path) -> None:
    runs = run_dir.parent.parent
    with leader(FAMILY, cwd=run_dir) as process:
        child = int(process.stdout.readline())
        ours = identity(run_dir, process.pid)
        drivers.write(ours)
        before = drivers.alive(ours), drivers.living(runs), {member.pid for member in drivers.members(ours)}

    until(lambda: not drivers.alive(ours))
    assert before == (True, [ours], {process.pid, child})
    assert (drivers.living(runs), drivers.members(ours), drivers.read(run_dir)) == ([], [], ours)


def test_a_process_that_was_given_the_pid_later_or_in_another_boot_is_not_the_driver(run_dir: Path) -> None:
    ours = identity(run_dir, os.getpid())
    reused = replace(ours, start_ticks=ours.start_ticks - 1)
    before_boot = replace(ours, boot_id="another")

    assert drivers.alive(ours)
    assert [drivers.alive(each) for each in (reused, before_boot)] == [False, False]
    assert [drivers.members(each) for each in (reused, before_boot)] == [[], []]


def test_a_driver_whose_leader_was_killed_lives_by_what_works_in_its_directory(run_dir: Path) -> None:
    with leaderless(run_dir) as (pid, left):
        orphaned = replace(identity(run_dir, pid), start_ticks=7)
        drivers.write(orphaned)

        assert drivers.alive(orphaned)
        assert [member.pid for member in drivers.members(orphaned)] == [left]
        assert drivers.living(run_dir.parent.parent) == [orphaned]


def test_a_session_of_somebody_elses_that_lost_its_leader_is_none_of_the_drivers(
    run_dir: Path, tmp_path: Path
) -> None:
    with leaderless(tmp_path) as (pid, _):
        ended = replace(identity(run_dir, pid), start_ticks=7)

        assert (drivers.alive(ended), drivers.members(ended)) == (False, [])


def test_what_an_older_version_launched_is_found_by_its_command_line_until_its_identity_is_written(
    run_dir: Path,
) -> None:
    runs = run_dir.parent.parent
    words = [
        "--run-dir",
        str(run_dir),
        "--generation",
        "5",
        "--",
        "spark-submit",
    ]  # as wrappers of 0.9 had it
    with leader(PAUSE, *words, cwd=run_dir) as process:
        until(lambda: drivers.unwritten(runs))
        unwritten = drivers.unwritten(runs)
        before = drivers.living(runs)
        drivers.write(unwritten[0])
        after = drivers.living(runs), drivers.unwritten(runs)

    assert unwritten == [replace(identity(run_dir, process.pid), start_ticks=unwritten[0].start_ticks)]
    assert unwritten[0].start_ticks > 0
    assert (before, after) == ([], (unwritten, []))


def test_a_driver_of_an_older_version_whose_wrapper_was_killed_is_found_by_its_other_processes(
    run_dir: Path,
) -> None:
    with leader(FAMILY, f"--spec|{run_dir}/spec.pb|--generation|5", cwd=run_dir) as process:
        left = int(process.stdout.readline())
        process.kill()
        process.wait(DEADLINE_S)
        unwritten = drivers.unwritten(run_dir.parent.parent)

        assert [(driver.dagger, driver.generation, driver.pid) for driver in unwritten] == [
            ("d", 5, process.pid)
        ]
        assert [member.pid for member in drivers.members(unwritten[0])] == [left]


def test_a_driver_whose_directory_was_deleted_is_found_by_its_command_line(run_dir: Path) -> None:
    runs = run_dir.parent.parent
    words = ["--run-dir", str(run_dir), "--dagger", "d", "--generation", "5", "--", "spark-submit"]
    with leader(PAUSE, *words, cwd=run_dir) as process:
        drivers.write(identity(run_dir, process.pid))
        (run_dir / rundir.IDENTITY).unlink()
        run_dir.rmdir()
        until(lambda: drivers.unwritten(runs))

        assert [driver.pid for driver in drivers.unwritten(runs)] == [process.pid]


def test_whoever_reads_a_log_or_runs_a_driver_by_hand_is_no_driver(run_dir: Path) -> None:
    with (
        leader(PAUSE, f"{run_dir}/driver.log", cwd=run_dir),
        leader(FAMILY, f"--spec|{run_dir}/spec.pb|--generation|5", cwd=run_dir) as shell,
    ):
        child = int(shell.stdout.readline())
        until(lambda: "--generation" in processes.arguments(child))

        assert drivers.unwritten(run_dir.parent.parent) == []


def test_a_driver_of_an_earlier_boot_or_container_went_with_it() -> None:
    driver = DriverIdentity(dagger="d", generation=5, run_dir="", boot_id="b", pid=7, start_ticks=100)

    def went(driver: DriverIdentity, boot_id: str = "b", began: int = 0) -> bool:
        return drivers.of_earlier_host(driver, boot_id=boot_id, began=began)

    assert went(driver, boot_id="c")
    assert went(driver, began=101)
    assert not went(driver, began=100)
    assert not went(driver)


def test_of_what_nobody_knows_nothing_is_proven() -> None:
    unknown = DriverIdentity(dagger="d", generation=5, run_dir="", boot_id="", pid=0, start_ticks=0)
    ended_at_once = replace(unknown, boot_id="b", pid=7)

    assert not drivers.of_earlier_host(unknown, boot_id="b", began=101)
    assert not drivers.of_earlier_host(ended_at_once, boot_id="b", began=101)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
def test_another_users_identity_is_believed_of_that_users_processes_and_that_launch_alone(
    run_dir: Path,
) -> None:
    with leader(PAUSE, cwd=run_dir) as victim, leader(AS_NOBODY, cwd=run_dir) as own:
        assert own.stdout is not None
        assert own.stdout.readline() == "ready\n"
        identities = {
            process: replace(
                drivers.led_by(process.pid, run_dir, dagger="other", generation=77), run_dir="/elsewhere"
            )
            for process in (victim, own)
        }
        found = {}
        for process, identity in identities.items():
            (run_dir / rundir.IDENTITY).write_text(identity.as_json())
            for path in (run_dir / rundir.IDENTITY, run_dir):
                os.chown(path, NOBODY, NOBODY)
            found[process] = drivers.read(run_dir)

    assert found[victim] is None
    assert found[own] == replace(identities[own], run_dir=str(run_dir), dagger="d", generation=5)
