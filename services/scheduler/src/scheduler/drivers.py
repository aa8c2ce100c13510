"""The drivers of this host: started, found, told to stop, killed, and what they leave behind.

A launch owns the directory RUNS/DAGGER/GENERATION. Its processes are one session, led by the wrapper; the
directory in their command lines, with the generation beside it, is what proves that they are that launch's.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import DecodeError

from chassis import processes
from daggerspec import rundir
from daggerspec.limits import MIN_HEAP_MIB
from fleet.observation import Presence
from scheduler import exits


@dataclass(frozen=True, slots=True)
class Living:
    """A launch with a living process."""

    name: str
    generation: int
    handle: events_pb2.DriverHandle


class Drivers:
    """The drivers below one directory `runs` of one host.

    `python` runs the wrapper. Not for several threads.
    """

    def __init__(self, runs: Path, *, host: str, python: str) -> None:
        self.runs = runs
        self.host = host
        self._boot_id = processes.boot_id()
        self._python = python
        self._children: set[int] = set()
        self._drained: set[tuple[int, int]] = set()

    def run_dir(self, name: str, generation: int) -> Path:
        """The directory of a launch."""
        return self.runs / name / str(generation)

    def start(
        self, job: spec_pb2.JobSpec, command: Sequence[str], environment: Mapping[str, str]
    ) -> events_pb2.DriverHandle:
        """Start a driver in a session of its own. Raises: OSError."""
        run_dir = self.run_dir(job.dagger, job.generation)
        (run_dir / rundir.TEMPORARY).mkdir(
            parents=True, mode=0o700
        )  # a directory that exists is another launch's
        (run_dir / rundir.SPEC).write_bytes(job.SerializeToString(deterministic=True))
        wrapper = [self._python, "-P", "-m", "scheduler.wrapper", "--run-dir", str(run_dir)]
        wrapper += ["--generation", str(job.generation), "--", *command]
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
        process = processes.find(pid)
        return self._handle(pid, process.start_ticks if process else 0, run_dir)

    def presence(self, handle: events_pb2.DriverHandle) -> Presence:
        """Whether a process of this driver lives, as far as this host can know."""
        if handle.host != self.host:
            return Presence.REMOTE
        self.reap()
        leader = processes.find(handle.pid) if handle.boot_id == self._boot_id else None
        if leader is not None:  # the common case, without a look at everybody
            return Presence.ALIVE if leader.start_ticks == handle.start_ticks else Presence.GONE
        return Presence.ALIVE if self._members(handle) else Presence.GONE

    def find(self, name: str, generation: int) -> events_pb2.DriverHandle | None:
        """The living driver of a launch."""
        found = (each for each in self.living() if (each.name, each.generation) == (name, generation))
        return next((each.handle for each in found), None)

    def lost(self, name: str, generation: int) -> events_pb2.DriverHandle:
        """A launch of this host of which no process lives and only the directory is known."""
        return events_pb2.DriverHandle(host=self.host, run_dir=str(self.run_dir(name, generation)))

    def living(self) -> list[Living]:
        """Every launch below `runs` that has a living process."""
        self.reap()
        found: dict[tuple[str, int], Living] = {}
        for process in processes.everybody():
            launch = self._launch(process.pid)
            if launch is None or launch in found:
                continue
            leader = processes.find(process.session)
            start_ticks = leader.start_ticks if leader else process.start_ticks
            name, generation = launch
            handle = self._handle(process.session, start_ticks, self.run_dir(name, generation))
            found[launch] = Living(name, generation, handle)
        return list(found.values())

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

    def kill(self, handle: events_pb2.DriverHandle) -> None:
        """SIGKILL every process of a driver; to be called again until it is gone.

        The leader comes last: while it lives, what was just being forked is known as the driver's.
        """
        members = self._members(handle)
        for process in [each for each in members if each.pid != handle.pid] or members:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.reap()

    def exit(self, handle: events_pb2.DriverHandle) -> events_pb2.Exited:
        """How a driver that is gone ended."""
        run_dir = Path(handle.run_dir)
        code = _read(run_dir / rundir.EXIT_CODE) or ""
        left = _read(run_dir / rundir.EXIT)
        number = int(code) if re.fullmatch(r"-?\d{1,3}", code) else None
        return exits.exited(number, left, heap_mib=_heap_mib(run_dir))

    def reap(self) -> None:
        """Take leave of our own children that have ended; others belong to pid 1."""
        for pid in list(self._children):
            try:
                done, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done = pid
            if done:
                self._children.discard(pid)

    def _handle(self, pid: int, start_ticks: int, run_dir: Path) -> events_pb2.DriverHandle:
        return events_pb2.DriverHandle(
            host=self.host, boot_id=self._boot_id, pid=pid, start_ticks=start_ticks, run_dir=str(run_dir)
        )

    def _members(self, handle: events_pb2.DriverHandle) -> list[processes.Process]:
        """The living processes of a driver's session; none when the session is somebody else's by now."""
        self.reap()
        if handle.boot_id != self._boot_id:
            return []
        leader = processes.find(handle.pid)
        if leader is not None and leader.start_ticks != handle.start_ticks:
            return []  # the pid was given to another process, which can only be when the session had ended
        members = processes.session(handle.pid)
        if leader is None and not any(self._belongs(each.pid, handle.run_dir) for each in members):
            return []
        return members

    def _belongs(self, pid: int, run_dir: str) -> bool:
        launch = self._launch(pid)
        return launch is not None and str(self.run_dir(*launch)) == run_dir

    def _launch(self, pid: int) -> tuple[str, int] | None:
        """The launch that a process belongs to, by its command line."""
        arguments = processes.arguments(pid)
        if "--generation" not in arguments[:-1]:
            return None
        generation = arguments[arguments.index("--generation") + 1]
        for argument in arguments:
            with suppress(ValueError):
                name, number, *_ = Path(argument).relative_to(self.runs).parts
                if number == generation:
                    return name, int(generation)
        return None


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
