"""Assign topics to the readers of a query before it starts, going on from the checkpoint's assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC
from uuid import uuid4

from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession

from runtime.clients.kafka import client_properties
from runtime.source.assignment_store import AssignmentStore
from runtime.source.context import SourceContext
from runtime.source.event_times import EventTimes
from runtime.source.offsets import Offsets, Positions
from runtime.source.planner import start_offsets
from runtime.source.planner.assignment import (
    Assignment,
    LoggedBatch,
    merge,
    next_assignment,
    planned_records,
)
from runtime.source.planner.broker import Broker
from runtime.source.planner.ranges import RangeBounds, bounds


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of a query: an assignment, and warnings about it, by table.

    `logged` is the newest batch of the checkpoint. `until` is where each reader ends, by name, for a query
    that only brings the readers to a common end: their topics are not the wanted ones any more. `missing` are
    topics that cannot be read to it, and `lost` are sentences about their planned records that are in no row.
    `ranges` is where each reader of a preview ends, by name; `records` are how many it reads, and `left_out`
    how many it may not. `query` is the name of that query.
    """

    assignment: Assignment
    warnings: Mapping[str, Sequence[str]]
    until: Mapping[str, Positions]
    missing: frozenset[str] = frozenset()
    lost: Sequence[str] = ()
    logged: LoggedBatch = field(default_factory=LoggedBatch)
    ranges: Mapping[str, Positions] = field(default_factory=dict)
    records: int = 0
    left_out: int = 0
    query: str = field(default_factory=lambda: uuid4().hex)


def assign(
    spark: SparkSession, streams: Mapping[str, spec_pb2.ResolvedStream], context: SourceContext
) -> Readers:
    """Assign the streams to readers, by table, and find where these begin.

    Nothing changes while the topics are the same. A new assignment is stored in the checkpoint. With `until`
    in the result, the query has to be run to its end, and `assign` to be called again. Raises `JobError`.
    """
    context.registry.clear()
    # Nobody goes on from a preview: it keeps nothing.
    store = None if context.range else AssignmentStore(spark, context.checkpoint)
    before, logged = (store.assignment(), store.newest_batch()) if store else (None, LoggedBatch())
    begun = bool(logged.ends) and (context.windows is None or context.open is not None)
    warnings: dict[str, list[str]] = {}
    ranges: dict[str, RangeBounds] = {}
    given = context.range.given if context.range else None

    def join(table: str, topics: Sequence[str], ended: Offsets) -> Offsets:
        if given is not None:
            begin, first = given.begin(topics)
            ranges[table] = RangeBounds(begin, {p: given.count(table) for p in first})
            return begin
        with closing(_broker(streams[table], context)) as broker:
            if context.range is not None:
                times = EventTimes.of_stream(streams[table], context.descriptors)
                ranges[table] = bounds(broker, topics, context.range, times)
                return ranges[table].start
            if begun:
                offsets, notes = _join_topics(broker, streams[table], topics, ended, context)
                warnings[table] = notes
                return offsets
            start = start_offsets.start_position(streams[table].input.start)
            times = EventTimes.of_stream(streams[table], context.descriptors)
            return start_offsets.start_offsets(broker, topics, start, context.past, times)

    most = None if given is None else 1
    wanted = {table: stream.stream.topics[:most] for table, stream in streams.items()}
    assignment, until = next_assignment(before, logged, wanted, join)
    if not until:
        if store:
            store.keep(assignment)
        return Readers(
            assignment,
            warnings,
            {},
            ranges={
                share.reader: {p: end for p, end in ranges[table].end.items() if p.topic in share.ids}
                for table, shares in assignment.shares.items()
                for share in shares
                if table in ranges
            },
            records=sum(range_.records for range_ in ranges.values()),
            left_out=sum(range_.left_out for range_ in ranges.values()),
            logged=logged,
        )
    missing: set[str] = set()
    for table, stream in streams.items():
        unwanted = set(assignment.topics()[table]) - set(stream.stream.topics)
        with closing(_broker(stream, context)) as broker:
            missing |= start_offsets.missing(broker, merge(assignment.shares[table]).only(unwanted))
    lost = [
        _topic_gone(topic, count) for topic, count in planned_records(assignment, logged, missing).items()
    ]
    return Readers(assignment, warnings, until, frozenset(missing), lost, logged)


def _join_topics(
    broker: Broker,
    stream: spec_pb2.ResolvedStream,
    topics: Sequence[str],
    ended: Offsets,
    context: SourceContext,
) -> tuple[Offsets, list[str]]:
    """Find where topics begin that join a stream, and warn of records that are skipped."""
    times = EventTimes.of_stream(stream, context.descriptors)
    open_ms = None if context.open is None else start_offsets.millis(context.open) - times.tolerance_ms
    shares, warnings = [], []
    for topic in topics:
        since = stream.joined[topic].ToDatetime(UTC) if topic in stream.joined else None
        start = start_offsets.start_position(stream.input.start, since)
        share, skipped = start_offsets.joining_offsets(broker, (topic,), start, ended, open_ms, times)
        shares.append(share)
        if skipped:
            warnings.append(_topic_joined(topic, skipped))
    return merge(shares), warnings


def _broker(stream: spec_pb2.ResolvedStream, context: SourceContext) -> Broker:
    return Broker(client_properties(stream.kafka), context.consumer_group)


def _topic_joined(topic: str, skipped: int) -> str:
    return (
        f"TOPIC_JOINED {topic}: read from where the open windows begin; up to {skipped} earlier "
        "records are not read, because their windows are closed"
    )


def _topic_gone(topic: str, lost: int) -> str:
    return (
        f"TOPIC_GONE {topic}: up to {lost} of its records, which a batch was to read when the driver ended, "
        "are in no row: the topic was deleted before they were read"
    )
