"""Fetch quarantined records again from the topics that the dagger reads, where Kafka still has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TypeAlias

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message, TopicPartition
from daggers.v1 import spec_pb2, telemetry_pb2

from kafkaclient.tail import bounds
from runtime.clients import kafka
from runtime.clients import offsets_reading as reading
from runtime.errors import JobError
from runtime.replay.topic import READER
from runtime.source.offsets import Partition
from runtime.source.planner.broker import Broker
from runtime.source.records import NO_TIME

Source: TypeAlias = tuple[Partition, int]
"""Partition and offset of a record in its topic."""


@dataclass(frozen=True, slots=True)
class Original:
    """Content of a record: what the decoder reads of it."""

    value: bytes
    key: bytes | None
    time_ms: int
    """Kafka's timestamp in ms; NO_TIME for a record without."""
    headers: tuple[tuple[str, bytes | None], ...] = ()


def source_of(record: telemetry_pb2.Quarantined) -> Source:
    """Return where the record stood in its topic."""
    return Partition(record.topic, record.partition), record.offset


def original_in_quarantine(record: telemetry_pb2.Quarantined) -> Original | None:
    """Return the copy of a record in the quarantine; None where that is truncated."""
    if record.truncated:
        return None
    time_ms = record.record_time.ToMilliseconds() if record.HasField("record_time") else NO_TIME
    return Original(record.value, record.key or None, time_ms)


class Originals:
    """Fetches records from the streams of one dagger."""

    def __init__(self, spec: spec_pb2.JobSpec) -> None:
        self._group = spec.spec.consumer_group
        self._streams = {topic: stream for stream in spec.streams for topic in stream.stream.topics}

    def fetch(self, records: Collection[telemetry_pb2.Quarantined]) -> Mapping[Source, Original]:
        """Fetch these records by their source; those that Kafka has deleted are missing.

        Raises: JobError, retryable when Kafka does not answer.
        """
        there: dict[Source, Original] = {}
        by_topic: dict[str, list[telemetry_pb2.Quarantined]] = defaultdict(list)
        for record in records:
            by_topic[record.topic].append(record)
        for topic, of_topic in sorted(by_topic.items()):
            if (stream := self._streams.get(topic)) is not None:
                there |= self._fetch_from(stream.kafka, topic, of_topic)
        return there

    def _fetch_from(
        self, address: spec_pb2.KafkaAddress, topic: str, records: Collection[telemetry_pb2.Quarantined]
    ) -> dict[Source, Original]:
        topic_id = _fetch_topic_id(address, self._group, topic)
        offsets: dict[int, set[int]] = defaultdict(set)
        for record in records:
            # another id: the topic was recreated, and the offset names another record
            if topic_id and record.topic_id in ("", topic_id):
                offsets[record.partition].add(record.offset)
        there: dict[Source, Original] = {}
        with (
            kafka.mapping_errors(address),
            closing(kafka.consumer(address, self._group, READER)) as consumer,
        ):
            for number, wanted in sorted(offsets.items()):
                low, _ = bounds(consumer, TopicPartition(topic, number))
                for offset, message in reading.read_offsets(consumer, topic, number, sorted(wanted), low):
                    if message is not None:
                        there[Partition(topic, number), offset] = _original_of(message)
        return there


def _fetch_topic_id(address: spec_pb2.KafkaAddress, group: str, topic: str) -> str:
    """Return the id of the topic; empty where there is no such topic."""
    with closing(Broker(kafka.client_properties(address), group)) as broker:
        try:
            return broker.topics([topic])[topic].id
        except JobError as problem:
            if problem.error.reason == "TOPIC_MISSING":
                return ""
            raise


def _original_of(message: Message) -> Original:
    kind, time_ms = message.timestamp()
    headers: list[tuple[str, bytes | None]] = message.headers() or []  # type: ignore[assignment]  # of what was read
    if kind == TIMESTAMP_NOT_AVAILABLE:
        time_ms = NO_TIME
    return Original(message.value() or b"", message.key(), time_ms, tuple(headers))
