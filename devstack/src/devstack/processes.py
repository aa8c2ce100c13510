"""Processes of the stack: started as sessions of their own, told from re-used ids by their start time.

A session id is its leader's process id, and the kernel does not give a process id away while a session of
that number lives; so what we started, and all it started, is the session of the process we recorded.
What was recorded may be lost; so each process also carries a mark in its environment, which names its stack.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chassis.processes import boot_id, start_ticks

if TYPE_CHECKING:
    import psutil

POLL_S = 0.05
MARK = "DAGGERS_LOCAL_PROCESS"


@dataclass(frozen=True)
class StackProcess:
    """A process we started.

    name: what it is, for people ("kafka").
    pid: leader of its session.
    start_ticks: its start time, in clock ticks after boot.
    boot_id: the boot it was started in: the same pid and ticks after a reboot are another process.
    log: where its output goes.
    """

    name: str
    pid: int
    start_ticks: int
    boot_id: str
    log: str

    def alive(self) -> bool:
        """Tell whether this very process runs; one that only waits to be reaped does not."""
        return self.boot_id == boot_id() and start_ticks(self.pid) == self.start_ticks

    def members(self) -> "list[psutil.Process]":
        """Return what runs of its session, itself included; empty when the pid is another process by now."""
        from devstack.process_table import session_members  # psutil: not for who asks where a stack is

        ticks = start_ticks(self.pid)
        if self.boot_id != boot_id() or (ticks is not None and ticks != self.start_ticks):
            return []
        return session_members(self.pid)


def start(
    name: str,
    words: Sequence[str | Path],
    *,
    stack: Path,
    log: Path,
    env: Mapping[str, str],
    folder: Path | None = None,
) -> StackProcess:
    """Start a process that outlives us: its own session, no input, none of our descriptors.

    stack: the state directory that it is marked with, for `marked` to find it by.
    folder: where it works; None: beside its log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [str(word) for word in words],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True, close_fds=True, cwd=folder or log.parent,
            env={**env, MARK: _mark(name, stack)},
        )  # fmt: skip
    # it is detached on purpose; reaped by `stop`, or by init after we are gone
    process.returncode = 0
    return StackProcess(name, process.pid, start_ticks(process.pid) or 0, boot_id(), str(log))


def find_marked(stack: Path) -> list[StackProcess]:
    """Find the processes of a stack in the process table of this user; one for each session."""
    from devstack.process_table import sessions_with

    sessions = sessions_with(MARK, lambda mark: mark == _mark(mark.partition(":")[0], stack))
    return [
        StackProcess(mark.partition(":")[0], session, start_ticks(session) or 0, boot_id(), "")
        for session, mark in sessions.items()
    ]


def _mark(name: str, stack: Path) -> str:
    return f"{name}:{os.path.realpath(stack)}"


def stop(processes: Iterable[StackProcess], *, grace_s: float) -> list[str]:
    """SIGTERM to each process's group, SIGKILL to what is left of its session after `grace_s` seconds.

    Returns the names of those that had to be killed.
    """
    pending = [process for process in processes if process.members()]
    for process in pending:
        signal_group(process.pid, signal.SIGTERM)
    await_end(pending, grace_s)
    killed = [process for process in pending if process.members()]
    for process in killed:
        kill(process)
    await_end(killed, grace_s)
    return [process.name for process in killed]


def kill(process: StackProcess) -> None:
    """SIGKILL to every process of the session."""
    from devstack.process_table import kill_all

    kill_all(process.members())


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to a process group, if it is still there."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def await_end(processes: Iterable[StackProcess], grace_s: float) -> None:
    """Wait until nothing of these sessions runs, at most `grace_s` seconds."""
    deadline = time.monotonic() + grace_s
    pending = list(processes)
    while pending and time.monotonic() < deadline:
        for process in pending:
            _reap(process.pid)
        pending = [process for process in pending if process.members()]
        if pending:
            time.sleep(POLL_S)


@contextmanager
def ignoring_signals() -> Iterator[None]:
    """Finish what is inside: stopping is bounded in time, and half of it would leave processes behind."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
