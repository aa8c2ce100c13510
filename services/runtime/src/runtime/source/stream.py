"""Open a stream of a dagger as a DataFrame.

The job calls `readers.assign` once and `open_stream` for each stream before it starts the query;
`begin_batch` first thing in each foreachBatch, `end_batch` once the batch's rows are computed. What readers
publish is in the context's registry.

Event time of a stream is the least of its partitions, those left out that are idle. Spark knows one maximum
for each watermark operator, over all rows that pass it. So the operators are there for what Spark derives
from them, with a delay by which none ever moves event time, and `end_batch` moves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce

from daggers.v1 import spec_pb2
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everyone gives it
from pyspark.sql.pandas.types import from_arrow_schema

import daggersql
from daggersql.plan import GATE
from runtime.clients.kafka import client_properties
from runtime.source import metrics
from runtime.source.context import SourceContext
from runtime.source.datasource import data_source
from runtime.source.event_times import EventTimes
from runtime.source.gates import with_gates
from runtime.source.given import GivenRecords
from runtime.source.offsets import Offsets, Partition
from runtime.source.plan import ReaderPlan, milliseconds
from runtime.source.planner import firstrows, start_offsets
from runtime.source.reader import task
from runtime.source.reader.control_rows import ROWTIME, STATISTICS
from runtime.source.readers import Readers
from runtime.source.status import ReaderStatus
from runtime.source.watermark import NEVER
from runtime.spark import queries


def open_stream(
    spark: SparkSession,
    stream: spec_pb2.ResolvedStream,
    read: daggersql.Read,
    context: SourceContext,
    readers: Readers,
    pre_aggregation: daggersql.PartialAggregation | None = None,
) -> DataFrame:
    """Open the stream as a streaming DataFrame: the columns of the view `read.table`, watermark set.

    With `pre_aggregation` its rows are partial aggregates of records.

    Each topic is a reader of its own, as far as there are readers. Directly above the watermark operator
    stands an `observe`: it counts, and no filter passes it, so that rows which the query does not want move
    event time too, and so do idle advances. Raises `JobError`.
    """
    frames = []
    for plan in plans(stream, read, context, readers, pre_aggregation):
        source = data_source(plan, from_arrow_schema(task.output(plan).schema))
        spark.dataSource.register(source)
        context.registry.publish(plan.key, ReaderStatus.initial(plan))
        computed = pre_aggregation.computed if pre_aggregation else ()
        rows = spark.readStream.format(source.name()).load()
        if not plan.has_gates:
            rows = rows.withWatermark(ROWTIME, _NEVER)
        rows = (
            rows.observe(metrics.name(plan.key), *metrics.columns(computed))
            .filter(F.col(STATISTICS).isNull())
            .drop(STATISTICS)
        )
        if plan.has_gates:
            assert plan.windows is not None
            rows = with_gates(rows, plan.windows, plan.windows.gates).withWatermark(GATE, _NEVER)
        frames.append(rows)
    return reduce(DataFrame.unionByName, frames)


# By this delay no time that a row may have comes out behind 1970, where Spark's event time begins.
_NEVER = "100000000 days"


@dataclass(frozen=True, slots=True)
class RunningBatch:
    """The batch that runs in a thread of Spark: each of its objects that is looked up anew costs calls of
    Py4J, in both processes.
    """

    query_id: str
    """Spark's id of the query, which identifies a checkpoint: a recreated one has another id."""
    late_until: datetime | None
    """Event time up to which windows are closed for its records; None before the first row."""
    closes_until: datetime | None
    """Event time up to which the batch closes windows; None before the first row."""
    stream: JavaObject
    """Spark's execution of the query."""
    execution: JavaObject
    """Spark's execution of the batch."""


def begin_batch(spark: SparkSession) -> RunningBatch:
    """Let the readers count what is late in this batch; call it first thing in foreachBatch."""
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "not inside foreachBatch"
    query = spark.streams.get(query_id)
    assert query is not None
    stream = query._jsq.streamingQuery()  # noqa: SLF001 - Spark has no public way to the watermark
    execution = stream.lastExecution()
    before = execution.prevOffsetSeqMetadata()
    late = before.get().batchWatermarkMs() if before.isDefined() else 0
    spark.sparkContext.setLocalProperty(task.WATERMARK_PROPERTY, str(late))
    now = execution.offsetSeqMetadata().batchWatermarkMs()
    return RunningBatch(query_id, _event_time(late), _event_time(now), stream, execution)


