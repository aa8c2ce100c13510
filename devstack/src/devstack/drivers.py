"""The drivers that a stack's scheduler has launched, as `chassis.drivers` knows them."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from chassis import drivers
from chassis.files import touch
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity
from devstack import processes
from devstack.processes import StackProcess


def find(state_dir: Path) -> list[DriverIdentity]:
    """Find every launch of which a process lives, also one of an older version or of a deleted directory."""
    runs = Path(os.path.realpath(state_dir)) / "runs"
    living = drivers.living(runs) + drivers.unwritten(runs)
    return sorted(living, key=lambda driver: (driver.dagger, driver.generation))


def describe(driver: DriverIdentity) -> str:
    """Describe a driver to a person: its dagger, or that it has none."""
    return "the spare" if driver.dagger == rundir.SPARE else driver.dagger


def session(driver: DriverIdentity) -> StackProcess:
    """Return what runs of a driver: the wrapper, the JVM, the Python half and its workers."""
    return StackProcess(
        name=f"driver {describe(driver)}",
        pid=driver.pid,
        start_ticks=driver.start_ticks,
        boot_id=driver.boot_id,
        log=str(Path(driver.run_dir) / rundir.LOG),
    )


def stop(living: Iterable[DriverIdentity], *, grace_s: float) -> list[str]:
    """Ask each to finish its batch; kill what still runs after `grace_s`. Returns who was killed."""
    sessions = []
    for driver in living:
        sessions.append(session(driver))
        with suppress(OSError):
            touch(Path(driver.run_dir) / rundir.STOP)
    return processes.stop(sessions, grace_s=grace_s)


def stop_all(state_dir: Path, *, grace_s: float) -> list[str]:
    """Stop drivers until none is left: one may have been launched while the scheduler was told to stop."""
    killed: list[str] = []
    deadline = time.monotonic() + 3 * grace_s
    while (living := find(state_dir)) and time.monotonic() < deadline:
        killed += stop(living, grace_s=grace_s)
    return killed
