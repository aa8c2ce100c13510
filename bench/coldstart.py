"""Start: from the start of `daggers apply` to the dagger's first committed batch, by the spare and cold.

    .venv/bin/python bench/coldstart.py [--runs K] [--cold K]

The seed query over a topic with records, on a stack that runs; the page cache is warm after the first run,
which is not counted. Runs by the spare begin once it is ready; cold ones ask for a MiB more than others. CPU:
of the driver's processes from the command's start to that commit.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagger
import workload
from machine import Meter, header
from stack import Stack, stack

from chassis import drivers
from daggerspec import rundir
from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB
from daggerspec.rundir import DriverIdentity

RECORDS = 20_000
DEADLINE_S = 300.0


def main() -> None:
    """Print a line for each kind of start: the median, and every run."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--runs", type=int, default=10, help="starts by the spare that are counted")
    arguments.add_argument("--cold", type=int, default=3, help="cold starts that are counted")
    told = arguments.parse_args()
    print(header("pyspark"), flush=True)
    with stack(spare=True) as on:
        dagger.prepare(on)
        workload.fill(on.kafka, dagger.TOPIC, RECORDS)
        cold = [_start(on, f"cold-{number}", None) for number in range(told.cold + 1)]
        warm = [_start(on, f"warm-{number}", _spare(on)) for number in range(told.runs + 1)]
    _print("cold start", cold[1:])
    used = statistics.median(start[2] for start in warm[1:])
    print(f"a spare, until it waits: {used:.1f} CPU-s of the processes that it has then")
    _print("start by the spare", warm[1:])


def _start(on: Stack, name: str, spare: DriverIdentity | None) -> tuple[float, float, float]:
    """Seconds, and CPU-seconds, of one start, and those that its spare had used; the dagger is deleted behind
    it.
    """
    before = Meter(spare.pid).read().cpu if spare is not None else 0.0
    memory = "" if spare is not None else f"{DEFAULT_DRIVER_MEMORY_MIB + 1}m"
    begin = time.time()
    with ThreadPoolExecutor(1) as threads:
        applying = threads.submit(dagger.apply, on, name, driver_memory=memory)
        committed = _first_commit(on, name)
        session = spare.pid if spare is not None else on.driver_session(name)
        used = Meter(session).read().cpu - before
        applying.result(DEADLINE_S)
    if spare is not None and on.driver_session(name) != spare.pid:
        raise SystemExit(f"{name} was not started by the spare")
    on.daggers("delete", name, "--wait")
    return committed - begin, used, before


def _spare(on: Stack) -> DriverIdentity:
    """The spare, once it has warmed up."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        for driver in drivers.living(on.state_dir / "runs"):
            if driver.dagger == rundir.SPARE and (Path(driver.run_dir) / rundir.DRIVER).exists():
                return driver
        time.sleep(0.2)
    raise SystemExit("there is no spare")


def _first_commit(on: Stack, name: str) -> float:
    """When the first batch of a dagger was committed, in seconds after the epoch."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        for commit in on.state_dir.glob(f"checkpoints/{name}-*/checkpoints/*/commits/0"):
            return commit.stat().st_mtime
        time.sleep(0.02)
    raise SystemExit(f"{name} committed nothing")


def _print(what: str, starts: list[tuple[float, float, float]]) -> None:
    took, cpu = ([start[column] for start in starts] for column in (0, 1))
    each = ", ".join(f"{seconds:.2f}" for seconds in took)
    print(
        f"{what}, apply -> first commit: {statistics.median(cpu):.1f} CPU-s;"
        f" median {statistics.median(took):.2f} s of {each}"
    )


if __name__ == "__main__":
    main()
