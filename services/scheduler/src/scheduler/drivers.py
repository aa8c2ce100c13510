"""The drivers of this host: started, found, told to stop, killed, and what they leave behind.

A launch owns the directory RUNS/DAGGER/GENERATION. Its processes are one session, led by the wrapper; the
identity that the wrapper writes there proves that they are that launch's (`chassis.drivers`).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import DecodeError

from chassis import drivers, processes
from chassis.drivers import Identified
from chassis.files import replace_bytes
from daggerspec import rundir
from daggerspec.catalogue import Unresolved
from daggerspec.limits import MIN_HEAP_MIB
from daggerspec.rundir import DriverIdentity
from fleet.observation import Presence
from scheduler import exit_classification

_PLAIN = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def _is_plain(name: str) -> bool:
    """Whether a name is one directory below another, and no way to somewhere else."""
    return _PLAIN.fullmatch(name) is not None


def as_handle(identity: DriverIdentity, host: str) -> events_pb2.DriverHandle:
    """A driver of this host as the log has it."""
    return events_pb2.DriverHandle(
        host=host,
        boot_id=identity.boot_id,
        pid=identity.pid,
        start_ticks=identity.start_ticks,
        run_dir=identity.run_dir,
    )


class Drivers:
    """The drivers below one directory `runs` of one host.

    `python` runs the wrapper. Not for several threads.
    """

    def __init__(self, runs: Path, *, host: str, python: str) -> None:
        self.runs = runs
        self.host = host
        self._python = python
        self._children: set[int] = set()
        self._drained: set[tuple[int, int]] = set()
        self.write_missing()

    def run_dir(self, name: str, generation: int) -> Path:
        """The directory of a launch. Raises: Unresolved for a name that is none of a directory.

        The gateway judges names; but what stands in the log is not believed where it becomes a path.
        """
        if not _is_plain(name):
            raise Unresolved("INVALID_NAME", f"{name!r} cannot be the name of a dagger")
        return self.runs / name / str(generation)

    def start(
        self, job: spec_pb2.JobSpec, command: Sequence[str], environment: Mapping[str, str]
    ) -> events_pb2.DriverHandle:
        """Start a driver in a session of its own. Raises: OSError, Unresolved."""
        run_dir = self.run_dir(job.dagger, job.generation)
        # A directory that exists is another launch's.
        (run_dir / rundir.TEMPORARY).mkdir(parents=True, mode=0o700)
        replace_bytes(run_dir / rundir.SPEC, job.SerializeToString(deterministic=True))
        wrapper = [self._python, "-P", "-m", "scheduler.wrapper", "--run-dir", str(run_dir)]
        wrapper += ["--dagger", job.dagger, "--generation", str(job.generation), "--", *command]
        log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawn(
            wrapper[0],
            wrapper,
            dict(environment),
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(run_dir / rundir.LOG), log, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )
        self._children.add(pid)
        identity = drivers.led_by(pid, run_dir, dagger=job.dagger, generation=job.generation)
        return as_handle(identity, self.host)

    def write_missing(self) -> None:
        """Write the identities that no wrapper wrote: those of drivers that an older version has launched.

        Called when such a version may have acted: when a scheduler starts, and when it begins to lead.
        """
        for identity in drivers.unwritten(self.runs):
            with suppress(FileNotFoundError):  # its directory was deleted
                drivers.write(identity)

    def presence(self, handle: events_pb2.DriverHandle) -> Presence:
        """Whether a process of this driver lives, as far as this host can know."""
        if handle.host != self.host:
            return Presence.REMOTE
        self.reap()
        return Presence.ALIVE if drivers.alive(handle) else Presence.GONE

    def find(self, name: str, generation: int) -> events_pb2.DriverHandle | None:
        """The living driver of a launch."""
        self.reap()
        if not _is_plain(name):
            return None
        identity = drivers.read(self.run_dir(name, generation))
        if identity is None or not drivers.alive(identity):
            return None
        return as_handle(identity, self.host)

    def lost(self, name: str, generation: int) -> events_pb2.DriverHandle:
        """A launch of this host of which no process lives and only the directory is known."""
        run_dir = str(self.run_dir(name, generation)) if _is_plain(name) else ""
        return events_pb2.DriverHandle(host=self.host, run_dir=run_dir)

    def living(self) -> list[DriverIdentity]:
        """Every launch below `runs` that has a living process."""
        self.reap()
        return drivers.living(self.runs)

    def drain(self, handle: events_pb2.DriverHandle) -> bool:
        """Ask a driver to finish its batch and exit: the file `stop`, and one SIGTERM to its group.

        Answers whether this was the first time.
        """
        stop = Path(handle.run_dir) / rundir.STOP
        with suppress(FileNotFoundError):
            stop.touch()
        driver = handle.pid, handle.start_ticks
        if driver in self._drained or not self._members(handle):
            return False
        self._drained.add(driver)
        with suppress(ProcessLookupError):
            os.killpg(handle.pid, signal.SIGTERM)
        return True

    def kill(self, driver: Identified) -> None:
        """SIGKILL every process of a driver; to be called again until it is gone.

        The leader comes last: while it lives, what was just being forked is known as the driver's.
        """
        members = self._members(driver)
        for process in [each for each in members if each.pid != driver.pid] or members:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.reap()

    def exit(self, handle: events_pb2.DriverHandle) -> events_pb2.Exited:
        """How a driver that is gone ended."""
        run_dir = Path(handle.run_dir)
        code = _read(run_dir / rundir.EXIT_CODE) or ""
        left = _read(run_dir / rundir.EXIT)
        number = int(code) if re.fullmatch(r"-?\d{1,3}", code) else None
        return exit_classification.exited(number, left, heap_mib=_heap_mib(run_dir))

    def reap(self) -> None:
        """Take leave of our own children that have ended; others belong to pid 1."""
        for pid in list(self._children):
            try:
                done, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done = pid
            if done:
                self._children.discard(pid)

    def _members(self, driver: Identified) -> list[processes.Process]:
        self.reap()
        return drivers.members(driver)


def _heap_mib(run_dir: Path) -> int:
    """What a launch was given; 0 when nobody can say any more."""
    try:
        job = spec_pb2.JobSpec.FromString((run_dir / rundir.SPEC).read_bytes())
    except (OSError, DecodeError):
        return 0
    return max(job.spec.driver_memory_mib, MIN_HEAP_MIB)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
