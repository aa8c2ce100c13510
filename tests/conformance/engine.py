"""Plans in a real Spark, with the runtime's own session settings and functions."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everyone gives it
from pyspark.sql.pandas.types import from_arrow_schema

from daggersql import PartialAggregation, Plan, Read
from runtime import functions
from runtime.launch import guard
from runtime.references.loading import References
from runtime.source.metrics import count_late
from runtime.source.reader import control_rows, preaggregate
from runtime.source.reader.control_rows import RangeStatistics
from runtime.source.reader.marks import NO_MARKS, Marks
from runtime.source.reader.rows import filter_rows
from runtime.spark import session as spark
from runtime.values.registration import Registration

_Table = spec_pb2.ReferenceTable


@dataclass(frozen=True, slots=True)
class Streamed:
    """What a stream gave: names and Spark types of its columns, hidden ones included, and all its rows."""

    schema: list[tuple[str, str]]
    rows: list[dict[str, Any]]


class Engine:
    """One Spark session for many plans. Rows come and go as Arrow tables."""

    def __init__(self, session: SparkSession, files: FileDescriptorSet) -> None:
        """`files` are the message types that functions may name."""
        self._session = session
        self._registered: set[str] = set()
        self._functions = Registration(session, files.SerializeToString())

    def answer(
        self, plan: Plan, views: Mapping[str, pa.Table], tables: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """What the plan gives over rows that are all there. `tables` are the contents of reference tables."""
        for name, rows in views.items():
            frame = self._session.createDataFrame(rows, schema=from_arrow_schema(rows.schema))
            frame.createOrReplaceTempView(f"`{name}`")
        self._register(plan)
        with tempfile.TemporaryDirectory() as directory:
            self._references(plan, tables or {}, Path(directory)).refresh(self._session)
            return self._asked(plan, plan.reads).toArrow()

    def invalid_input(self) -> Mapping[str, int]:
        """Values that functions could not use, by function, since the engine began."""
        return self._functions.counts()

    def stream(
        self, plan: Plan, *runs: Mapping[str, Sequence[pa.Table]], staged_from: int | None = None
    ) -> Streamed:
        """Run the plan as a stream; each table of a view is a batch. From this run on it is in stages.

        With `plan.partial_aggregation`, records are added up first, as the reader does it. Every run goes to
        the end of its input and stops; the next one goes on from the checkpoint.
        """
        with tempfile.TemporaryDirectory() as directory:
            found: list[dict[str, Any]] = []
            self._register(plan)
            references = self._references(plan, {}, Path(directory) / "references")

            def take(batch: DataFrame, _: int) -> None:
                references.refresh(self._session)
                found.extend(batch.toArrow().to_pylist())

            for number, views in enumerate(runs):
                staged = staged_from is not None and number >= staged_from
                for read in plan.reads:
                    batches = [_as_read(plan, read, rows, staged=staged) for rows in views[read.table]]
                    self._feed(read.table, batches, Path(directory) / read.table, number)
                form = plan.partial_aggregation or plan
                rows = self._staged(form) if staged else self._asked(form, plan.reads)
                query = (
                    rows.writeStream.foreachBatch(take)
                    .option("checkpointLocation", f"{directory}/checkpoint")
                    .outputMode("append")
                    .trigger(availableNow=True)
                    .start()
                )
                query.awaitTermination()
            schema = [(field.name, field.dataType.simpleString()) for field in rows.schema.fields]
            return Streamed(schema, found)

    def _asked(self, form: Plan | PartialAggregation, reads: Sequence[Read]) -> DataFrame:
        """The rows of a query in one of its forms, if the driver's own check lets it run."""
        guard.check(self._session, form.spark_sql, [read.table for read in reads], form.functions)
        return spark.rows(self._session, form.spark_sql)

    def _staged(self, form: Plan | PartialAggregation) -> DataFrame:
        """The same in stages, as a driver has them."""
        assert form.staged is not None
        for stage in form.staged.stages:
            rows = count_late(spark.rows(self._session, stage.spark_sql), stage)
            rows.createOrReplaceTempView(f"`{stage.name}`")
        return spark.rows(self._session, form.staged.spark_sql)

    def _feed(self, name: str, batches: Sequence[pa.Table], folder: Path, run: int) -> None:
        """The view over a stream of these batches, with a watermark that WHERE is not pushed below."""
        folder.mkdir(exist_ok=True)
        for number, batch in enumerate(batches):
            file = folder / f"{run}-{number}.parquet"
            pq.write_table(batch, file)
            os.utime(file, (run * 1000 + number, run * 1000 + number))
        reader = self._session.readStream.schema(from_arrow_schema(batches[0].schema))
        rows = reader.option("maxFilesPerTrigger", "1").parquet(str(folder))
        marked = rows.withWatermark("rowtime", "0 seconds").filter(F.spark_partition_id() >= 0)
        data = marked.filter(F.col(control_rows.STATISTICS).isNull()).drop(control_rows.STATISTICS)
        data.createOrReplaceTempView(f"`{name}`")

    def _references(self, plan: Plan, tables: Mapping[str, Any], folder: Path) -> References:
        """The reference tables that a plan names, loaded; those without content are empty."""
        folder.mkdir(exist_ok=True)
        given = []
        for use in plan.references:
            file = folder / f"{use.name}.json"
            file.write_text(json.dumps(tables.get(use.name, {"data": []} if use.entries else {})))
            given.append(_Table(name=use.name, location=str(file), format=_Table.FORMAT_JSON))
        store = folder / "store"
        found = References(
            plan.references, given, dagger="d", store=store, folder=folder, clock=time.monotonic
        )
        found.start()
        return found

    def _register(self, plan: Plan) -> None:
        for name in set(plan.functions) - self._registered:
            functions.load(name).register(self._functions)
            self._registered.add(name)


def _as_read(plan: Plan, read: Read, records: pa.Table, *, staged: bool = False) -> pa.Table:
    """What a reader makes of a batch of records, its note included."""
    marks = Marks(len(plan.closing[read.table])) if staged else NO_MARKS
    made, statistics = preaggregate.output(records.schema, plan.partial_aggregation, marks), RangeStatistics()
    statistics.add(np.asarray(records.column("rowtime").cast(pa.int64())))
    batches = [filter_rows(part, read.wanted) for part in records.to_batches()]
    rows = [row for part in batches for row in made.add(part, statistics)]
    return pa.Table.from_batches(
        [*rows, *made.rest(), control_rows.statistics_row(made.schema, statistics)], made.schema
    )


@contextmanager
def engine(files: FileDescriptorSet | None = None) -> Iterator[Engine]:
    """An engine on this machine, stopped at the end; it knows the message types of `files`."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # noqa: TID251 - read by Spark, in this process only
    conf = SparkConf().set("spark.ui.enabled", "false").set("spark.log.level", "ERROR")
    conf.set("spark.ui.showConsoleProgress", "false")
    conf.set("spark.driver.host", "127.0.0.1").set("spark.driver.bindAddress", "127.0.0.1")
    SparkContext(master="local[2]", appName="conformance", conf=conf)
    session = spark.start()
    spark.checkpoint_locally(session)
    try:
        yield Engine(session, files or FileDescriptorSet())
    finally:
        session.stop()
