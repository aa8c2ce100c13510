"""How many keys one window may have: the memory of a default driver whose state is in its heap, or on disk.

    .venv/bin/python bench/state.py [--keys N] [--state memory disk]

N records (10,000,000), each with a key of its own, in one window of a day; then the window closes, and the
sink `log` counts its rows. A line for each state: rows that were read and written, the greatest proportional
set size of the driver's processes and resident size of its JVM, and, when it ended instead, why.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import dagger
import psutil
import workload
import yaml
from machine import header, proportional_set_size
from stack import Stack, stack

from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB, DRIVER_OVERHEAD_MIB
from scheduler.leader.capacity import MIB

DAY_S = 86_400
SQL = """\
SELECT order_number, count(1) AS n, TUMBLE_END(rowtime, INTERVAL '1' DAY) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '1' DAY), order_number"""
ENDED = ("BACKING_OFF", "FAILED")


@dataclass(slots=True)
class Peak:
    """The greatest sizes that were seen, MiB, and how far the driver came."""

    all: int = 0
    jvm: int = 0
    read: int = 0
    written: int = 0
    longest_ms: int = 0


def main() -> None:
    """Print one line for each place of state."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--keys", type=int, default=10_000_000)
    arguments.add_argument("--state", nargs="+", choices=["memory", "disk"], default=["memory", "disk"])
    given = arguments.parse_args()
    print(header("pyspark"), flush=True)
    print(f"a default driver may have {DEFAULT_DRIVER_MEMORY_MIB + DRIVER_OVERHEAD_MIB} MiB", flush=True)
    with stack() as on:
        dagger.prepare(on)
        _fill(on.kafka, given.keys)
        for state in given.state:
            _run(on, state, given.keys)


def _run(on: Stack, state: str, keys: int) -> None:
    name = f"state-{state}"
    _apply(on, name, state)
    peak, error, begin = Peak(), "", time.monotonic()
    while not (driver := on.daggers("get", name)["driver"] or {}).get("pid"):
        time.sleep(0.5)
    session = int(driver["pid"])
    while peak.written < keys and not error:
        for beat in dagger.heartbeats(on.kafka, name, 10):
            peak.read, peak.written = beat.rows_in, sum(beat.rows_out)
            peak.longest_ms = max(peak.longest_ms, beat.batch_duration_ms)
        _look(session, peak)
        shown = on.daggers("get", name)
        if shown["phase"] in ENDED:
            error = f"; ended: {shown['last_error']['reason']}"
    took = time.monotonic() - begin
    print(
        f"{state}: {peak.read:,} records read, {peak.written:,} rows written, at most {peak.all} MiB of all"
        f" processes, {peak.jvm} MiB of the JVM, longest batch {peak.longest_ms / 1000:.0f} s,"
        f" {took:.0f} s{error}",
        flush=True,
    )
    on.daggers("stop", name, "--now", "--wait")
    on.daggers("delete", name, "--wait")


def _look(session: int, peak: Peak) -> None:
    peak.all = max(peak.all, proportional_set_size(session) // MIB)
    for process in psutil.process_iter(["name"]):
        try:
            if process.info["name"] == "java" and os.getsid(process.pid) == session:
                peak.jvm = max(peak.jvm, process.memory_info().rss // MIB)
        except (OSError, psutil.Error):
            continue


def _apply(on: Stack, name: str, state: str) -> None:
    spec = {
        "name": name, "team": "bench", "cluster": "local", "sql": SQL, "state": state,
        "streams": [{"stream": dagger.TOPIC, "table": "data_stream", "start": "earliest"}],
        "sinks": [{"log": {"limit": 1}}],
    }  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(spec, file)
        file.flush()
        on.daggers("apply", "-f", Path(file.name))  # its first batch may take minutes


def _fill(bootstrap_servers: str, keys: int) -> None:
    """One record for each key, all of one day, and one of the day after the next in every partition."""
    producer = workload.open_producer(bootstrap_servers)
    booking = workload.message_class()(status=2, vehicle_type="bike")
    noon = workload.START // DAY_S * DAY_S + DAY_S // 2
    for number in range(keys):
        booking.order_number = f"RB-{number:09d}"
        booking.event_timestamp.seconds = noon + number * 3600 // keys
        workload.write(producer, dagger.TOPIC, number, booking)
    booking.event_timestamp.seconds = noon + 2 * DAY_S
    for number in range(workload.PARTITIONS):
        workload.write(producer, dagger.TOPIC, number, booking)
    producer.flush()


if __name__ == "__main__":
    main()
