"""The log of one sink: a topic of the platform's Kafka, of one partition, made when it is needed first.

Its name is `daggers.spool.DAGGER.SINK`. What the sink has is deleted from its begin, so the begin is the
position.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from daggers.v1 import spec_pb2

from daggerspec.topics import SPOOL
from kafkaclient.tail import bounds
from runtime.clients import kafka
from runtime.clients import offsets_reading as reading
from runtime.errors import JobError, TemporaryError, external
from runtime.recent import cache_in_use

RECORD_BYTES: Final = 512 * 1024
"""Most bytes of rows in a record, unless one row has more."""
_LARGEST: Final = 8 * 1024 * 1024
"""Largest record that the topic takes: one row, or the marker of a dagger with many messages."""
_PATIENCE_S: Final = 20.0
"""Silence of Kafka that is waited for, in seconds."""
_CONFIG: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str(_LARGEST),
    "segment.bytes": str(64 * 1024 * 1024),
}
_ATTEMPT, _MARKER = "attempt", "marker"


@dataclass(frozen=True, slots=True)
class Record:
    """Record of a log: rows as a stream of Arrow IPC, or a marker."""

    value: bytes
    attempt: str = ""
    """Id of the attempt that appended rows; empty for a marker."""

    @property
    def is_marker(self) -> bool:
        """True for the marker behind the rows of a batch."""
        return not self.attempt


class Log(Protocol):
    """The log of one sink. Every method raises JobError, retryable where Kafka does not answer."""

    def bounds(self) -> tuple[int, int]:
        """Return the offset of the first record, and that behind the last; (0, 0) where there is no log."""

    def create(self) -> None:
        """Make the log, unless there is one."""

    def append(self, records: Sequence[Record]) -> int:
        """Append records in order; return the offset behind the last once all are durable."""

    def read(self, begin: int, end: int) -> Iterator[tuple[int, Record]]:
        """Yield offset and record from `begin` to before `end`."""

    def delete_until(self, offset: int) -> None:
        """Delete what stands before an offset."""

    def delete(self) -> None:
        """Delete the log, if there is one."""


class LogAddress(Protocol):
    """Address of the log of a sink. Picklable: workers append to it."""

    def open(self) -> Log:
        """Open the log."""


@dataclass(frozen=True, slots=True)
class TopicAddress:
    """Topic of one sink."""

    platform: bytes
    """A serialised `KafkaAddress`."""
    topic: str

    def open(self) -> Log:
        """Open the topic's log, the same one in each process."""
        return _open(self.platform, self.topic)


def topic_of(dagger: str, sink: str) -> str:
    """Return the topic of a sink's log."""
    return f"{SPOOL}{dagger}.{sink}"


def find_sinks(platform: spec_pb2.KafkaAddress, dagger: str) -> frozenset[str]:
    """Find the sinks of a dagger that have a log, by their names. Raises: JobError."""
    prefix = topic_of(dagger, "")
    with kafka.mapping_errors(platform):
        topics = kafka.client(AdminClient, kafka.client_properties(platform)).list_topics(timeout=_PATIENCE_S)
    return frozenset(name.removeprefix(prefix) for name in topics.topics if name.startswith(prefix))


