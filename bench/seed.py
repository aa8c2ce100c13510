"""The first seed query over 4,000,000 prefilled records: records per CPU-second, cold and warm.

    .venv/bin/python bench/seed.py [--records N] [--runs K] [--flink]

One dagger on the embedded stack, default settings, rows to Kafka, no health monitor. Cold and warm are what
bench/runs.py says. CPU: user and system time of every process of the driver, the broker's is not counted.
Beside it: a consumer that does nothing but take each record's value, and with --flink the same query on Flink
(bench/flink.py), in a session cluster: its processes' CPU time, not the client's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dagger
import flink
import workload
from confluent_kafka import Consumer
from dagger import ROWS_TOPIC, TOPIC
from machine import Spent, header
from runs import cold_and_warm, line, middle
from stack import Stack, stack

NAME, FLINK_ROWS_TOPIC = "seed", "flink-rows"
COUNT = "num_of_bookings"
_DEADLINE_S = 900


class RowCounter:
    """Reads a query's rows: how many, and what their counts add up to."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"bench-{topic}",
                "auto.offset.reset": "earliest",
                "log_level": 2,  # it is left open while the stack goes
            }
        )
        self._consumer.subscribe([topic])
        self.rows = self.counted = 0

    def wait_for(self, counted: int) -> None:
        """Wait until the counts add up to as much."""
        end = time.monotonic() + _DEADLINE_S
        while self.counted < counted:
            if time.monotonic() > end:
                raise SystemExit(f"only {self.rows} rows, {self.counted} of {counted} bookings in time")
            for message in self._consumer.consume(10_000, 0.2):
                if message.error() is None:
                    self.take(json.loads(message.value() or b"{}"))

    def take(self, row: dict[str, Any]) -> None:
        """Count a row."""
        self.rows += 1
        self.counted += row[COUNT]


def raw(bootstrap_servers: str, records: int) -> Spent:
    """What it costs to take the value of every record, in a process of its own."""
    code = (
        "import sys\nfrom confluent_kafka import Consumer, TopicPartition as P\n"
        "c = Consumer({'bootstrap.servers': sys.argv[1], 'group.id': 'raw', 'check.crcs': False})\n"
        f"c.assign([P('{TOPIC}', n, 0) for n in range({workload.PARTITIONS})])\n"
        f"left = {records}\n"
        "while left:\n    left -= len([m.value() for m in c.consume(min(left, 50000), 1)])\n"
    )
    before, start = os.times(), time.monotonic()
    subprocess.run([sys.executable, "-c", code, bootstrap_servers], check=True)
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Spent(time.monotonic() - start, cpu)


def main() -> None:
    """Run, and print one line for each number."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3, help="warm runs")
    parser.add_argument("--flink", action="store_true", help="build Flink in a throw-away venv, and run it")
    options = parser.parse_args()
    print(header("pyspark", "confluent-kafka", "ptars", "pyarrow"), flush=True)
    with stack() as on:
        # Of a driver that stands still it asks Spark's UI, which then starts its REST service: 1.5 CPU-s.
        on.end("health-monitor")
        dagger.prepare(on)
        workload.fill(on.kafka, TOPIC, options.records)
        print(line("raw consumer", options.records, raw(on.kafka, options.records)), flush=True)
        if options.flink:
            peer(on.kafka, options.records, options.runs)
        per_run = seed(on, options.records, options.runs)
        on.daggers("delete", NAME, "--wait")
    if options.records == 4_000_000 and per_run != workload.ROWS:
        raise SystemExit(f"{per_run} rows instead of {workload.ROWS}")


def seed(on: Stack, records: int, runs: int) -> int:
    """The dagger, cold and warm; how many rows the first run gave."""
    rows, expected, per_run = RowCounter(on.kafka, ROWS_TOPIC), completed(records), 0

    def done(run: int) -> str:
        nonlocal per_run
        rows.wait_for(run * expected)
        if run == 1:
            per_run = rows.rows
            return f"  {per_run} rows"
        return "" if rows.rows == run * per_run else "  WRONG ROWS"

    cold_and_warm(on, NAME, dagger.SEED, records, runs, done)
    return per_run


def peer(kafka: str, records: int, runs: int) -> None:
    """The same query on Flink, the cluster started cold."""
    with tempfile.TemporaryDirectory(prefix="daggers-flink-") as folder:
        if missing := flink.build(Path(folder) / "flink"):
            print(missing, flush=True)
            return
        with flink.cluster(Path(folder) / "flink") as cluster:
            rows = RowCounter(kafka, FLINK_ROWS_TOPIC)
            warm = []
            for run in range(runs + 1):
                cost = cluster.run(kafka, TOPIC, FLINK_ROWS_TOPIC)
                rows.wait_for((run + 1) * completed(records))
                if run == 0:
                    cost = Spent(cost.wall, cluster.meter.read().cpu)
                    print(line("Flink, cold", records, cost, f"  {rows.rows} rows"), flush=True)
                else:
                    warm.append(cost)
        print(line("Flink, median", records, middle(warm)), flush=True)


def completed(records: int) -> int:
    """How many of the records the query counts."""
    chance = random.Random(7)
    done = [booking.status == 2 for booking in workload.bodies(chance)]
    return sum(done[chance.randrange(len(done))] for _ in range(records))


if __name__ == "__main__":
    main()
