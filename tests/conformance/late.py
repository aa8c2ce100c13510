"""Records that come too late, into a query that runs as a driver runs it: what it gives, and what it says."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from daggers.v1 import spec_pb2
from google.protobuf.message import Message
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from tests.conformance import records
from tests.conformance.conformance_numbers import rounded
from tests.conformance.conformance_previews import topic_of

from daggerspec import rundir
from daggersql import Plan, Table, Window
from daggersql.plan import LATE
from runtime.launch import job
from runtime.launch.launch import Computation
from runtime.references.loading import References
from runtime.source import metrics
from runtime.source.gates import choose_rows
from runtime.source.metrics import Late
from runtime.source.reader.rows import filter_rows
from runtime.source.stream import begin_batch, end_batch
from runtime.spark import session as spark
from runtime.state import checkpoint
from runtime.state.store import open_root

START = datetime(2024, 2, 29, 23, 56, tzinfo=UTC)
DELAY = timedelta(seconds=1)
PATIENCE_S = 240
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LateRun:
    """One query over topics, to which records are written in parts."""

    def __init__(self, session: SparkSession, spec: spec_pb2.JobSpec, plan: Plan, kafka: str) -> None:
        self.batches: dict[int, list[dict[str, Any]]] = {}
        """Rows of each batch, as they were written last."""
        self.dies_in_batch = False
        """True if the next batch with rows ends the query once they are written, before it is committed."""
        self.closed: datetime | None = None
        """Up to which event time the last batch closed windows."""
        self._plan, self._topics = plan, topic_of(spec)
        self._producer = Producer({"bootstrap.servers": kafka})
        computed = Computation(spec, lambda: session)
        self._session, self._references = session, _references(plan, spec)
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", 1_000_000)  # all of them are read
        chosen = checkpoint.choose(open_root(spec.checkpoint_root)[0], "late", spec.generation)
        assembled = job.assemble(computed, plan, chosen)
        self._source = assembled.source
        writer = assembled.rows.writeStream.outputMode("append").foreachBatch(self._take)
        self.query = (
            writer.option("checkpointLocation", str(chosen.path))
            .trigger(processingTime="100 milliseconds")
            .start()
        )

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order in which they were written."""
        return [row for _, rows in sorted(self.batches.items()) for row in rows]

    def _take(self, rows: DataFrame, batch: int) -> None:
        self._references.refresh(self._session)
        running = begin_batch(self._session)
        chosen = choose_rows(
            rows,
            self._source.windows,
            late_until=running.late_until,
            closes_until=running.closes_until,
        )
        self.batches[batch] = chosen.toArrow().to_pylist()
        if self.dies_in_batch and self.batches[batch]:
            raise RuntimeError("killed in this batch")
        end_batch(running, self._source)
        self.closed = running.closes_until

    def send(self, streams: Mapping[str, Sequence[Message]]) -> None:
        """Write records, by table."""
        for table, some in streams.items():
            for record in some:
                self._producer.produce(self._topics[table], record.SerializeToString())
        assert self._producer.flush(60) == 0

    def until(self, done: Callable[[LateRun], bool]) -> None:
        """Wait for it."""
        end = time.monotonic() + PATIENCE_S
        while not done(self):
            if (failure := self.query.exception()) is not None:
                raise failure
            assert time.monotonic() < end, (self.closed, self.read, self.query.lastProgress)
            time.sleep(0.05)

    @property
    def read(self) -> int:
        """Records read so far, of each place in which the query has a stream."""
        return sum(metrics.of(progress).rows for progress in self.query.recentProgress)

    @property
    def late(self) -> dict[str, Late]:
        """What it says was late, by table."""
        late: dict[str, Late] = {}
        for progress in self.query.recentProgress:
            for table, counted in metrics.of(progress).late_by_table.items():
                late[table] = late.get(table, Late()) + counted
        return late

    @property
    def dropped_by_joins(self) -> int:
        """Rows that joins of Spark's have dropped by their watermark."""
        return sum(
            operator.numRowsDroppedByWatermark
            for progress in self.query.recentProgress
            for operator in progress.stateOperators
            if operator.operatorName == "symmetricHashJoin"
        )


