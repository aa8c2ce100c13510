"""What daggers cost that have little to do: memory, CPU, the overhead of a batch, how many fit.

    .venv/bin/python bench/idle.py [--daggers N] [--minutes M] [--warm W]

N daggers of the seed query over one topic, 1 s trigger. First the topic is silent: CPU and proportional set
size of every process of each driver (pages they share are divided among them), and how many daggers fit into
this machine by memory, leaving 2 GiB to everything else. Then 10 records/s come, in event time as they are
written: W minutes in which the JVM compiles what a batch needs, 3 as a rule, and M that count: CPU, thread
by thread, and how long after the end of its window a row is in the sink, with the watermark's delay of 5 s.
Then 10,000 records/s come, as many as make a batch due: its duration is overhead, but for some hundredths of
a second, first of N daggers at once, then of one alone. Numbers of one dagger are medians. M is 2 as a rule;
the silent dagger is looked at for half of that (a minute after its last batch it has no worker), batches for
a sixth. How fresh the rows of other daggers are: bench/freshness.py.
"""

from __future__ import annotations

import argparse
import statistics
import time

import dagger
import psutil
import workload
from ages import shares, window_ages
from machine import Meter, header, proportional_set_size
from stack import Stack, stack
from threads import Threads, shown

from scheduler.leader.capacity import MIB, RESERVE_MIB

LIGHT = 10
DUE = 10_000
SETTLE_S = 15


def main() -> None:
    """Print one line for each number."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--daggers", type=int, default=2)
    arguments.add_argument("--minutes", type=float, default=2, help="how long the light dagger is looked at")
    arguments.add_argument("--warm", type=float, default=3, help="how long it runs before")
    given = arguments.parse_args()
    half = given.minutes * 30
    print(header("pyspark", "pyarrow"), flush=True)
    names = [f"idle-{number}" for number in range(given.daggers)]
    with stack() as on:
        dagger.prepare(on)
        for name in names:
            dagger.apply(on, name)
        sessions = [on.driver_session(name) for name in names]
        workload.fill(on.kafka, dagger.TOPIC, 10_000, start=int(time.time()) - 3600)
        list(dagger.heartbeats(on.kafka, names[0], SETTLE_S))
        cores = _cores(on, names[0], sessions, half)
        size = statistics.median(proportional_set_size(session) for session in sessions) // MIB
        print(f"idle dagger, 1 s trigger: {size:.0f} MiB, {cores:.3f} cores", flush=True)
        room = psutil.virtual_memory().total // MIB - RESERVE_MIB
        print(
            f"daggers per machine: {room // size:.0f} idle ones by memory ({room} MiB),"
            f" {psutil.cpu_count() / cores:.0f} by CPU"
        )
        with workload.feeding(on.kafka, LIGHT):
            list(dagger.heartbeats(on.kafka, names[0], SETTLE_S))
            early = _cores(on, names[0], sessions, given.warm * 60)
            since = time.time()
            with Threads(*sessions) as threads:
                before, begun = threads.read(), _batch(on, names[0])
                cores = _cores(on, names[0], sessions, 2 * half)
                used, batches = threads.read() - before, _batch(on, names[0]) - begun
            ages = list(window_ages(on.kafka, dagger.ROWS_TOPIC, since))
        print(
            f"light dagger, {LIGHT} records/s, 1 s trigger: {cores:.3f} cores ({early:.3f} before);"
            f" end of window to row in the sink, {shares(ages)}",
            flush=True,
        )
        print(f"thousandths of a core of a light dagger, and CPU-ms for each of {batches} batches:")
        shown(used, 1e3 / (2 * half * len(names)), 1e3 / (batches * len(names)))
        with workload.feeding(on.kafka, DUE):
            _batches(on, names, half / 3)
            for name in names[1:]:
                on.daggers("delete", name, "--wait")
            _batches(on, names[:1], half / 3)


def _batches(on: Stack, names: list[str], seconds: float) -> None:
    """Print how long the batches of the first dagger take while all of these run."""
    list(dagger.heartbeats(on.kafka, names[0], SETTLE_S))
    beats = list(dagger.heartbeats(on.kafka, names[0], seconds))
    took = sorted({beat.batch_id: beat.batch_duration_ms for beat in beats}.values())
    print(
        f"batch of about {DUE:,} records, 1 s trigger, {len(names)} at once:"
        f" p50 {statistics.median(took):.0f} ms, longest {took[-1]} ms of {len(took)}",
        flush=True,
    )


def _batch(on: Stack, name: str) -> int:
    """The number of the last batch that was committed."""
    commits = on.state_dir.glob(f"checkpoints/{name}-*/checkpoints/*/commits/[0-9]*")
    return max(int(commit.name) for commit in commits)


def _cores(on: Stack, name: str, sessions: list[int], seconds: float) -> float:
    """Cores of one dagger during the next `seconds`."""
    with Meter(*sessions) as meter:
        before = meter.read()
        list(dagger.heartbeats(on.kafka, name, seconds))
        cost = meter.read() - before
    return cost.cpu / cost.wall / len(sessions)


if __name__ == "__main__":
    main()
