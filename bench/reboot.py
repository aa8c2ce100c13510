"""A machine that loses its power with many daggers, and comes up: how long until all of them run again.

    .venv/bin/python bench/reboot.py [--daggers N]

N daggers with drivers of their own (a topic of 10 records/s, windows of a minute) run on the embedded stack
without a spare. Then every process of it is killed at once, Kafka and drivers too, and `daggers local up`
starts it again. A start counts from its driver's first process until its dagger is RUNNING. So many at a time
as the machine has cores, the starts themselves take their sum by that number. Ends with 1 where a dagger was
launched more than once, or where it all takes more than a tenth longer. A driver needs 500 to 620 MiB;
admission is told of more memory than there is, as it counts more for each.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import cycle

import density
import psutil
import workload
from daggers.v1 import gateway_pb2, spec_pb2
from machine import header
from stack import Stack, stack

from chassis import drivers

TOPIC = "bookings-000"
LIMIT_S, MOST_OVER = 1_500.0, 1.1
_ADMITTED_MIB = 2_304


def main() -> int:
    """Print how long all took and the starts themselves; return 1 where one failed or it took too long."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--daggers", type=int, default=30)
    given = arguments.parse_args()
    print(header("pyspark"), flush=True)
    readers = [
        density.Reader(f"light-{number:03d}", "team", TOPIC, kind, spec_pb2.ISOLATION_DEDICATED)
        for number, kind in zip(range(given.daggers), cycle(density.KINDS), strict=False)
    ]
    names = [reader.name for reader in readers]
    memory = str((given.daggers + 1) * _ADMITTED_MIB)
    os.environ["DAGGERS_SCHEDULER_MEMORY_MIB"] = memory  # noqa: TID251 - for what is started here
    with stack() as on:
        density.prepare(on, [TOPIC], readers)
        with workload.feeding(on.kafka, density.RATE, TOPIC, density.PARTITIONS):
            density.create(on, readers)
            density.wait_until_running(on, names, time.time() + LIMIT_S)
            listed = density.list_daggers(on)
            before = {name: listed[name] for name in names}
        _cut_power(on)
        began = time.time()
        on.daggers("local", "up", "--detach")
        up = time.time()
        with workload.feeding(on.kafka, density.RATE, TOPIC, density.PARTITIONS):
            started = _watch_starts(on, before, began + LIMIT_S)
        return _print_starts(started, before, began, up)


def _cut_power(on: Stack) -> None:
    """Kill all processes of the stack and its drivers."""
    parts = {part["pid"] for part in on.daggers("local", "status")["processes"]}
    sessions = parts | {driver.pid for driver in drivers.living(on.state_dir / "runs")}
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) in sessions:
                os.kill(pid, signal.SIGKILL)


def _watch_starts(
    on: Stack, before: Mapping[str, gateway_pb2.Dagger], deadline: float
) -> dict[str, gateway_pb2.Dagger]:
    """Return each dagger as it was when its new launch ran first: one that has to catch up is behind again
    for a while, which is no part of its start. Ends the bench behind the deadline.
    """
    started = dict[str, gateway_pb2.Dagger]()
    while len(started) < len(before):
        for name, one in density.list_daggers(on).items():
            if (
                name in before
                and one.phase == gateway_pb2.RUNNING
                and one.generation > before[name].generation
            ):
                started.setdefault(name, one)
        if time.time() > deadline:
            raise SystemExit(f"{len(before) - len(started)} daggers do not run")
        time.sleep(0.5)
    return started


def _print_starts(
    now: Mapping[str, gateway_pb2.Dagger], before: Mapping[str, gateway_pb2.Dagger], began: float, up: float
) -> int:
    names = sorted(before)
    begins = {name: psutil.Process(now[name].driver.pid).create_time() for name in names}
    took = {name: now[name].phase_time.ToNanoseconds() / 1e9 - begins[name] for name in names}
    first, last = min(begins.values()), max(begins[name] + took[name] for name in names)
    alone = sum(took.values()) / (os.cpu_count() or 1)
    failed = sorted(name for name in names if now[name].restarts - before[name].restarts > 1)
    print(
        f"after the power: services {up - began:.1f} s, first start {first - began:.1f} s,"
        f" all run {last - began:.1f} s"
    )
    print(
        f"reboot: {len(names)} daggers in {last - first:.1f} s, {(last - first) / alone:.2f} times the"
        f" {alone:.1f} s of the starts themselves ({sum(took.values()) / len(names):.1f} s each),"
        f" {len(failed)} launched more than once{': ' if failed else ''}{', '.join(failed[:5])}",
        flush=True,
    )
    return 1 if failed or last - first > alone * MOST_OVER else 0


if __name__ == "__main__":
    sys.exit(main())
