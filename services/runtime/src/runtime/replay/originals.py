"""Records as they stand in the topics that a dagger reads."""

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
from runtime.errors import JobError
from runtime.replay import reading
from runtime.replay.topic import READER
from runtime.source.offsets import Partition
from runtime.source.planner.broker import Broker
from runtime.source.records import NO_TIME

Source: TypeAlias = tuple[Partition, int]
"""Partition and offset of a record."""


@dataclass(frozen=True, slots=True)
class Original:
    """What a record holds."""

    value: bytes
    key: bytes | None
    time_ms: int
    """When it was written; NO_TIME where nobody says."""
    headers: tuple[tuple[str, bytes | None], ...] = ()


def source(record: telemetry_pb2.Quarantined) -> Source:
    """Where a record stood when it was set aside."""
    return Partition(record.topic, record.partition), record.offset


def kept(record: telemetry_pb2.Quarantined) -> Original | None:
    """What the quarantine has of a record; None where that is not all of it."""
    if record.truncated:
        return None
    time_ms = record.record_time.ToMilliseconds() if record.HasField("record_time") else NO_TIME
    return Original(record.value, record.key or None, time_ms)


class Originals:
    """Those of one dagger's streams."""

    def __init__(self, spec: spec_pb2.JobSpec) -> None:
        self._group = spec.spec.consumer_group
        self._streams = {topic: stream for stream in spec.streams for topic in stream.stream.topics}

    def of(self, records: Collection[telemetry_pb2.Quarantined]) -> Mapping[Source, Original]:
        """Of these records those that Kafka still has. Raises: JobError, retryable when it is silent."""
        there: dict[Source, Original] = {}
        by_topic: dict[str, list[telemetry_pb2.Quarantined]] = defaultdict(list)
        for record in records:
            by_topic[record.topic].append(record)
        for topic, some in sorted(by_topic.items()):
            if (stream := self._streams.get(topic)) is not None:
                there |= self._in_topic(stream.kafka, topic, some)
        return there

    def _in_topic(
        self, address: spec_pb2.KafkaAddress, topic: str, records: Collection[telemetry_pb2.Quarantined]
    ) -> dict[Source, Original]:
        known = _id(address, self._group, topic)
        offsets: dict[int, set[int]] = defaultdict(set)
        for record in records:
            if known and record.topic_id in ("", known):  # else the topic was made anew
                offsets[record.partition].add(record.offset)
        there: dict[Source, Original] = {}
        with (
            kafka.explained(address),
            closing(kafka.consumer(address, self._group, READER)) as consumer,
        ):
            for number, wanted in sorted(offsets.items()):
                low, _ = bounds(consumer, TopicPartition(topic, number))
                for offset, message in reading.some(consumer, topic, number, sorted(wanted), low):
                    if message is not None:
                        there[Partition(topic, number), offset] = _original(message)
        return there


def _id(address: spec_pb2.KafkaAddress, group: str, topic: str) -> str:
    """The topic's id; empty where there is no such topic."""
    with closing(Broker(kafka.client_properties(address), group)) as broker:
        try:
            return broker.topics([topic])[topic].id
        except JobError as problem:
            if problem.error.reason == "TOPIC_MISSING":
                return ""
            raise


def _original(message: Message) -> Original:
    kind, time_ms = message.timestamp()
    headers: list[tuple[str, bytes | None]] = message.headers() or []  # type: ignore[assignment]  # of what was read
    written = NO_TIME if kind == TIMESTAMP_NOT_AVAILABLE else time_ms
    return Original(message.value() or b"", message.key(), written, tuple(headers))
