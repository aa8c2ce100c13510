"""Capacity of this host: drivers, and memory for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from daggerspec.limits import DRIVER_OVERHEAD_MIB

MIB: Final = 1024 * 1024
# What everything else on the host may need: brokers, the database, these services.
RESERVE_MIB: Final = 2048
MEASURED_EVERY_S: Final = 5.0

_CGROUP: Final = Path("/sys/fs/cgroup")


def available_mib(cgroup: Path = _CGROUP) -> int:
    """Return the MiB of memory that can be had now: of the host, or of our control group when that allows
    less. What files take of it in the page cache can be had.
    """
    available = int(psutil.virtual_memory().available)
    for names in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
        for folder in (cgroup, cgroup / "memory"):
            try:
                limit, used = ((folder / name).read_text().strip() for name in names)
                if limit != "max":
                    cached = _page_cache((folder / "memory.stat").read_text())
                    available = min(available, int(limit) - max(0, int(used) - cached))
            except (OSError, ValueError):  # no control group, or one of the other version
                continue
    return max(0, available) // MIB


def _page_cache(stat: str) -> int:
    """Return the bytes that a control group has of files. Raises: ValueError."""
    values = dict(line.split(maxsplit=1) for line in stat.splitlines())
    prefix = "total_" if "total_inactive_file" in values else ""
    return sum(int(values.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Load of a host, as each beat says it; 0 where nobody measures it."""

    memory_mib: int = 0
    """Memory that all its drivers may need together."""
    busy_cores: float = 0.0
    """Processors that are busy, of those that drivers may use."""


def busy_cores() -> float:
    """Return how many processors of this host were busy over the last minute, as its load says."""
    return os.getloadavg()[0]


class HostMemory:
    """Memory that drivers may need together on this host, measured anew every few seconds: what others
    leave.
    """

    def __init__(
        self,
        driver_memory_mib: int,
        *,
        available: Callable[[], int],
        resident: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`available` and `resident` give MiB: what can be had now, and what our own processes have of what
        is counted for them. `clock` gives seconds.
        """
        self._least = _each(driver_memory_mib)
        self._available, self._resident, self._clock = available, resident, clock
        self._measured: list[int] = []
        self._when = 0.0

    def mib(self) -> int:
        """Return the MiB now, as far as that is no short peak: the median of the last three measurements; at
        least what one driver needs.
        """
        now = self._clock()
        if not self._measured or now - self._when >= MEASURED_EVERY_S:
            measured = self._available() + self._resident() - RESERVE_MIB
            self._measured, self._when = [*self._measured, measured][-3:], now
        return max(self._least, sorted(self._measured)[len(self._measured) // 2])


def max_drivers(memory_mib: int, driver_memory_mib: int) -> int:
    """Return how many drivers fit beside each other, at least 1, where so much memory is available and none
    runs.
    """
    driver_mib = _each(driver_memory_mib)
    return max(driver_mib, memory_mib - RESERVE_MIB) // driver_mib


def _each(driver_memory_mib: int) -> int:
    return driver_memory_mib + DRIVER_OVERHEAD_MIB