def _event_time(watermark: int) -> datetime | None:
    return datetime.fromtimestamp(watermark / 1000, UTC) if watermark else None


def end_batch(batch: RunningBatch, context: SourceContext) -> None:
    """Move event time by what the batch has read; call it in foreachBatch once the rows are computed.

    Spark closes windows by it in the batch that follows, which needs no records.
    """
    observed = {
        key: metrics.event_times(row)
        for name, row in queries.read_observations(batch.execution).items()
        if (key := metrics.key(name)) is not None
    }
    watermark = context.registry.record(observed).watermark()
    if watermark != NEVER:
        queries.advance_watermark(batch.stream, watermark)


def plans(
    stream: spec_pb2.ResolvedStream,
    read: daggersql.Read,
    context: SourceContext,
    readers: Readers,
    pre_aggregation: daggersql.PartialAggregation | None,
) -> list[ReaderPlan]:
    """Plan each reader of the stream."""
    warnings = readers.warnings.get(read.table, ())
    return [
        ReaderPlan(
            key=f"{read.table}.{index}",
            dagger=context.dagger,
            generation=context.generation,
            group=context.consumer_group,
            topics=share.topics,
            message=stream.stream.message,
            time_field="" if read.undecoded else stream.stream.time_field,
            paths=tuple(path for path in read.paths if path != ROWTIME),
            descriptors=context.descriptors.SerializeToString(),
            kafka=client_properties(stream.kafka),
            platform={} if context.range else client_properties(context.platform),
            start=share,
            delay=milliseconds(stream.input.watermark_delay),
            idle_timeout=milliseconds(stream.input.idle_timeout),
            tolerance=milliseconds(stream.input.future_tolerance),
            windows=context.windows,
            late_for=context.late_for,
            marks_late=context.marks_late,
            run_dir=str(context.run_dir),
            max_rows=_most_rows(context, readers),
            warnings=tuple(warnings if index == 0 else ()),
            conditions=read.wanted,
            pre_aggregation=pre_aggregation,
            until=readers.until.get(share.reader),
            missing=readers.missing,
            range_end=readers.ranges.get(share.reader),
            live_until=context.range.live_until if context.range else 0,
            first_rows=_in_parts(context, readers),
            batches=context.batches,
            query=readers.query,
            slots=context.slots,
            read_until=context.read_until.get(read.table, {}),
            lost=readers.logged.find_lost(share),
            begun=_find_begins(share, context, readers),
            open_from=None if context.open is None else start_offsets.millis(context.open) * 1000,
            shadow=context.shadow,
            given=_given_records(stream, read, context),
            late_sink=context.late_sink,
        )
        for index, share in enumerate(readers.assignment.shares[read.table])
    ]


def _find_begins(share: Offsets, context: SourceContext, readers: Readers) -> dict[Partition, int]:
    """Return where the newest batch began, if its records may have been deleted unread: nobody has looked
    since it was read where it is not committed, or the driver was killed after that.
    """
    if readers.logged.committed and context.ended_in_order:
        return {}
    return readers.logged.find_begins(share)


def _given_records(
    stream: spec_pb2.ResolvedStream, read: daggersql.Read, context: SourceContext
) -> GivenRecords | None:
    """Return the given records of the stream, in the place of topics."""
    if context.range is None or context.range.given is None:
        return None
    times = EventTimes.of_stream(stream, context.descriptors)
    times = replace(times, decoder=None) if read.undecoded else times
    return context.range.given.records(read.table, times)


def _most_rows(context: SourceContext, readers: Readers) -> int:
    """Return about the most records of a batch of one reader."""
    if not context.max_rows_of_all:
        return context.max_rows
    count = sum(map(len, readers.assignment.shares.values()))
    return min(context.max_rows, max(context.max_rows_of_all // count, 1))


def _in_parts(context: SourceContext, readers: Readers) -> bool:
    """Tell whether the first rows of a preview are worth batches of their own.

    They are where one reader has many records, and it is known beforehand when windows end.
    """
    range_, windows = context.range, context.windows
    if range_ is None or not range_.first_rows or windows is None or not windows.slide:
        return False
    return len(readers.ranges) == 1 and readers.records >= firstrows.WORTH
