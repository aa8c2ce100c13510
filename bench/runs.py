"""A dagger over prefilled records, cold and warm, and the lines that say what each run took.

While a run's input is written the driver stands still (SIGSTOP), so that every run finds all of it. Cold: the
first run, the launch included. Warm: the median of those after it.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import dagger
import workload
from machine import Meter, Spent
from stack import Stack

_HOUR_S: Final = 3_600


def cold_and_warm(
    on: Stack,
    name: str,
    what: Mapping[str, Any],
    records: int,
    runs: int,
    done: Callable[[int], str],
    fill: Callable[..., None] = workload.fill,
) -> Spent:
    """Apply a dagger over a topic with so many records, and write them again for each warm run.

    `done` waits until everything of so many runs was written, and says what is to be said of it; `fill`
    writes as `workload.fill` does. Prints a line for each; what a warm run spent.
    """
    start = time.monotonic()
    dagger.apply(on, name, what)
    session = on.driver_session(name)
    with Meter(session) as meter:
        said = done(1)
        print(line("cold", records, Spent(time.monotonic() - start, meter.read().cpu), said), flush=True)
        warm = []
        for run in range(1, runs + 1):
            os.killpg(session, signal.SIGSTOP)
            fill(on.kafka, dagger.TOPIC, records, start=workload.START + run * _HOUR_S)
            before = meter.read()
            os.killpg(session, signal.SIGCONT)
            said = done(run + 1)
            warm.append(meter.read() - before)
            print(line(f"warm {run}", records, warm[-1], said), flush=True)
    print(line("warm, median", records, middle(warm)), flush=True)
    return middle(warm)


def line(name: str, records: int, cost: Spent, more: str = "") -> str:
    """One result."""
    per_cpu, per_second = records / cost.cpu / 1000, records / cost.wall / 1000
    return (
        f"{name:<14} {per_cpu:6.0f} k records/CPU-s  {per_second:6.0f} k records/s"
        f"  {cost.cpu:6.1f} CPU-s  {cost.wall:6.1f} s{more}"
    )


def middle(runs: Sequence[Spent]) -> Spent:
    """The median of each."""
    return Spent(statistics.median(run.wall for run in runs), statistics.median(run.cpu for run in runs))
