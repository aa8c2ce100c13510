"""Consumers of topics.

A log's knows where it stands and never jumps anywhere by itself; another reads all partitions of a topic.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import CorruptRecordException, KafkaError, OffsetOutOfRangeError

from eventlog.log import LogDamaged, LogUnavailable
from kafkaclient import Connection, SecretUnreadable
from kafkaclient.behind import stop_consumer
from kafkaclient.errors import sentence

Message: TypeAlias = "ConsumerRecord[bytes, bytes]"

REQUEST_TIMEOUT_MS: Final = 10_000
BACKOFF_MS: Final = 500
TEMPORARY: Final = (KafkaError, OSError, TimeoutError)
_POLL_MS: Final = 5_000
_FETCH_BYTES: Final = 8 * 1024 * 1024


def unavailable(connection: Connection, error: BaseException | None) -> LogUnavailable:
    """Kafka does not answer, said in one way."""
    return LogUnavailable(sentence(connection, error))


def client(connection: Connection) -> dict[str, Any]:
    """The configuration of a client. Raises: LogUnavailable when a file of it cannot be read."""
    try:
        return connection.aiokafka()
    except SecretUnreadable as error:
        raise unavailable(connection, error) from error


@asynccontextmanager
async def all_partitions(
    connection: Connection, topic: str, *, begin: Literal["earliest", "latest"]
) -> AsyncGenerator[tuple[AIOKafkaConsumer, list[TopicPartition]]]:
    """A consumer of the partitions that a topic has now, and these; no group, nothing is committed.

    `begin`: where it stands in a partition until told otherwise, and where it goes on when what it was to
    read is gone. Raises, also in the block: KafkaError, OSError, TimeoutError.
    """
    consumer = AIOKafkaConsumer(
        topic,
        **connection.aiokafka(),
        group_id=None,
        auto_offset_reset=begin,
        enable_auto_commit=False,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        retry_backoff_ms=BACKOFF_MS,
    )
    try:
        await consumer.start()
        consumer.unsubscribe()  # its partitions are known now
        numbers = sorted(consumer.partitions_for_topic(topic) or ())
        partitions = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(partitions)
        yield consumer, partitions
    finally:
        await stop_consumer(consumer)


async def offsets_since(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition], instant: datetime
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where in each partition begins what came since then, and where it ends now.

    Raises: KafkaError, OSError, TimeoutError.
    """
    ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
    instant_ms = int(instant.timestamp() * 1000)
    first = await consumer.offsets_for_times(dict.fromkeys(partitions, instant_ms))
    return {
        partition: start.offset if (start := first[partition]) else ends[partition]
        for partition in partitions
    }, ends


class Reader:
    """Reads one partition, without a group. An async context manager. Raises on entering: LogUnavailable."""

    def __init__(
        self, connection: Connection, partition: TopicPartition, *, fetch_bytes: int | None = None
    ) -> None:
        """`fetch_bytes`: how much Kafka gives at once; None: as much as is read soonest."""
        self._connection = connection
        self._partition = partition
        self._fetch_bytes = _FETCH_BYTES if fetch_bytes is None else fetch_bytes
        self._consumer = self._unstarted()

    async def __aenter__(self) -> Self:
        await self._start(self._consumer)
        return self

    async def renew(self, sequence: int) -> None:
        """Read by another consumer from this sequence on, as this one is stuck. Raises: LogUnavailable."""
        fresh, stuck = self._unstarted(), self._consumer
        await self._start(fresh)
        self._consumer = fresh
        self.seek(sequence)
        await stop_consumer(stuck)

    def _unstarted(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **client(self._connection),
            group_id=None,
            auto_offset_reset="none",
            enable_auto_commit=False,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=BACKOFF_MS,
            max_partition_fetch_bytes=self._fetch_bytes,
        )

    async def _start(self, consumer: AIOKafkaConsumer) -> None:
        try:
            await consumer.start()
        except BaseException as error:
            await stop_consumer(consumer)
            if isinstance(error, TEMPORARY):
                raise unavailable(self._connection, error) from error
            raise
        consumer.assign([self._partition])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await stop_consumer(self._consumer)

    async def bounds(self) -> tuple[int, int]:
        """Sequences of the first and the last record; (0, -1) for a new topic. Raises: LogUnavailable."""
        try:
            first = await self._consumer.beginning_offsets([self._partition])
            last = await self._consumer.end_offsets([self._partition])
        except TEMPORARY as error:
            raise unavailable(self._connection, error) from error
        return first[self._partition], last[self._partition] - 1

    def seek(self, sequence: int) -> None:
        """Read from this sequence on."""
        self._consumer.seek(self._partition, sequence)

    async def position(self) -> int:
        """The sequence to be read next."""
        sequence: int = await self._consumer.position(self._partition)
        return sequence

    async def read_to(self, end: int) -> list[Message]:
        """As `read`, of a topic that held the sequence `end`: when nothing came, Kafka is asked for it.

        Raises: LogUnavailable, LogDamaged.
        """
        messages = await self.read()
        if not messages:
            await self.check_end(end)
        return messages

    async def check_end(self, sequence: int) -> None:
        """Raises: LogDamaged when the topic ends before a sequence that was known; LogUnavailable."""
        _, last = await self.bounds()
        if last < sequence:
            raise LogDamaged(f"topic {self._partition.topic} ends at {last}, but {sequence} was read before")

    async def read(self) -> list[Message]:
        """What came next; empty when nothing came for a while. Raises: LogDamaged."""
        topic = self._partition.topic
        try:
            fetched = await self._consumer.getmany(self._partition, timeout_ms=_POLL_MS)
        except OffsetOutOfRangeError as error:
            raise LogDamaged(
                f"topic {topic} no longer holds the sequence to be read next: it lost records"
            ) from error
        except CorruptRecordException as error:
            where = await self.position()
            raise LogDamaged(
                f"topic {topic} is corrupt on the broker's disk at or behind sequence {where}: {error}"
            ) from error
        return [message for messages in fetched.values() for message in messages]
