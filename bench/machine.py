"""What every bench says of where it ran, and how it counts CPU."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import psutil

_TICKS = os.sysconf("SC_CLK_TCK")


def header(*packages: str) -> str:
    """Versions and machine, in one line."""
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    memory = psutil.virtual_memory().total / 2**30
    load = os.getloadavg()[0]
    return (
        f"# {versions}, Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} cores, {memory:.0f} GiB, load {load:.1f} at the start"
    )


@dataclass(frozen=True, slots=True)
class Spent:
    """Time gone by on the wall, and CPU time of some processes, in seconds."""

    wall: float
    cpu: float

    def __sub__(self, before: Spent) -> Spent:
        return Spent(self.wall - before.wall, self.cpu - before.cpu)


def spent(sessions: Iterable[int]) -> Spent:
    """CPU time so far of every process of these sessions, and of their children that have ended."""
    wanted, ticks = set(sessions), 0
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) in wanted:
                ticks += _ticks(process.pid)
        except (OSError, psutil.Error):
            continue
    return Spent(time.monotonic(), ticks / _TICKS)


def _ticks(pid: int) -> int:
    """utime, stime, cutime and cstime of a process, as /proc tells them."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    fields = stat.rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))
