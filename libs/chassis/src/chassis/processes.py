"""The process table of this host, as /proc shows it: who lives, in which session, started how.

A process is told from a later one with the same pid by its start time in clock ticks after boot, and from one
of an earlier boot by the boot id.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_DEAD: Final = frozenset("ZXx")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """A living process; zombies do not count."""

    pid: int
    session: int
    """Process id of its session's leader, who may be gone."""
    start_ticks: int
    """Start time, in clock ticks after boot."""


@cache
def boot_id() -> str:
    """Identity of this boot of this host."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def pid_namespace() -> str:
    """Identity of the name space our process ids belong to: a container has its own."""
    return os.readlink(_PROC / "self/ns/pid")  # noqa: PTH115 - not a path: "pid:[4026531836]"


def find(pid: int) -> Process | None:
    """Find the living process with this id; None when there is none."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # "pid (name) state ppid pgrp session …": the name may hold anything, also ") "
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0].decode() in _DEAD:
        return None
    return Process(pid, session=int(fields[3]), start_ticks=int(fields[19]))


def owner(pid: int) -> int | None:
    """Return the user id that a process acts as; None when there is none."""
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    return next((int(line.split()[2]) for line in status.splitlines() if line.startswith("Uid:")), None)


def start_ticks(pid: int) -> int | None:
    """Return the start of the living process with this id, in clock ticks after boot; None without one."""
    process = find(pid)
    return None if process is None else process.start_ticks


def everybody() -> Iterator[Process]:
    """Yield all living processes that this user may see."""
    for entry in os.scandir(_PROC):
        if entry.name.isdigit() and (process := find(int(entry.name))) is not None:
            yield process


def session(leader: int) -> list[Process]:
    """List the living processes of a session."""
    return [process for process in everybody() if process.session == leader]


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """Resources that the processes of a session use."""

    resident_bytes: int
    """Memory now; shared memory counts for each process."""
    cpu_seconds: float
    """Processor time since they began, with that of the children that they have waited for."""


def measure_session(leader: int) -> SessionUsage:
    """Measure the resources of a session's processes, including ended ones that are not reaped yet."""
    pages = ticks = 0
    for entry in os.scandir(_PROC):
        with suppress(OSError, IndexError, ValueError):  # it may have ended meanwhile
            if entry.name.isdigit() and os.getsid(int(entry.name)) == leader:
                stat = (_PROC / entry.name / "stat").read_bytes()
                fields = stat[stat.rindex(b")") + 2 :].split()
                ticks += sum(map(int, fields[11:15]))  # utime stime cutime cstime
                pages += int(fields[21])
    return SessionUsage(pages * resource.getpagesize(), ticks / _TICKS)


def resident_bytes() -> dict[int, int]:
    """Memory that the processes of each session take, by its leader; what they share counts for each."""
    pages: dict[int, int] = {}
    for entry in os.scandir(_PROC):
        with suppress(OSError, IndexError, ValueError):  # it may have ended meanwhile
            if entry.name.isdigit():
                leader = os.getsid(int(entry.name))
                resident = int((_PROC / entry.name / "statm").read_bytes().split()[1])
                pages[leader] = pages.get(leader, 0) + resident
    return {leader: count * resource.getpagesize() for leader, count in pages.items()}


def age_ms(pid: int) -> int:
    """Return the age of the living process with this id; 0 without one."""
    started = start_ticks(pid)
    if started is None:
        return 0
    return max(0, round((time.clock_gettime(time.CLOCK_BOOTTIME) - started / _TICKS) * 1_000))


def began() -> int:
    """Return the start of this machine or container, in clock ticks after boot: that of its first process.

    0 where that process is not visible.
    """
    return start_ticks(1) or 0


def arguments(pid: int) -> list[str]:
    """Read the command line of a process; empty when it is gone, or a thread of the kernel."""
    try:
        line = (_PROC / str(pid) / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []
    return os.fsdecode(line).split("\0")[:-1]


def working_directory(pid: int) -> str:
    """Read the working directory of a process; empty when it is gone, or another user's.

    Linux adds ` (deleted)` to a directory that was deleted.
    """
    try:
        return os.readlink(_PROC / str(pid) / "cwd")  # noqa: PTH115 - may be no path that is there
    except OSError:
        return ""
