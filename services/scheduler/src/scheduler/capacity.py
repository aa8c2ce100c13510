"""How many drivers this host can hold, and how much memory there is for them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import psutil

from daggerspec.limits import DRIVER_OVERHEAD_MIB

MIB: Final = 1024 * 1024
# What everything else on the host may need: brokers, the database, these services.
RESERVE_MIB: Final = 2048

_CGROUP: Final = Path("/sys/fs/cgroup")


def available_mib() -> int:
    """Memory that can be had now, MiB: of the host, or of our control group when that allows less."""
    available = int(psutil.virtual_memory().available)
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no control group, or an older kind
        return available // MIB
    if limit != "max":
        available = min(available, int(limit) - used)
    return available // MIB


def max_drivers(memory_mib: int, driver_memory_mib: int, running: int) -> int:
    """Drivers that fit beside each other, at least 1.

    `memory_mib` is what is available now, while `running` drivers of `driver_memory_mib` heap already run.
    """
    return room_mib(memory_mib, driver_memory_mib, running) // _each(driver_memory_mib)


def room_mib(memory_mib: int, driver_memory_mib: int, running: int) -> int:
    """What drivers may need together, MiB, at least what one needs; told as `max_drivers`."""
    driver_mib = _each(driver_memory_mib)
    return max(driver_mib, running * driver_mib + max(0, memory_mib - RESERVE_MIB))


def _each(driver_memory_mib: int) -> int:
    return driver_memory_mib + DRIVER_OVERHEAD_MIB
