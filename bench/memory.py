"""What each running dagger takes in memory: proportional set size of every process of its driver's session.

    .venv/bin/python bench/memory.py        # while daggers run on this machine

Shared pages are divided among the processes that share them, so the sums may be added up.
"""

import os
import platform
from collections import defaultdict
from importlib.metadata import version

import psutil

from daggerspec import rundir

MIB = 1024 * 1024


def main() -> None:
    """Print one line for each dagger, largest first."""
    names: dict[int, str] = {}
    sizes: dict[int, list[int]] = defaultdict(list)
    for process in psutil.process_iter():
        try:
            session, words = os.getsid(process.pid), process.cmdline()
            size = process.memory_full_info().pss
        except (psutil.Error, ProcessLookupError, PermissionError):
            continue
        sizes[session].append(size)
        spec = next((word for word in words if word.endswith(rundir.SPEC) and "/runs/" in word), "")
        if spec:
            names[session] = spec.split("/")[-3]
    print(f"pyspark {version('pyspark')}, Python {platform.python_version()}, {platform.system()}, "
          f"{os.cpu_count()} cores, {psutil.virtual_memory().total // MIB} MiB")  # fmt: skip
    for session in sorted(names, key=lambda each: -sum(sizes[each])):
        total, largest = sum(sizes[session]) // MIB, max(sizes[session]) // MIB
        print(
            f"{names[session]}: {total} MiB in {len(sizes[session])} processes, {largest} MiB of it the JVM"
        )
    if not names:
        print("no dagger runs on this machine")


if __name__ == "__main__":
    main()
