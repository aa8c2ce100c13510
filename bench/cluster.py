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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagger
import seed
import workload
from machine import Meter, Spent, header
from runs import line, middle
from stack import Stack, stack

from devstack import processes
from devstack.sparkcluster import SparkCluster, spark_cluster

_HOUR_S = 3_600
_CORES = 2


class DistinctRows(seed.RowCounter):
    """Reads a query's rows, and tells those apart that were written again."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(bootstrap_servers, topic)
        self._counts: dict[str, int] = {}
        """Counts by window and tags."""
        self.again = 0
        """Rows that were there before, with the same count."""
        self.wrong = 0
        """Rows that were there before, with another one."""

    def take(self, row: dict[str, Any]) -> None:
        """Count a row once."""
        key = json.dumps({name: row[name] for name in row if name != seed.COUNT}, sort_keys=True)
        before = self._counts.get(key)
        if before is None:
            self._counts[key] = row[seed.COUNT]
            super().take(row)
        elif before == row[seed.COUNT]:
            self.again += 1
        else:
            self.wrong += 1


@dataclass(slots=True)
class Subject:
    """One dagger, where it runs, and what its death takes."""

    title: str
    name: str
    sessions: Callable[[], list[int]]
    kill: Callable[[], None]
    rows: DistinctRows
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
    with (
        stack() as on,
        tempfile.TemporaryDirectory(prefix="daggers-bench-spark-") as folder,
        spark_cluster(Path(folder), _CORES) as spark,
    ):
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


def rows(on: Stack, name: str) -> DistinctRows:
    """Create the topics of a subject; return the rows that will be there."""
    dagger.prepare(on, f"bookings-{name}")
    workload.create_topic(on.kafka, f"rows-{name}", 1)
    return DistinctRows(on.kafka, f"rows-{name}")


def tell(found: DistinctRows) -> str:
    """Describe what became of its rows, for a line."""
    return f"{found.rows:,} rows, {found.again:,} of them written twice, {found.wrong:,} wrong"


def daemons(spark: SparkCluster) -> list[int]:
    """Sessions of master and workers, which those of executors are, too."""
    return [one.pid for one in processes.find_marked(spark.folder)]


if __name__ == "__main__":
    main()
