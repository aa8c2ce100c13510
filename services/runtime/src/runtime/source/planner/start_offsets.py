"""Find where reading begins: in topics that a dagger starts with, and in those that join what it reads."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from daggers.v1 import spec_pb2

from runtime.errors import JobError
from runtime.source.event_times import EventTimes
from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.planner.broker import Broker

# Records sampled before the start, to learn how new the skipped ones are.
_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class Predecessor:
    """Progress of a dagger before an edit, for a reader of the new query that has read nothing yet."""

    next: Mapping[tuple[str, int], int]
    """The offset of the next record, by the topic's id and the number of the partition."""
    since: datetime | None
    """The event time (aware) from which on the new query needs records; None: it needs none of these."""
    complete_from: int
    """The event time (us) before which windows are partial if it begins right there; 0: none is."""
    closed: datetime | None = None
    """End (aware) up to which windows were written before; None: none was."""


def start_position(start: spec_pb2.StartPosition, joined: datetime | None = None) -> int | str:
    """Convert a start position: to "earliest", "latest", or a Kafka time in ms since the epoch.

    The latest of a topic that joins is from when it `joined`, as far as that is known.
    """
    match start.WhichOneof("position"):
        case "earliest" if start.earliest:
            return "earliest"
        case "at":
            return millis(start.at.ToDatetime(tzinfo=UTC))
        case _:
            return "latest" if joined is None else millis(joined)


def millis(when: datetime) -> int:
    """Convert an aware time to ms since the epoch."""
    return int(when.timestamp() * 1000)


def start_offsets(
    broker: Broker, topics: Sequence[str], start: int | str, before: Predecessor | None, times: EventTimes
) -> Offsets:
    """Find where these topics begin for a dagger that has read nothing yet.

    `start` is a `start_position`. Raises `JobError`.
    """
    ids, partitions = describe_topics(broker, topics)
    read = _read(before, ids, partitions)
    if before is None or before.since is None:
        positions = {**_positions(broker, partitions, start), **read}
        certain = 0 if before is None else before.complete_from
    else:
        # What is older by Kafka's time than this is older than `since`, for all that its clock was ahead.
        positions = _positions(broker, partitions, millis(before.since) - times.tolerance_ms)
        positions |= {p: min(offset, positions[p]) for p, offset in read.items()}
        read, certain = positions, millis(before.since) * 1000
    closed = 0 if before is None or before.closed is None else millis(before.closed) * 1000
    begin = begin_at(broker, ids, positions, times, read=read)
    if any(positions.values()):
        begin = replace(begin, complete_from=max(begin.complete_from, certain))
    return replace(begin, closed=closed)


def still_held(broker: Broker, topics: Sequence[str], start: int | str) -> bool:
    """Tell whether Kafka holds all records of these topics that `start`, a `start_position`, names.

    False where a deleted record may have been one of them. Raises `JobError`.
    """
    _, partitions = describe_topics(broker, topics)
    first = broker.first(partitions)
    positions = first if isinstance(start, str) else _positions(broker, partitions, start)
    return all(first[p] == 0 or positions[p] > first[p] for p in partitions)


def begin_at(
    broker: Broker,
    ids: Mapping[str, str],
    positions: Positions,
    times: EventTimes,
    *,
    read: Collection[Partition] = (),
) -> Offsets:
    """Return these positions, with the time from when on windows that begin there are whole.

    Nothing is skipped before the positions of `read`.
    """
    first = broker.first(positions)
    skipped = {p: offset for p, offset in positions.items() if offset > 0}
    partial = [
        _after_skipped(broker, {p: o for p, o in skipped.items() if o > first[p] and p not in read}, times),
        _after_expired(broker, {p: first[p] for p, o in skipped.items() if o <= first[p]}, times),
    ]
    return Offsets(ids, positions, complete_from=max(partial))


