"""Read a range of a stream as a DataFrame of Spark's batches: nothing streams, so nothing is late.

It is read and decoded by the same tasks as a stream's batches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from daggers.v1 import spec_pb2
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everyone gives it
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

import daggersql
from runtime.source.context import SourceContext
from runtime.source.gates import with_gates
from runtime.source.offsets import Partition
from runtime.source.plan import ReaderPlan
from runtime.source.reader import task
from runtime.source.reader.control_rows import STATISTICS
from runtime.source.readers import Readers
from runtime.source.stream import plans
from runtime.source.tasks import OffsetRange, ReadRanges, group_ranges


def open_range(
    spark: SparkSession,
    stream: spec_pb2.ResolvedStream,
    read: daggersql.Read,
    context: SourceContext,
    readers: Readers,
    pre_aggregation: daggersql.PartialAggregation | None = None,
    mended: Mapping[Partition, Mapping[int, bytes]] | None = None,
) -> DataFrame:
    """Open the range of the stream that the readers have: the columns of the view `read.table`.

    `mended` are values to be read in place of those that Kafka has. Records that cannot be read are left out.
    """
    frames = []
    for plan in plans(stream, read, context, readers, pre_aggregation):
        source = _source(replace(plan, mended=mended or {}), from_arrow_schema(task.output(plan).schema))
        spark.dataSource.register(source)
        rows = spark.read.format(source.name()).load()
        rows = rows.filter(F.col(STATISTICS).isNull()).drop(STATISTICS)
        if plan.has_gates:
            assert plan.windows is not None
            rows = with_gates(rows, plan.windows, [0])  # all records are there: no row is written again
        frames.append(rows)
    return reduce(DataFrame.unionByName, frames)


def _source(plan: ReaderPlan, schema: StructType) -> type[DataSource]:
    """Make the data source of a plan, which travels inside the class, for Spark shows options."""

    class RangeSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return f"daggers.{plan.name}"

        def schema(self) -> StructType:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            return RangeReader(plan)

    return RangeSource


class RangeReader(DataSourceReader):
    """Reads the range of one plan, once."""

    def __init__(self, plan: ReaderPlan) -> None:
        self._plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        """Return an input partition for each task; at least one, which may have nothing to read."""
        tasks = _tasks(self._plan, int(time.time() * 1000))
        return [InputPartition(one) for one in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task, in an executor."""
        return task.run(self._plan, partition.value)


def _tasks(plan: ReaderPlan, now_ms: int) -> list[ReadRanges]:
    start, ends = plan.start, plan.range_end or {}
    ranges = [
        OffsetRange(partition, start.ids[partition.topic], start.next.get(partition, 0), end)
        for partition, end in sorted(ends.items())
    ]
    some = [range_ for range_ in ranges if range_.end > range_.start]
    groups = group_ranges(some, plan.slots) or [()]
    return [ReadRanges(group, now_ms, max(len(some), 1)) for group in groups]
