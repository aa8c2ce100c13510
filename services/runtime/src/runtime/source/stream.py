"""A stream of a dagger as a DataFrame, and what the job tells the stream while it runs.

The job calls `readers` once and `open_stream` for each stream before it starts the query; `note_batch` first
thing in each foreachBatch; `note_progress` for each progress event; `complete_from` and `warnings` whenever
it likes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path

from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everyone gives it
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.listener import StreamingQueryProgress

import daggersql
from runtime.clients.kafka import client_properties
from runtime.decode.decoder import Decoder, find_message, message_pool
from runtime.source import metrics as counts
from runtime.source.assignment_store import Kept
from runtime.source.datasource import data_source
from runtime.source.offsets import Offsets, Positions
from runtime.source.plan import ReaderPlan, group_of, milliseconds
from runtime.source.planner import start_offsets as starts
from runtime.source.planner.assignment import Assignment, next_assignment, planned, together
from runtime.source.planner.idle import Clock, Windows
from runtime.source.reader import task as worker
from runtime.source.reader.control_rows import ROWTIME, TALLY
from runtime.source.status import Board

# A partner may come until the bound itself has passed: a moment later the wait is over.
_JOIN_MARGIN = timedelta(seconds=1)


@dataclass(frozen=True)
class SourceContext:
    """What a stream must know of the job it is read for.

    `checkpoint` is the directory (path or Hadoop URI) of the query's checkpoint; `run_dir` belongs to this
    launch; `windows` are what waits for event time, None for a forwarding query; `late_for` those that a
    record of this stream is late for. `past` is what was read before an edit; `open` (aware) the event time
    from which on windows are open, None while none was closed. `max_rows` bounds one batch of one reader,
    unless everything there is fits into a trigger.
    """

    dagger: str
    generation: int
    checkpoint: str
    run_dir: Path
    platform: spec_pb2.KafkaAddress
    descriptors: FileDescriptorSet
    windows: Windows | None
    late_for: tuple[Windows, ...] = ()
    consumer_group: str = ""
    past: starts.Past | None = None
    open: datetime | None = None
    max_rows: int = 2_000_000


@dataclass(frozen=True, slots=True)
class Readers:
    """Who reads what in a query: an assignment, and what is said of it, by table.

    `until` is where each reader ends, by name, for a query that only brings the readers to a common end:
    their topics are not the wanted ones any more. `gone` are topics that cannot be read to it, and `lost`
    says which of their records that were to be read are in no row.
    """

    assignment: Assignment
    warnings: Mapping[str, Sequence[str]]
    until: Mapping[str, Positions]
    gone: frozenset[str] = frozenset()
    lost: Sequence[str] = ()


def readers(
    spark: SparkSession, streams: Mapping[str, spec_pb2.ResolvedStream], context: SourceContext
) -> Readers:
    """Who reads the streams, by table, and from where: as decided before, while the topics are the same.

    What is decided now is kept in the checkpoint. With `until` in the answer, the query has to be run to its
    end, and this is to be asked again. Raises `JobError`.
    """
    Board(context.run_dir).clear()
    kept = Kept(spark, context.checkpoint)
    before, logged = kept.assignment(), kept.logged()
    begun = bool(logged.ends) and (context.windows is None or context.open is not None)
    warnings: dict[str, list[str]] = {}

    def join(table: str, topics: Sequence[str], ended: Offsets) -> Offsets:
        stream, times = streams[table], _times(streams[table], context)
        kafka, group = client_properties(stream.kafka), group_of(context.dagger, context.consumer_group)
        if not begun:
            return starts.decide(kafka, group, topics, starts.asked(stream.input.start), context.past, times)
        opened = None if context.open is None else starts.millis(context.open) - times.tolerance_ms
        shares = []
        for topic in topics:
            since = stream.joined[topic].ToDatetime(UTC) if topic in stream.joined else None
            asked = starts.asked(stream.input.start, since)
            share, skipped = starts.join(kafka, group, (topic,), asked, ended, opened, times)
            shares.append(share)
            if skipped:
                warnings.setdefault(table, []).append(_joined(topic, skipped))
        return together(shares)

    wanted = {table: stream.stream.topics for table, stream in streams.items()}
    assignment, until = next_assignment(before, logged, wanted, join)
    if not until:
        kept.keep(assignment)
        return Readers(assignment, warnings, {})
    gone = {
        topic
        for table, stream in streams.items()
        for topic in starts.gone(
            client_properties(stream.kafka),
            group_of(context.dagger, context.consumer_group),
            together(assignment.shares[table]).only(
                set(assignment.topics()[table]) - set(stream.stream.topics)
            ),
        )
    }
    lost = [_gone(topic, count) for topic, count in planned(assignment, logged, gone).items()]
    return Readers(assignment, warnings, until, frozenset(gone), lost)


def open_stream(
    spark: SparkSession,
    stream: spec_pb2.ResolvedStream,
    read: daggersql.Read,
    context: SourceContext,
    readers: Readers,
    sums: daggersql.PartialAggregation | None = None,
) -> DataFrame:
    """The stream as a streaming DataFrame: the columns of the view `read.table`, watermark set.

    With `sums` its rows are records that were added up.

    Each topic is a reader with a watermark of its own, as far as there are readers. Directly above the
    watermark stands an `observe`: it counts, and no filter passes it, so that rows which the query does not
    want move event time too, and so do ticks. Raises `JobError`.
    """
    plans = _plans(stream, read, context, readers, sums)
    computed = sums.computed if sums else ()
    frames = []
    for plan in plans:
        schema = from_arrow_schema(plan.view().schema)
        source = data_source(plan, schema)
        spark.dataSource.register(source)
        plan.board.say(plan.key, plan.word)
        frames.append(
            spark.readStream.format(source.name())
            .load()
            .withWatermark(ROWTIME, f"{plan.delay} milliseconds")
            .observe(counts.metric(plan.key), *counts.metrics(computed))
            .filter(F.col(TALLY).isNull())
            .drop(TALLY)
        )
    return reduce(DataFrame.unionByName, frames)


def note_batch(spark: SparkSession) -> datetime | None:
    """To be called first thing in foreachBatch: lets the readers count what is late in this batch.

    Returns the event time up to which this batch closes windows, None before the first row.
    """
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    assert query_id is not None, "not inside foreachBatch"
    query = spark.streams.get(query_id)
    execution = query._jsq.streamingQuery().lastExecution()  # type: ignore[union-attr]  # noqa: SLF001 - Spark has no public way to the watermark
    before = execution.prevOffsetSeqMetadata()
    late = before.get().batchWatermarkMs() if before.isDefined() else 0
    spark.sparkContext.setLocalProperty(worker.WATERMARK_PROPERTY, str(late))
    now = execution.offsetSeqMetadata().batchWatermarkMs()
    return datetime.fromtimestamp(now / 1000, UTC) if now else None


def note_progress(context: SourceContext, progress: StreamingQueryProgress) -> counts.SourceCounts:
    """To be called for each progress event: remembers how far readers are, returns the counts."""
    Board(context.run_dir).note(counts.seen(progress))
    return counts.read(progress)


def complete_from(context: SourceContext) -> datetime | None:
    """Rows that need records from before this must not be emitted. None: every row is whole.

    Known once all streams are open, and always the same for a checkpoint.
    """
    return _moment(max((word.complete_from for word in Board(context.run_dir).words().values()), default=0))


def closed(context: SourceContext) -> datetime | None:
    """Windows that end up to this were written before an edit and must not be again. None: none was."""
    return _moment(max((word.closed for word in Board(context.run_dir).words().values()), default=0))


def _moment(micros: int) -> datetime | None:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros) if micros else None


def warnings(context: SourceContext) -> tuple[str, ...]:
    """What a person should know about the sources, UPPER_SNAKE code first."""
    words = sorted(Board(context.run_dir).words().items())
    away = tuple(f"STREAM_UNREACHABLE: {word.away}" for _, word in words if word.away)
    return (*away, *(warning for _, word in words for warning in word.warnings))


def clocks(context: SourceContext) -> dict[str, Clock]:
    """What is known of event time, by reader."""
    return Board(context.run_dir).clocks()


def reached(context: SourceContext) -> bool:
    """Whether every reader reached its topics when it was asked last."""
    return not any(word.away for word in Board(context.run_dir).words().values())


def _plans(
    stream: spec_pb2.ResolvedStream,
    read: daggersql.Read,
    context: SourceContext,
    readers: Readers,
    sums: daggersql.PartialAggregation | None,
) -> list[ReaderPlan]:
    """One plan for each reader of the stream."""
    times = _times(stream, context)
    said = readers.warnings.get(read.table, ())
    return [
        ReaderPlan(
            key=f"{read.table}.{index}",
            dagger=context.dagger,
            generation=context.generation,
            group=group_of(context.dagger, context.consumer_group),
            topics=share.topics,
            message=stream.stream.message,
            time_field=stream.stream.time_field,
            paths=tuple(path for path in read.paths if path != ROWTIME),
            files=context.descriptors.SerializeToString(),
            kafka=client_properties(stream.kafka),
            platform=client_properties(context.platform),
            start=share,
            delay=times.delay_ms,
            idle_timeout=milliseconds(stream.input.idle_timeout),
            tolerance=times.tolerance_ms,
            windows=context.windows,
            late_for=context.late_for,
            run_dir=str(context.run_dir),
            max_rows=context.max_rows,
            warnings=(*_tied(share.topics), *(said if index == 0 else ())),
            equal=read.equal,
            sums=sums,
            until=readers.until.get(share.reader),
            gone=readers.gone,
        )
        for index, share in enumerate(readers.assignment.shares[read.table])
    ]


def _times(stream: spec_pb2.ResolvedStream, context: SourceContext) -> starts.EventTimes:
    """What is known of the stream's event times."""
    message = find_message(message_pool(context.descriptors), stream.stream.message)
    return starts.EventTimes(
        Decoder(message, (), stream.stream.time_field),
        milliseconds(stream.input.future_tolerance),
        milliseconds(stream.input.watermark_delay),
    )


