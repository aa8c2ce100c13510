"""Where reading begins: of topics that a dagger starts with, and of those that join what it reads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from confluent_kafka import Message
from daggers.v1 import spec_pb2

from runtime.decode.decoder import Decoder
from runtime.errors import JobError
from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.planner.broker import Broker
from runtime.source.reader.rows import event_times

# Records read before the start to learn how new what is skipped is.
_SAMPLE = 200


@dataclass(frozen=True, slots=True)
class EventTimes:
    """How event times of a stream are read, and what is known of them: ahead by at most `tolerance_ms`, later
    than others by at most the watermark's `delay_ms`."""

    decoder: Decoder
    tolerance_ms: int
    delay_ms: int

    def of(self, messages: Sequence[Message]) -> Iterator[tuple[Message, int]]:
        """Each message whose event time can be used, with that time in us."""
        return event_times(messages, self.decoder, int(time.time() * 1000), self.tolerance_ms)


@dataclass(frozen=True, slots=True)
class Past:
    """What a dagger that was edited had read, for a reader of the new query that has read nothing yet."""

    next: Mapping[tuple[str, int], int]
    """The offset of the next record, by the topic's id and the number of the partition."""
    since: datetime | None
    """The event time (aware) from which on the new query needs records; None: it needs none of these."""
    complete_from: int
    """The event time (us) before which windows are partial if it begins right there; 0: none is."""
    closed: datetime | None = None
    """Windows that end up to this event time (aware) were written before; None: none was."""


def decide(
    properties: Mapping[str, str],
    group: str,
    topics: Sequence[str],
    start: int | str,
    past: Past | None,
    times: EventTimes,
) -> Offsets:
    """Asks Kafka where these topics begin for a dagger that has read nothing yet.

    `start` is as from `asked`. Raises `JobError`.
    """
    broker = Broker(properties, group)
    try:
        known = broker.topics(topics)
        partitions = [partition for topic in known.values() for partition in topic.partitions]
        ids = {name: topic.id for name, topic in known.items()}
        read = _read(past, ids, partitions)
        if past is None or past.since is None:
            positions = {**_positions(broker, partitions, start), **read}
            certain = 0 if past is None else past.complete_from
        else:
            # What is older by Kafka's time than this is older than `since`, for all that its clock was ahead.
            positions = _positions(broker, partitions, millis(past.since) - times.tolerance_ms)
            positions |= {p: min(offset, positions[p]) for p, offset in read.items()}
            read, certain = positions, millis(past.since) * 1000
        first = broker.first(partitions)
        skipped = {p: offset for p, offset in positions.items() if offset > 0}
        partial = [
            _newest(broker, {p: o for p, o in skipped.items() if o > first[p] and p not in read}, times),
            _gone(broker, {p: first[p] for p, offset in skipped.items() if offset <= first[p]}, times),
            certain if skipped else 0,
        ]
    finally:
        broker.close()
    closed = 0 if past is None or past.closed is None else millis(past.closed) * 1000
    return Offsets(ids, positions, complete_from=max(partial), closed=closed)


def join(
    properties: Mapping[str, str],
    group: str,
    topics: Sequence[str],
    start: int | str,
    ended: Offsets,
    open_ms: int | None,
    times: EventTimes,
) -> tuple[Offsets, int]:
    """Asks Kafka where topics begin that join a stream which is read; and how many records that skips.

    `start` is as from `asked`. A topic that was read before goes on where that `ended`. `open_ms` is the
    Kafka time from which records may be of open windows; None for a query without. Reading begins there then,
    wherever the start is: later, and the open windows would lack records; earlier, and the windows are
    closed, and others would wait while what is late is read. Only these records are counted as skipped.
    Raises `JobError`.
    """
    broker = Broker(properties, group)
    try:
        known = broker.topics(topics)
        partitions = [partition for topic in known.values() for partition in topic.partitions]
        positions = _positions(broker, partitions, start)
        ids = {name: topic.id for name, topic in known.items()}
        ended = ended.only(name for name, id_ in ended.ids.items() if ids.get(name) == id_)
        positions |= {p: ended.next.get(p, 0) for p in partitions if p.topic in ended.ids}
        skipped = partial = 0
        if open_ms is not None:
            asked, first = positions, broker.first(partitions)
            positions = _positions(broker, partitions, open_ms)
            for partition, offset in ended.next.items():
                positions[partition] = max(offset, positions.get(partition, 0))
            skipped = sum(max(0, offset - asked.get(partition, 0)) for partition, offset in positions.items())
            # What retention took may have been of an open window; what else lies before was not.
            partial = _gone(broker, {p: o for p, o in positions.items() if 0 < o == first.get(p)}, times)
    finally:
        broker.close()
    return Offsets(ids, positions, complete_from=partial), skipped


def gone(properties: Mapping[str, str], group: str, share: Offsets) -> set[str]:
    """The topics of a share that Kafka does not have any more, or has anew."""
    broker = Broker(properties, group)
    found = set()
    try:
        for topic in share.topics:
            try:
                known = broker.topics([topic])[topic].id
            except JobError as problem:
                if problem.error.reason != "TOPIC_MISSING":
                    raise
                known = ""
            if known != share.ids[topic]:
                found.add(topic)
    finally:
        broker.close()
    return found


def _read(past: Past | None, ids: Mapping[str, str], partitions: Sequence[Partition]) -> dict[Partition, int]:
    """The next offsets of those partitions of which something was read."""
    after = {p: past.next.get((ids[p.topic], p.number)) for p in partitions} if past else {}
    return {partition: offset for partition, offset in after.items() if offset is not None}


def _positions(broker: Broker, partitions: Sequence[Partition], start: int | str) -> dict[Partition, int]:
    if start == "earliest":
        return broker.first(partitions)
    end = broker.end(partitions)
    return end if isinstance(start, str) else {**end, **broker.first_at(start, partitions)}


def _newest(broker: Broker, skipped: Positions, times: EventTimes) -> int:
    """What is newer (us) than the last records that are skipped; 0 where none is readable."""
    before = {partition: max(0, offset - _SAMPLE) for partition, offset in skipped.items()}
    found = [
        micros + 1
        for partition, messages in (broker.samples(before, _SAMPLE) if before else {}).items()
        for message, micros in times.of(messages)
        if int(message.offset() or 0) < skipped[partition]
    ]
    return max(found, default=0)


def _gone(broker: Broker, first: Positions, times: EventTimes) -> int:
    """What is newer (us) than the records before these first ones, which Kafka deleted; 0 where none is left.

    None of them was newer than the first that is left by more than the watermark's delay: else that is late.
    """
    heads = broker.samples(first, _SAMPLE) if first else {}
    found = [next((micros for _, micros in times.of(messages)), None) for messages in heads.values()]
    return max((micros + times.delay_ms * 1000 + 1 for micros in found if micros is not None), default=0)


def asked(start: spec_pb2.StartPosition, joined: datetime | None = None) -> int | str:
    """What a start position asks for: "earliest", "latest", or a Kafka time in ms since the epoch.

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
    """An aware time in ms since the epoch."""
    return int(when.timestamp() * 1000)
