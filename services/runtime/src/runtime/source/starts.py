"""Where a reader begins, decided before the query starts and kept in its checkpoint directory.

After a crash in the first batch Spark asks for the initial offset again; asked of Kafka again, `latest` would
skip what lay between.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from confluent_kafka import Message
from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession

from runtime.decode.decoder import Decoder
from runtime.source.broker import Broker
from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.rows import event_times

# Records read before the start to learn how new what is skipped is.
_SAMPLE = 200


def decided(spark: SparkSession, checkpoint: str, key: str, decide: Callable[[], Offsets]) -> Offsets:
    """What was decided for the reader `key`; decided now, and written in one step, if it was not before."""
    context = spark.sparkContext
    jvm, configuration = context._jvm, context._jsc.hadoopConfiguration()  # noqa: SLF001 - Spark's own way to Hadoop's file systems
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/source-start/{quote(key, safe='')}.json")
    files = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(
        path.getParent(), configuration
    )
    if files.exists(path):
        stream = files.open(path)
        try:
            text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return Offsets.from_json(json.loads(text))
    start = decide()
    files.mkdirs(path.getParent())
    stream = files.createAtomic(path, False)
    stream.write(bytearray(json.dumps(start.as_json()).encode()))
    stream.close()
    return start


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
    """Asks Kafka where these topics begin for a reader that has read nothing yet.

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
            positions = _positions(broker, partitions, _millis(past.since) - times.tolerance_ms)
            positions |= {p: min(offset, positions[p]) for p, offset in read.items()}
            read, certain = positions, _millis(past.since) * 1000
        first = broker.first(partitions)
        skipped = {p: offset for p, offset in positions.items() if offset > 0}
        partial = [
            _newest(broker, {p: o for p, o in skipped.items() if o > first[p] and p not in read}, times),
            _gone(broker, {p: first[p] for p, offset in skipped.items() if offset <= first[p]}, times),
            certain if skipped else 0,
        ]
    finally:
        broker.close()
    closed = 0 if past is None or past.closed is None else _millis(past.closed) * 1000
    return Offsets(ids, positions, complete_from=max(partial), closed=closed)


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


def asked(start: spec_pb2.StartPosition) -> int | str:
    """What a start position asks for: "earliest", "latest", or a Kafka time in ms since the epoch."""
    match start.WhichOneof("position"):
        case "earliest" if start.earliest:
            return "earliest"
        case "at":
            return _millis(start.at.ToDatetime(tzinfo=UTC))
        case _:
            return "latest"


def _millis(when: datetime) -> int:
    return int(when.timestamp() * 1000)
