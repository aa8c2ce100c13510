"""The first seed query over 4,000,000 prefilled records: records per CPU-second, cold and warm.

    .venv/bin/python bench/seed.py [--records N] [--runs K]

One dagger on the embedded stack, default settings, rows to Kafka. While a run's input is written the driver
stands still (SIGSTOP), so that every run finds all of it. Cold: the first run, the launch included. Warm:
the median of those after it. CPU: user and system time of every process of the driver, the broker's is not
counted. Beside it: a consumer that does nothing but take each record's value.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import workload
import yaml
from confluent_kafka import Consumer
from machine import Spent, header, spent
from stack import Stack, stack

SQL = """\
SELECT city_id AS tag_city_id, S2Id(lat,long,13) AS tag_s2id, vehicle_type AS tag_vehicle_type,
       count(1) AS num_of_bookings, TUMBLE_END(rowtime,INTERVAL '60' SECOND) AS window_timestamp,
FROM `data_stream` WHERE status='COMPLETED'
GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id, S2Id(lat, long, 13), vehicle_type"""
TOPIC, ROWS_TOPIC, NAME = "bookings", "rows", "seed"
_HOUR = 3600
_DEADLINE_S = 900


class RowCounter:
    """Reads the dagger's rows: how many, and what their counts add up to."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap_servers, "group.id": "bench", "auto.offset.reset": "earliest"}
        )
        self._consumer.subscribe([ROWS_TOPIC])
        self.rows = self.counted = 0

    def wait_for(self, counted: int) -> None:
        """Wait until the counts add up to as much."""
        end = time.monotonic() + _DEADLINE_S
        while self.counted < counted:
            if time.monotonic() > end:
                raise SystemExit(f"only {self.rows} rows, {self.counted} of {counted} bookings in time")
            for message in self._consumer.consume(10_000, 0.2):
                if message.error() is None:
                    row = json.loads(message.value() or b"{}")
                    self.rows += 1
                    self.counted += row["num_of_bookings"]


def measure(work: Callable[[], None], session: int) -> Spent:
    """What `work` costs a session."""
    before = spent([session])
    work()
    return spent([session]) - before


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


def prepare(on: Stack) -> None:
    """Topic, schema and stream."""
    workload.create_topic(on.kafka, TOPIC)
    on.daggers("schema", "register", workload.PROTO)
    on.daggers(
        "stream", "register", TOPIC, "--cluster", "local", "--topic", TOPIC,
        "--message", workload.MESSAGE, "--time-field", "event_timestamp",
    )  # fmt: skip


def apply(on: Stack) -> None:
    """The dagger, running."""
    dagger = {
        "name": NAME, "team": "bench", "cluster": "local", "sql": SQL, "trigger": "1s",
        "streams": [{"stream": TOPIC, "table": "data_stream", "start": "earliest", "idle_timeout": "1s"}],
        "sinks": [{"kafka": {"topic": ROWS_TOPIC, "format": "json"}}],
    }  # fmt: skip
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(dagger, file)
        file.flush()
        on.daggers("apply", "-f", Path(file.name), "--wait")


def line(name: str, records: int, cost: Spent, more: str = "") -> str:
    """One result."""
    per_cpu, per_second = records / cost.cpu / 1000, records / cost.wall / 1000
    return (
        f"{name:<14} {per_cpu:6.0f} k records/CPU-s  {per_second:6.0f} k records/s"
        f"  {cost.cpu:6.1f} CPU-s  {cost.wall:6.1f} s{more}"
    )


def main() -> None:
    """Run, and print one line for each number."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3, help="warm runs")
    options = parser.parse_args()
    print(header("pyspark", "confluent-kafka", "ptars", "pyarrow"), flush=True)
    with stack() as on:
        prepare(on)
        workload.fill(on.kafka, TOPIC, options.records)
        print(line("raw consumer", options.records, raw(on.kafka, options.records)), flush=True)
        rows = RowCounter(on.kafka)
        start = time.monotonic()
        apply(on)
        session = on.driver_session(NAME)
        rows.wait_for(expected := _completed(options.records))
        cold = Spent(time.monotonic() - start, spent([session]).cpu)
        per_run = rows.rows
        print(line("cold", options.records, cold, f"  {rows.rows} rows"), flush=True)
        warm = []
        for run in range(1, options.runs + 1):
            os.killpg(session, signal.SIGSTOP)
            workload.fill(on.kafka, TOPIC, options.records, start=workload.START + run * _HOUR)
            wanted = (run + 1) * expected

            def work(wanted: int = wanted) -> None:
                os.killpg(session, signal.SIGCONT)
                rows.wait_for(wanted)

            warm.append(measure(work, session))
            exact = rows.rows == (run + 1) * per_run
            print(line(f"warm {run}", options.records, warm[-1], "" if exact else "  WRONG ROWS"), flush=True)
        middle = Spent(statistics.median(w.wall for w in warm), statistics.median(w.cpu for w in warm))
        print(line("warm, median", options.records, middle))
        on.daggers("delete", NAME, "--wait")
    if options.records == 4_000_000 and per_run != workload.ROWS:
        raise SystemExit(f"{per_run} rows instead of {workload.ROWS}")


def _completed(records: int) -> int:
    """How many of the records the query counts."""
    chance = random.Random(7)
    done = [booking.status == 2 for booking in workload.bodies(chance)]
    return sum(done[chance.randrange(len(done))] for _ in range(records))


if __name__ == "__main__":
    main()