class TopicLog:
    """Log of one sink in a topic."""

    def __init__(self, platform: spec_pb2.KafkaAddress, topic: str) -> None:
        self._platform, self._topic = platform, topic
        self._partition = TopicPartition(topic, 0)

    def bounds(self) -> tuple[int, int]:
        """Return the offset of the first record, and that behind the last; (0, 0) where there is no topic."""
        with kafka.mapping_errors(self._platform), closing(self._consumer()) as consumer:
            metadata = consumer.list_topics(self._topic, timeout=_PATIENCE_S).topics[self._topic]
            if metadata.error is not None and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return 0, 0
            return bounds(consumer, self._partition)

    def create(self) -> None:
        """Make the topic, with the replicas that are usual in the cluster, unless there is one."""
        wanted = NewTopic(self._topic, num_partitions=1, config=_CONFIG)
        with kafka.mapping_errors(self._platform):
            for creation in self._admin.create_topics([wanted], operation_timeout=_PATIENCE_S).values():
                try:
                    self._result(creation)
                except KafkaException as refusal:
                    error = refusal.args[0]
                    if error.code() < 0:
                        raise  # no broker has answered
                    if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise _refusal_error(f"Kafka makes no topic {self._topic}", error) from None

    def append(self, records: Sequence[Record]) -> int:
        """Append records in order; return the offset behind the last once Kafka has acknowledged all.

        Raises: JobError; some of them may be there then, and others come later.
        """
        offsets: list[int] = []
        failures: list[KafkaError] = []

        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets.append(message.offset() or 0)
            else:
                failures.append(error)

        with kafka.mapping_errors(self._platform):
            for record in records:
                header = (_ATTEMPT, record.attempt) if record.attempt else (_MARKER, "1")
                self._produce(record.value, header, note)
            left = self._producer.flush(_PATIENCE_S)
        if left or failures:
            self._drop_producer()
        if left:
            raise _unreachable(self._topic)
        if failures:
            raise _refusal_error(f"Kafka takes no rows into {self._topic}", failures[0])
        return max(offsets, default=-1) + 1

    def _produce(self, value: bytes, header: tuple[str, str], note: Any) -> None:
        end = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self._producer.produce(self._topic, value, partition=0, headers=[header], on_delivery=note)
            except BufferError:
                if time.monotonic() > end:
                    self._drop_producer()
                    raise _unreachable(self._topic) from None
                self._producer.poll(1.0)
            else:
                self._producer.poll(0)
                return

    def _drop_producer(self) -> None:
        """Give up a producer with all that it has not sent: it may be stuck, or have failed for good."""
        self._producer.purge()
        del self._producer

    def read(self, begin: int, end: int) -> Iterator[tuple[int, Record]]:
        """Yield offset and record from `begin` to before `end`."""
        with kafka.mapping_errors(self._platform), closing(self._consumer()) as consumer:
            for offset, message in reading.read_range(consumer, self._topic, 0, begin, end):
                headers = dict(message.headers() or ())
                attempt = headers.get(_ATTEMPT) or b""
                text = attempt.decode() if isinstance(attempt, bytes) else attempt
                yield offset, Record(message.value() or b"", text)

    def delete_until(self, offset: int) -> None:
        """Delete what stands before an offset."""
        until = TopicPartition(self._topic, 0, offset)
        with kafka.mapping_errors(self._platform):
            for done in self._admin.delete_records([until], request_timeout=_PATIENCE_S).values():
                self._result(done)

    def delete(self) -> None:
        """Delete the topic, if there is one."""
        with kafka.mapping_errors(self._platform):
            for done in self._admin.delete_topics([self._topic], operation_timeout=_PATIENCE_S).values():
                try:
                    self._result(done)
                except KafkaException as refusal:
                    if refusal.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise

    def _result(self, answer: Future[Any]) -> None:
        """Wait for an answer of Kafka. Raises: KafkaException, JobError."""
        try:
            answer.result(_PATIENCE_S)
        except TimeoutError:
            raise _unreachable(self._topic) from None

    @cached_property
    def _admin(self) -> AdminClient:
        return kafka.client(AdminClient, kafka.client_properties(self._platform))

    @cached_property
    def _producer(self) -> Producer:
        properties = {
            **kafka.client_properties(self._platform),
            "acks": "all",
            "enable.idempotence": True,
            "message.max.bytes": _LARGEST,
            "message.timeout.ms": round(_PATIENCE_S * 1000),
            "queue.buffering.max.kbytes": 16 * 1024,
            "compression.type": "lz4",
        }
        return kafka.client(Producer, properties)

    def _consumer(self) -> Any:
        return kafka.consumer(self._platform, "daggers-spool", {"queued.max.messages.kbytes": 4_096})


@cache_in_use
def _open(platform: bytes, topic: str) -> Log:
    return TopicLog(spec_pb2.KafkaAddress.FromString(platform), topic)


def _refusal_error(problem: str, error: KafkaError) -> JobError:
    rights = f"A driver has to create topics of the prefix {SPOOL}, and to write, read and delete there"
    return external("SPOOL_REFUSED", f"{problem}: {error.str()}. {rights}.", retryable=True)


def _unreachable(topic: str) -> JobError:
    return TemporaryError(
        "KAFKA_UNREACHABLE", f"Kafka has not answered about {topic} for {_PATIENCE_S:.0f} s."
    )
