"""The drivers that a stack's scheduler has launched: found in the process table by their run directories."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from chassis.processes import boot_id, start_ticks
from daggerspec import rundir
from devstack import processes
from devstack.processes import Started


@dataclass(frozen=True)
class Driver:
    """One launch that still runs: its dagger, generation, run directory and session."""

    dagger: str
    generation: str
    run_dir: Path
    session: Started


def find(state_dir: Path) -> list[Driver]:
    """Every launch of which a process lives.

    A process belongs to a launch when it or the leader of its session was started with a file of that run
    directory as an argument, and was started as a session of its own: somebody's `tail -f` of the log, inside
    their shell's session, is not ours.
    """
    runs = state_dir / "runs"
    found: dict[int, Driver] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            run_dir = run_directory(process.cmdline(), runs)
            if run_dir is None:
                continue
            session = os.getsid(process.pid)
            if session in found or not _leads(session, runs):
                continue
            name = f"driver {run_dir.parent.name}"
            log = str(run_dir / rundir.LOG)
            leader = Started(name, session, start_ticks(session) or 0, boot_id(), log)
            found[session] = Driver(run_dir.parent.name, run_dir.name, run_dir, leader)
    return sorted(found.values(), key=lambda driver: (driver.dagger, driver.generation))


def run_directory(words: list[str], runs: Path) -> Path | None:
    """The run directory RUNS/DAGGER/GENERATION that a command line names a file of, or itself."""
    prefix = f"{runs}/"
    for word in words:
        place = word.find(prefix)
        if place < 0 or rundir.LOG in word:
            continue
        parts = word[place + len(prefix) :].split("/")
        if len(parts) >= 2 and parts[1].isdigit():
            return runs / parts[0] / parts[1]
    return None


def stop(drivers: list[Driver], *, grace_s: float) -> list[str]:
    """Ask each to finish its batch; kill what still runs after `grace_s`. Returns the daggers killed."""
    for driver in drivers:
        with suppress(OSError):
            (driver.run_dir / rundir.STOP).touch()
    return processes.stop((driver.session for driver in drivers), grace_s=grace_s)


def stop_all(state_dir: Path, *, grace_s: float) -> list[str]:
    """Stop drivers until none is left: one may have been launched while the scheduler was told to stop."""
    killed: list[str] = []
    deadline = time.monotonic() + 3 * grace_s
    while (drivers := find(state_dir)) and time.monotonic() < deadline:
        killed += stop(drivers, grace_s=grace_s)
    return killed


def _leads(session: int, runs: Path) -> bool:
    """Whether the session's leader is a launch's wrapper, or gone."""
    with suppress(psutil.NoSuchProcess):
        return run_directory(psutil.Process(session).cmdline(), runs) is not None
    return True


def members(driver: Driver) -> Iterator[psutil.Process]:
    """What runs of a driver: the wrapper, the JVM, the Python half and its workers."""
    yield from driver.session.members()