def _references(plan: Plan, spec: spec_pb2.JobSpec) -> References:
    """Those that a plan names, empty."""
    run_dir = Path(spec.run_dir)
    given = []
    for use in plan.references:
        file = run_dir / f"{use.name}.json"
        file.write_text(json.dumps({"data": []} if use.entries else {}))
        form = spec_pb2.ReferenceTable.FORMAT_JSON
        given.append(spec_pb2.ReferenceTable(name=use.name, location=str(file), format=form))
    found = References(
        plan.references,
        given,
        dagger=spec.dagger,
        store=run_dir / rundir.KEPT,
        folder=run_dir / rundir.REFERENCES,
        clock=time.monotonic,
    )
    found.start()
    return found


def missed(window: Window, time: datetime, closed: datetime) -> int:
    """How many such windows of a record of this time were closed, each looked at by itself."""
    if window.kind in ("SESSION", "JOIN"):
        return int(time + window.size <= closed)
    begin = _EPOCH + (time - _EPOCH) // window.slide * window.slide
    found = 0
    while begin + window.size > time:
        found += begin + window.size <= closed
        begin -= window.slide
    return found


def recounted(
    session: SparkSession,
    plan: Plan,
    tables: Mapping[str, Table],
    late: Mapping[str, Sequence[Message]],
    closed: datetime,
) -> dict[str, Late]:
    """What is missing from windows, by table: of records that came when windows were closed up to `closed`.

    What becomes of a record on its way there is asked of Spark in a batch.
    """
    by_table: dict[str, Late] = {}
    views = {read.table: _marked(plan, tables[read.table], read.paths, late, closed) for read in plan.reads}
    if plan.staged is None:
        for read in plan.reads:
            rows = views[read.table]
            marks = [name for name in rows.schema.names if name.startswith(LATE)]
            for batch in rows.to_batches():
                kept = filter_rows(batch, read.wanted)
                counts = [count for name in marks for count in kept.column(name).to_pylist() if count]
                by_table[read.table] = by_table.get(read.table, Late()) + Late(len(counts), sum(counts))
        return {table: counted for table, counted in by_table.items() if counted.rows}
    for name, rows in views.items():
        frame = session.createDataFrame(rows, schema=from_arrow_schema(rows.schema))
        frame.createOrReplaceTempView(f"`{name}`")
    for stage in plan.staged.stages:
        frame = spark.rows(session, stage.spark_sql)
        frame.createOrReplaceTempView(f"`{stage.name}`")
        found = frame.toArrow()
        for column, table in stage.late:
            counts = [count for count in found.column(column).to_pylist() if count]
            by_table[table] = by_table.get(table, Late()) + Late(len(counts), sum(counts))
    return {table: counted for table, counted in by_table.items() if counted.rows}


def _marked(
    plan: Plan, table: Table, paths: Sequence[str], late: Mapping[str, Sequence[Message]], closed: datetime
) -> pa.Table:
    """The records of a table, and of each for how many windows it was too late."""
    rows = records.decoded(table, paths, late.get(table.name, ()), table.name, 0)
    times = rows.column("rowtime").to_pylist()
    for number, window in enumerate(plan.closing[table.name]):
        counts = [missed(window, time, closed) or None for time in times]
        rows = rows.append_column(f"{LATE}{number}", pa.array(counts, pa.int32()))
    return rows


def in_time(rows: pa.Table, closed: datetime, *, before: bool) -> list[dict[str, Any]]:
    """The rows of windows that were closed `before`, or those of all others."""
    edge = pa.scalar(closed, pa.timestamp("us", "UTC"))
    ends = rows.column("__window_end").cast(pa.timestamp("us", "UTC"))
    return list(rows.filter((pc.less_equal if before else pc.greater)(ends, edge)).to_pylist())


def counted(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Counter[str]:
    """Rows as they can be compared, floats to nine digits: sums are added up in another order."""
    return Counter(repr([rounded(row[name]) for name in names]) for row in rows)
