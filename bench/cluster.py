"""A heavy dagger on two workers of one core beside one process of two cores, and what a death costs.

    .venv/bin/python bench/cluster.py [--records N] [--runs K] [--kills D]

The seed query over N records at once (4,000,000), in turn K times (3) by each after one that is not counted;
the driver stands still while they are written. Then D times (2) with a death after a third of the median: of
an executor on the cluster, of the whole process where that is all there is. CPU: of the driver and, on the
cluster, of master, workers and executors; of a process that is launched again it is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagger
import seed
import workload
from confluent_kafka import Consumer
from machine import Meter, Spent, header
from runs import line, middle
from stack import Stack, stack

from devstack import ports, processes
from devstack.sparkcluster import SparkCluster

_HOUR_S = 3_600
_DEADLINE_S = 600
_CORES = 2


@dataclass(slots=True)
class Rows:
    """Rows of a topic, by their window and tags, as often as they are there."""

    consumer: Consumer
    counts: dict[str, int] = field(default_factory=dict)
    again: int = 0
    """Rows that were there before, with the same count."""
    wrong: int = 0
    """Rows that were there before, with another one."""

    def wait_for(self, counted: int) -> None:
        """Wait until their counts add up to as much."""
        end, reached = time.monotonic() + _DEADLINE_S, sum(self.counts.values())
        while reached < counted:
            if time.monotonic() > end:
                raise SystemExit(
                    f"only {len(self.counts):,} rows, {reached:,} of {counted:,} bookings in time"
                )
            for message in self.consumer.consume(10_000, 0.2):
                if message.error() is None:
                    reached += self._take(json.loads(message.value() or b"{}"))

    def _take(self, row: dict[str, Any]) -> int:
        count = int(row.pop("num_of_bookings"))
        key = json.dumps(row, sort_keys=True)
        before = self.counts.get(key)
        if before is not None:
            self.again, self.wrong = self.again + (before == count), self.wrong + (before != count)
            return 0
        self.counts[key] = count
        return count


@dataclass(slots=True)
class Subject:
    """One dagger, where it runs, and what its death takes."""

    title: str
    name: str
    sessions: Callable[[], list[int]]
    kill: Callable[[], None]
    rows: Rows
    runs: int = 0

    @property
    def topic(self) -> str:
        """Its own topic of bookings."""
        return f"bookings-{self.name}"


def main() -> None:
    """Print a line for each run, and one for each median."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kills", type=int, default=2)
    given = parser.parse_args()
    print(header("pyspark", "confluent-kafka", "ptars", "pyarrow"), flush=True)
    with stack() as on, spark_cluster() as spark:
        on.end("health-monitor")  # see bench/seed.py
        on.daggers(
            "cluster", "register", "workers", "--kafka", on.kafka, "--spark-master", spark.url,
            "--spark-web-url", spark.pages, "--executors", f"cores_max={_CORES}",
        )  # fmt: skip
        compare(on, spark, given.records, given.runs, given.kills)


def compare(on: Stack, spark: SparkCluster, records: int, runs: int, kills: int) -> None:
    """Run both, in turn: undisturbed, then with a death."""

    def kill_executor() -> None:
        spark.executors()[0].kill()

    def kill_process() -> None:
        os.killpg(on.driver_session("process"), signal.SIGKILL)

    expected = seed.completed(records)
    subjects = [
        Subject(
            f"one process of {_CORES} cores", "process",
            lambda: [on.driver_session("process")], kill_process, rows(on, "process"),
        ),
        Subject(
            f"{_CORES} workers of one core", "workers",
            lambda: [on.driver_session("workers"), *daemons(spark)], kill_executor, rows(on, "workers"),
        ),
    ]  # fmt: skip
    for subject, cluster in zip(subjects, ("local", "workers"), strict=True):
        begin(on, subject, cluster)
        time_run(on, subject, records, expected)
    whole = [[time_run(on, subject, records, expected) for subject in subjects] for _ in range(runs)]
    medians = [middle(each) for each in zip(*whole, strict=True)]
    for subject, median in zip(subjects, medians, strict=True):
        print(f"{subject.title}, warm, median: {line('', records, median).strip()}", flush=True)
    one, two = medians
    print(f"the workers beside the process: {two.wall / one.wall:.2f} times as long,"
          f" {two.cpu / one.cpu:.2f} times the CPU", flush=True)  # fmt: skip
    for subject, median in zip(subjects, medians, strict=True):
        dead = [time_run(on, subject, records, expected, die_after=median.wall / 3) for _ in range(kills)]
        if kills:
            more = statistics.median(each.wall for each in dead) - median.wall
            print(f"{subject.title}, with a death, median: {more:+.1f} s", flush=True)
        print(f"{subject.title}: {tell(subject.rows)}", flush=True)


def time_run(on: Stack, subject: Subject, records: int, expected: int, *, die_after: float = 0) -> Spent:
    """Time one run over so many records of an hour of their own; print its line.

    expected: bookings that it counts of them. die_after: seconds after which something dies; 0 for never.
    """
    driver = on.driver_session(subject.name)
    os.killpg(driver, signal.SIGSTOP)
    try:
        workload.fill(on.kafka, subject.topic, records, start=workload.START + subject.runs * _HOUR_S)
    finally:
        os.killpg(driver, signal.SIGCONT)
    subject.runs += 1
    death = threading.Timer(die_after, subject.kill)
    with Meter(*subject.sessions()) as meter:
        before = meter.read()
        if die_after:
            death.start()
        subject.rows.wait_for(subject.runs * expected)
        spent = meter.read() - before
    death.cancel()
    kind = "with a death" if die_after else "first" if subject.runs == 1 else "warm"
    print(f"{subject.title}, {kind}: {line('', records, spent).strip()}", flush=True)
    return spent


def begin(on: Stack, subject: Subject, cluster: str) -> None:
    """Apply the dagger of a subject."""
    stream = {"stream": subject.topic, "table": "data_stream", "start": "earliest", "idle_timeout": "1s"}
    sink = {"kafka": {"topic": f"rows-{subject.name}", "format": "json"}}
    dagger.apply(
        on, subject.name, {"cluster": cluster, "streams": [stream], "sql": dagger.SQL, "sinks": [sink]}
    )


def rows(on: Stack, name: str) -> Rows:
    """Create the topics of a subject; return the rows that will be there."""
    dagger.prepare(on, f"bookings-{name}")
    workload.create_topic(on.kafka, f"rows-{name}", 1)
    consumer = Consumer(
        {
            "bootstrap.servers": on.kafka,
            "group.id": f"bench-{name}",
            "auto.offset.reset": "earliest",
            "log_level": 2,  # it is left open while the stack goes
        }
    )
    consumer.subscribe([f"rows-{name}"])
    return Rows(consumer)


def tell(found: Rows) -> str:
    """Describe what became of its rows, for a line."""
    return f"{len(found.counts):,} rows, {found.again:,} of them written twice, {found.wrong:,} wrong"


def daemons(spark: SparkCluster) -> list[int]:
    """Sessions of master and workers, which those of executors are, too."""
    return [one.pid for one in processes.find_marked(spark.folder)]


@contextmanager
def spark_cluster() -> Iterator[SparkCluster]:
    """Start two workers of one core that are gone with the context."""
    with tempfile.TemporaryDirectory(prefix="daggers-bench-spark-") as folder:
        cluster = SparkCluster(Path(folder), workers=_CORES, ports=ports.choose(("master", "web"), {}))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
