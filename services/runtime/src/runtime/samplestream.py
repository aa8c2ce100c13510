"""Read the newest records of a stream: `python -m runtime.samplestream --last-records N`.

Its standard input is a JobSpec, of which the first stream and the descriptors count; with N = 0 it
only names the missing topics. Frames on standard output:

    S  SampleStreamResponse   progress, and the rate; then the records, the newest first
    E  DaggerError            why there are no more

It takes no more than `ROOM` bytes of records and `PATIENCE_S` seconds, and says so where that cuts it short.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from heapq import heappop, heappush
from typing import Final, TypeAlias, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Message, TopicPartition
from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf import json_format, message
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from daggerspec.exactjson import dumps
from daggerspec.nearest import nearest
from kafkaclient.tail import bounds, is_end
from runtime import framed
from runtime.clients import kafka
from runtime.decode import damage, fit
from runtime.encode import protobuf
from runtime.encode.readback import from_message

ROOM: Final = 8 * 1024 * 1024
PATIENCE_S: Final = 15.0
STEP_BYTES: Final = 1024 * 1024
MAX_JSON: Final = 256 * 1024
MAX_KEY: Final = 1024
_METADATA_S: Final = 5.0
_RATE_S: Final = 60
_PROGRESS_S: Final = 0.2
_FURTHER: Final = 8
# Little is read ahead, and an end that has no record is reported soon.
READING: Final = {"queued.max.messages.kbytes": 16_384, "fetch.wait.max.ms": 50, "fetch.queue.backoff.ms": 5}
_AT_ONCE: Final = 10
_Step = gateway_pb2.SampleStreamResponse
Partition: TypeAlias = tuple[str, int]


def main() -> int:
    """Read and write frames; return 0."""
    parser = argparse.ArgumentParser(prog="python -m runtime.samplestream")
    parser.add_argument("--last-records", type=int, required=True)
    count = parser.parse_args().last_records
    return framed.answer_job(
        "records", spec_pb2.JobSpec, lambda job: sample(job.streams[0], job.descriptors, count)
    )


def sample(
    stream: spec_pb2.ResolvedStream,
    descriptors: FileDescriptorSet,
    count: int,
    now: Callable[[], float] = time.time,
) -> Iterator[_Step]:
    """Yield the progress, and then the newest `count` records.

    The first step has the missing topics, the second the rate. Raises: JobError.
    """
    with (
        closing(kafka.consumer(stream.kafka, "daggers-sample", READING)) as consumer,
        kafka.mapping_errors(stream.kafka),
    ):
        kafka_has = consumer.list_topics(timeout=_METADATA_S)
        there = kafka_has.topics
        topics = dict.fromkeys(stream.stream.topics)
        partitions = [
            (name, partition) for name in topics if name in there for partition in there[name].partitions
        ]
        yield _Step(
            missing_topics=missing(list(topics), there),
            partitions=len(partitions) if count else 0,
            kafka_id=kafka_has.cluster_id or "",
        )
        if not count:
            return
        newest = Newest(count)
        since = time.monotonic()
        offsets = {partition: bounds(consumer, TopicPartition(*partition)) for partition in partitions}
        yield _Step(partitions=len(partitions), records_per_second=rate(consumer, offsets, now()))
        for read in newest_of(consumer, offsets, newest, since):
            yield _Step(partitions_read=read, partitions=len(partitions))
    kind = protobuf.message_class(descriptors.SerializeToString(deterministic=True), stream.stream.message)
    yield from steps((record(row, kind) for row in newest.records()), newest.cut)


def missing(topics: Sequence[str], there: Iterable[str]) -> list[gateway_pb2.MissingTopic]:
    """List the topics that are not there, each with the name that was probably meant."""
    existing = set(there)
    candidates = {name for name in existing if not name.startswith("__")}  # Kafka's own
    return [
        gateway_pb2.MissingTopic(topic=topic, suggestion=nearest(topic, candidates) or "")
        for topic in topics
        if topic not in existing
    ]


def rate(consumer: Consumer, offsets: Mapping[Partition, tuple[int, int]], now: float) -> float:
    """Return records a second of the minute before `now`, in seconds since 1970.

    `offsets`: first and end offset of each partition.
    """
    since = [TopicPartition(*row, int((now - _RATE_S) * 1000)) for row in offsets]
    firsts = consumer.offsets_for_times(since, timeout=_METADATA_S) if since else []
    # Where nothing is as late there is no offset, and a negative number in its place.
    come = (offsets[first.topic, first.partition][1] - first.offset for first in firsts if first.offset >= 0)
    return sum(come) / _RATE_S


class Newest:
    """Collects the newest of all records, by their Kafka timestamps; bounded in count and bytes."""

    def __init__(self, count: int, room: int = ROOM) -> None:
        self.count, self._room = count, room
        self.cut = ""
        """Reason why there may be newer or further ones; empty when all that are wanted are here."""
        self._heap: list[tuple[tuple[int, str, int, int], int, Message]] = []
        self._size = 0

    def take(self, read: Message) -> None:
        """Add a record; the oldest makes room."""
        size = len(read.value() or b"") + len(read.key() or b"")
        heappush(self._heap, (_age(read), size, read))
        self._size += size
        crowded = self._size > self._room and len(self._heap) > 1
        if crowded and len(self._heap) <= self.count:
            self.cut = f"further records are left out: these have {self._room // 1024**2} MiB"
        while len(self._heap) > self.count or (self._size > self._room and len(self._heap) > 1):
            self._size -= heappop(self._heap)[1]

    def records(self) -> list[Message]:
        """Return the records, the newest first."""
        return [row for _, _, row in sorted(self._heap, key=lambda entry: entry[0], reverse=True)]


def _age(read: Message) -> tuple[int, str, int, int]:
    return read.timestamp()[1], *_place(read), read.offset() or 0


def newest_of(
    consumer: Consumer, offsets: Mapping[Partition, tuple[int, int]], newest: Newest, since: float
) -> Iterator[int]:
    """Add the last records of each partition to `newest`; yield now and then how many are read to their end.

    `offsets`: first and end offset of each partition; `since`: their time, by `time.monotonic`. Where
    offsets hold no records (a compacted topic, transactions), it goes further back.
    """
    deadline = since + PATIENCE_S
    lows = {row: low for row, (low, high) in offsets.items() if low < high}
    ends = {partition: offsets[partition][1] for partition in lows}
    counts, reach = dict.fromkeys(ends, 0), newest.count
    while ends and time.monotonic() < deadline:
        starts = {row: max(lows[row], end - reach) for row, end in ends.items()}
        for read in _between(consumer, starts, ends, deadline):
            if isinstance(read, int):
                yield len(offsets) - len(ends) + read
            else:
                counts[_place(read)] += 1
                newest.take(read)
        short = [row for row, start in starts.items() if counts[row] < newest.count and start > lows[row]]
        ends, reach = {partition: starts[partition] for partition in short}, reach * _FURTHER
    if time.monotonic() >= deadline:
        newest.cut = f"not everything could be read in {PATIENCE_S:.0f} s: there may be newer records"
    yield len(offsets) - len(ends)


def _between(
    consumer: Consumer, starts: Mapping[Partition, int], ends: Mapping[Partition, int], deadline: float
) -> Iterator[Message | int]:
    """Yield the records of partitions from their starts to before their ends, and how many are done."""
    consumer.assign([TopicPartition(*row, start) for row, start in starts.items()])
    unread, reported_at = set(starts), time.monotonic()
    while unread and time.monotonic() < deadline:
        for read in consumer.consume(_AT_ONCE, timeout=0.1):
            row, offset = _place(read), read.offset() or 0
            if is_end(read):
                unread.discard(row)
                continue
            if offset < ends[row]:
                yield read
            if offset >= ends[row] - 1:
                unread.discard(row)
        if time.monotonic() - reported_at > _PROGRESS_S:
            reported_at = time.monotonic()
            yield len(starts) - len(unread)


def _place(read: Message) -> Partition:
    return read.topic() or "", read.partition() or 0


def record(read: Message, kind: type[message.Message]) -> gateway_pb2.SampledRecord:
    """Build a record as people see it."""
    value, (topic, partition) = read.value(), _place(read)
    sampled = gateway_pb2.SampledRecord(
        topic=topic,
        partition=partition,
        offset=read.offset() or 0,
        key=bytes(read.key() or b"")[:MAX_KEY],
        size=len(value or b""),
        mismatch=is_another(value or b"", kind),
        unknown=fit.unknown(value or b"", kind),
    )
    kind_of_time, milliseconds = read.timestamp()
    if kind_of_time != TIMESTAMP_NOT_AVAILABLE:
        sampled.time.FromMilliseconds(milliseconds)
    text, problem = content(value, kind)
    if problem:
        sampled.problem = problem
    else:
        sampled.json = text
    return sampled


def is_another(value: bytes, kind: type[message.Message]) -> bool:
    """Tell whether a value is no such message. Most decode as most others do: as unknown fields."""
    try:
        return bool(value) and not kind.FromString(value).ListFields()
    except message.DecodeError:
        return True


def content(value: bytes | None, kind: type[message.Message]) -> tuple[str, str]:
    """Return the JSON of a value, or why there is none."""
    descriptor = cast(Descriptor, kind.DESCRIPTOR)
    name = descriptor.full_name
    if value is None:
        return "", "it has no value (a tombstone)"
    try:
        text = dumps(from_message(kind.FromString(value)))
    except message.DecodeError:
        before = damage.prefix(value, descriptor)
        whole = f"; what stands before the damage: {before}" if before else ""
        return "", f"it does not decode as {name}{whole}"
    except (json_format.Error, TypeError, ValueError, RecursionError) as error:
        return "", f"it decodes as {name}, but a value of it has no JSON: {error}"
    if len(text) > MAX_JSON:
        return "", f"it decodes as {name}, and its JSON has {len(text):,} characters: {MAX_JSON:,} are shown"
    return text, ""


def steps(records: Iterable[gateway_pb2.SampledRecord], cut: str) -> Iterator[_Step]:
    """Yield the records in messages that a client takes; the first one says what was cut."""
    step, size = _Step(cut=cut), 0
    for row in records:
        if step.records and size + row.ByteSize() > STEP_BYTES:
            yield step
            step, size = _Step(), 0
        step.records.append(row)
        size += row.ByteSize()
    yield step


if __name__ == "__main__":
    sys.exit(main())
