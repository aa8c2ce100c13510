"""The reader alone, by either client: records per CPU-second, stage by stage, of one topic in one process.

    .venv/bin/python bench/reader.py [--records N] [--runs K] [--kafka HOST:PORT]

Stages: taken from Kafka; decoded; and all of a task of the first seed query, up to the rows for Spark. Each
runs with Python's client and with the native one, in turn, in processes of their own; the median of K runs is
said. CPU: user and system time of the process, librdkafka's threads included. --kafka: a broker that runs
already; else a stack is started.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import workload
from dagger import SQL, TOPIC
from machine import header
from stack import stack

from chassis.gc_tuning import tune_gc
from daggersql import Table, check
from runtime.source.offsets import Offsets, Partition
from runtime.source.plan import ReaderPlan
from runtime.source.reader import native_library, preaggregate
from runtime.source.reader.consumers import MESSAGES_ALIVE, ConsumerCache, open_fastest
from runtime.source.reader.control_rows import RangeStatistics
from runtime.source.reader.python_consumer import PythonConsumer
from runtime.source.reader.rows import Rows
from runtime.source.tasks import OffsetRange

CLIENTS = {"python": PythonConsumer, "native": open_fastest}
STAGES = ("take", "decode", "task")
_TOLERANCE_MS = 300_000


def main() -> None:
    """Run, and print a line for each stage."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kafka", default="")
    parser.add_argument("--one", nargs=2, metavar=("STAGE", "CLIENT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(*one(*options.one, options.kafka, options.records))
        return
    if why := native_library.build():
        raise SystemExit(f"there is no native client: {why}")
    print(header("confluent-kafka", "ptars", "pyarrow", "numpy"), flush=True)
    with nullcontext(SimpleNamespace(kafka=options.kafka)) if options.kafka else stack() as on:
        workload.create_topic(on.kafka, TOPIC)
        workload.fill(on.kafka, TOPIC, options.records)
        for stage in STAGES:
            compare(stage, on.kafka, options.records, options.runs)


def compare(stage: str, kafka: str, records: int, runs: int) -> None:
    """One stage with both clients in turn, and its line."""
    spent: dict[str, list[float]] = {name: [] for name in CLIENTS}
    rows: set[str] = set()
    for _ in range(runs):
        for client in CLIENTS:
            words = [sys.executable, __file__, "--kafka", kafka, "--records", str(records)]
            done = subprocess.run(
                [*words, "--one", stage, client], check=True, capture_output=True, text=True
            )
            cpu, given = done.stdout.split()
            spent[client].append(float(cpu))
            rows.add(given)
    python, native = (records / statistics.median(spent[name]) / 1000 for name in ("python", "native"))
    same = "" if len(rows) == 1 else f"  WRONG ROWS {sorted(rows)}"
    print(
        f"{stage:<8} python {python:6.0f} k, native {native:6.0f} k records/CPU-s:"
        f" {native / python:.2f} times{same}",
        flush=True,
    )


def one(stage: str, client: str, kafka: str, records: int) -> tuple[float, int]:
    """CPU seconds of one stage over the topic, and how many records or rows it gave."""
    tune_gc(MESSAGES_ALIVE)  # as workers do
    message = workload.message_class().DESCRIPTOR
    plan = check(SQL, [Table("data_stream", message, "event_timestamp")]).plan
    assert plan is not None
    (read,) = plan.reads
    rows = Rows(message, read.paths, "event_timestamp", _TOLERANCE_MS, read.wanted)
    cache = ConsumerCache(CLIENTS[client])
    reader = _plan(kafka)
    now_ms, given = int(time.time() * 1000), 0
    before = time.process_time()
    for number in range(workload.PARTITIONS):
        partition = Partition(TOPIC, number)
        out = preaggregate.output(rows.schema, plan.partial_aggregation)
        add = partial(out.add, statistics=(range_statistics := RangeStatistics()))
        end = (records - number + workload.PARTITIONS - 1) // workload.PARTITIONS
        for piece in cache.read(reader, OffsetRange(partition, "id", 0, end), workload.PARTITIONS):
            if stage == "take":
                given += len(piece)
                continue
            batch, _ = rows.rows(piece, partition, now_ms, range_statistics)
            given += len(batch) if stage == "decode" else sum(map(len, add(batch)))
        given += sum(map(len, out.rest()))
    return time.process_time() - before, given


def _plan(kafka: str) -> ReaderPlan:
    return ReaderPlan(
        key="data_stream.0", dagger="bench", generation=1, group="bench", topics=(TOPIC,),
        message=workload.MESSAGE, time_field="event_timestamp", paths=(), descriptors=b"",
        kafka={"bootstrap.servers": kafka}, platform={}, start=Offsets({}, {}), delay=0, idle_timeout=0,
        tolerance=_TOLERANCE_MS, windows=None, late_for=(), run_dir=str(Path()), max_rows=2_000_000,
    )  # fmt: skip


if __name__ == "__main__":
    main()