def joining_offsets(
    broker: Broker,
    topics: Sequence[str],
    start: int | str,
    ended: Offsets,
    open_ms: int | None,
    times: EventTimes,
) -> tuple[Offsets, int]:
    """Find where topics begin that join a stream which is read; count the records that this skips.

    `start` is a `start_position`. A topic that was read before goes on where that `ended`. `open_ms` is the
    Kafka time from which records may be of open windows; None for a query without. Reading begins there then,
    wherever the start is: later, and the open windows would lack records; earlier, and the windows are
    closed, and others would wait while what is late is read. Only these records are counted as skipped.
    Raises `JobError`.
    """
    ids, partitions = describe_topics(broker, topics)
    positions = _positions(broker, partitions, start)
    ended = ended.only(name for name, id_ in ended.ids.items() if ids.get(name) == id_)
    positions |= {p: ended.next.get(p, 0) for p in partitions if p.topic in ended.ids}
    if open_ms is None:
        return Offsets(ids, positions), 0
    requested, first = positions, broker.first(partitions)
    positions = _positions(broker, partitions, open_ms)
    for partition, offset in ended.next.items():
        positions[partition] = max(offset, positions.get(partition, 0))
    skipped = sum(max(0, offset - requested.get(partition, 0)) for partition, offset in positions.items())
    # What retention took may have been of an open window; what else lies before was not.
    expired = {p: offset for p, offset in positions.items() if 0 < offset == first.get(p)}
    return Offsets(ids, positions, complete_from=_after_expired(broker, expired, times)), skipped


def missing(broker: Broker, share: Offsets) -> set[str]:
    """Find the topics of a share that Kafka does not have any more, or has anew. Raises `JobError`."""
    topics = set()
    for topic in share.topics:
        try:
            id_ = broker.topics([topic])[topic].id
        except JobError as problem:
            if problem.error.reason != "TOPIC_MISSING":
                raise
            id_ = ""
        if id_ != share.ids[topic]:
            topics.add(topic)
    return topics


def describe_topics(broker: Broker, names: Sequence[str]) -> tuple[dict[str, str], list[Partition]]:
    """Return the ids and the partitions of these topics. Raises: JobError."""
    topics = broker.topics(names)
    ids = {name: topic.id for name, topic in topics.items()}
    return ids, [partition for topic in topics.values() for partition in topic.partitions]


def _read(
    before: Predecessor | None, ids: Mapping[str, str], partitions: Sequence[Partition]
) -> dict[Partition, int]:
    """Return the next offsets of those partitions of which something was read."""
    if before is None:
        return {}
    after = {p: before.next.get((ids[p.topic], p.number)) for p in partitions}
    return {partition: offset for partition, offset in after.items() if offset is not None}


def _positions(broker: Broker, partitions: Sequence[Partition], start: int | str) -> dict[Partition, int]:
    if start == "earliest":
        return broker.first(partitions)
    end = broker.end(partitions)
    return end if isinstance(start, str) else {**end, **broker.first_at(start, partitions)}


def _after_skipped(broker: Broker, skipped: Positions, times: EventTimes) -> int:
    """Return the time (us) after the newest of the last skipped records; 0 where none is readable."""
    before = {partition: max(0, offset - _SAMPLE) for partition, offset in skipped.items()}
    samples, now_ms = broker.samples(before, _SAMPLE) if before else {}, int(time.time() * 1000)
    newer = [
        micros + 1
        for partition, messages in samples.items()
        for message, micros in times.of(messages, now_ms)
        if int(message.offset() or 0) < skipped[partition]
    ]
    return max(newer, default=0)


def _after_expired(broker: Broker, first: Positions, times: EventTimes) -> int:
    """Return the time (us) after all deleted records, by the `first` ones that remain; 0 where none does.

    None of them was newer than the first that is left by more than the watermark's delay: else that is late.
    """
    heads, now_ms = broker.samples(first, _SAMPLE) if first else {}, int(time.time() * 1000)
    oldest = [next((micros for _, micros in times.of(head, now_ms)), None) for head in heads.values()]
    return max((micros + times.delay_ms * 1000 + 1 for micros in oldest if micros is not None), default=0)