def _joined(topic: str, skipped: int) -> str:
    return (
        f"TOPIC_JOINED {topic}: read from where the open windows begin; up to {skipped} earlier "
        "records are not read, because their windows are closed"
    )


def _gone(topic: str, lost: int) -> str:
    return (
        f"TOPIC_GONE {topic}: up to {lost} of its records, which a batch was to read when the driver ended, "
        "are in no row: the topic was deleted before they were read"
    )


def _tied(topics: Sequence[str]) -> tuple[str, ...]:
    if len(topics) < 2:
        return ()
    return (
        f"TOPICS_SHARE_WATERMARK {', '.join(topics)}: event time of one moves on with the others; "
        "rows of a topic that is behind may be late",
    )


def windows(window: daggersql.Window) -> Windows:
    """A window of a plan. What ends at any instant (a session, a join) has no slide."""
    millisecond = timedelta(milliseconds=1)
    slide = window.slide if window.kind in ("TUMBLE", "HOP") else timedelta()
    return Windows(window.size // millisecond, slide // millisecond)


def windows_of(plan: daggersql.Plan) -> Windows | None:
    """What waits for event time in a plan: its windows; None for a plan that keeps nothing.

    Sessions, joins, and windows over windows end at any instant, a horizon after their last record.
    """
    millisecond = timedelta(milliseconds=1)
    window = plan.window
    if window is not None and window.kind != "SESSION":
        return windows(window)
    margin = _JOIN_MARGIN if window is None else timedelta()
    return Windows((plan.horizon + margin) // millisecond, 0) if plan.horizon else None
