"""What every bench says of where it ran, and how it counts CPU."""

from __future__ import annotations

import os
import platform
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import Self

import psutil


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


class Meter:
    """CPU time of every process of some sessions, those included that end meanwhile. A context manager.

    PySpark's daemon lets the kernel reap its workers, so what a worker has used is in nobody's account once
    it is gone: this looks every 0.2 s and keeps what it saw.
    """

    def __init__(self, *sessions: int) -> None:
        self._sessions = {*sessions}
        self._used: dict[psutil.Process, float] = {}
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def read(self) -> Spent:
        """What was spent so far; two of them may be subtracted."""
        self._look()
        return Spent(time.monotonic(), sum(self._used.values()))

    def follow(self, *sessions: int) -> None:
        """Count these from now on, too."""
        with self._lock:
            self._sessions |= {*sessions}

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self._look()

    def _look(self) -> None:
        with self._lock:
            for pid in psutil.pids():
                with suppress(OSError, psutil.Error):
                    if os.getsid(pid) in self._sessions:
                        process = psutil.Process(pid)
                        used = process.cpu_times()
                        self._used[process] = (
                            used.user + used.system
                        )  # another process of its pid is another key


def proportional_set_size(*sessions: int) -> int:
    """Memory of all processes of some sessions, in bytes; shared pages are divided among who shares them."""
    size = 0
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) in sessions:
                size += int(process.memory_full_info().pss)
        except (OSError, psutil.Error):
            continue
    return size
