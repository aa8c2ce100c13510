"""Detects an overloaded host, so that slow processes are not reported as broken.

Linux measures the time that tasks wait for processors, memory and disks ("pressure stall information"): of
the host in /proc/pressure, of a control group (v2) in its own files. Without it, runnable tasks per processor
are counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HOST_OVERLOADED: Final = "HOST_OVERLOADED"
"""Reason in findings and errors."""
_KINDS: Final = {"cpu": ("some", 75.0), "memory": ("some", 30.0), "io": ("full", 60.0)}
"""Of each what counts, and the share (%) of the last minute from which on it is too much: `some`, that any
task waited; `full`, that all did."""
_WAITED: Final = {"cpu": "a processor", "memory": "memory", "io": "a disk"}
_RUNNABLE: Final = 4.0
"""Runnable tasks per processor that are an overload, where pressure is not measured."""
_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Pressure:
    """Measures of one moment."""

    waited: Mapping[str, float] = field(default_factory=dict)
    """By kind (cpu, memory, io): the share (%) of the last minute in which tasks waited; the worst of host
    and control group. Empty where nobody counts it."""
    runnable: float = 0.0
    """Tasks that wanted to run in the last minute, for each processor; those that wait for a disk, too."""

    @property
    def overload(self) -> str:
        """Overload in one clause; empty without one."""
        for kind, share in self.waited.items():
            if share >= _KINDS[kind][1]:
                whom = "all tasks" if _KINDS[kind][0] == "full" else "tasks"
                waited = f"{whom} waited for {_WAITED[kind]} {share:.0f} % of the last minute"
                return f"the host is overloaded: {waited}"
        if not self.waited and self.runnable >= _RUNNABLE:
            return f"the host is overloaded: {self.runnable:.1f} tasks for each processor want to run"
        return ""


def measure(proc: Path = _PROC, cgroup: Path = _CGROUP, processors: int | None = None) -> Pressure:
    """Measure the pressure on this process now. Never raises: unreadable files are left out."""
    waited: dict[str, float] = {}
    for kind, (line, _) in _KINDS.items():
        for file in _files(proc, cgroup, kind):
            with suppress(OSError, ValueError, IndexError):
                share = _share(file.read_text(), line)
                waited[kind] = max(share, waited.get(kind, 0.0))
    runnable = 0.0
    with suppress(OSError, ValueError, IndexError):
        load = float((proc / "loadavg").read_text().split()[0])
        runnable = load / (processors or os.cpu_count() or 1)
    return Pressure(waited, runnable)


def overload() -> str:
    """Describe the overload of this host now in one clause; empty without one."""
    return measure().overload


def _files(proc: Path, cgroup: Path, kind: str) -> Iterator[Path]:
    yield proc / "pressure" / kind
    with suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text().splitlines():
            number, _, own = line.split(":", 2)
            if number == "0":  # the unified hierarchy, version 2
                yield cgroup / own.lstrip("/") / f"{kind}.pressure"


def _share(text: str, line: str) -> float:
    """Read the % of the last minute from "some avg10=1.00 avg60=2.00 …". Raises: ValueError, IndexError."""
    [shares] = [counted for counted in text.splitlines() if counted.startswith(f"{line} ")]
    return float(shares.split("avg60=", 1)[1].split()[0])
