"""What each running dagger takes in memory: proportional set size of every process of its driver's session.

    .venv/bin/python bench/memory.py [STATE_DIR]    # while daggers run; those of `daggers local` when unsaid

Shared pages are divided among the processes that share them, so the sums may be added up.
"""

import argparse
import os
import platform
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

import psutil

from chassis import drivers
from cli.environment import environment
from cli.settings import CommandSettings
from daggerspec.rundir import DriverIdentity
from devstack import remembered

MIB = 1024 * 1024


def main() -> None:
    """Print one line for each dagger, largest first."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("state_dir", type=Path, nargs="?", help="of the scheduler")
    state_dir = remembered.resolve_state_dir(
        arguments.parse_args().state_dir,
        CommandSettings.read(environment()).state_home,
        remembered.INSTALLATION,
    )
    print(f"pyspark {version('pyspark')}, Python {platform.python_version()}, {platform.system()}, "
          f"{os.cpu_count()} cores, {psutil.virtual_memory().total // MIB} MiB")  # fmt: skip
    found = [(_sizes(driver), driver.dagger) for driver in drivers.living(state_dir / "runs")]
    for sizes, dagger in sorted(found, key=lambda process: -sum(process[0])):
        total, largest = sum(sizes) // MIB, max(sizes) // MIB
        print(f"{dagger}: {total} MiB in {len(sizes)} processes, {largest} MiB of it the JVM")
    if not found:
        print(f"no dagger of {state_dir} runs")


def _sizes(driver: DriverIdentity) -> list[int]:
    """The proportional set size of each process, in bytes."""
    sizes = [0]
    for process in drivers.members(driver):
        with suppress(psutil.Error):
            sizes.append(psutil.Process(process.pid).memory_full_info().pss)
    return sizes[1:] or sizes


if __name__ == "__main__":
    main()
