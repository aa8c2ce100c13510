"""Consumers of topics, without groups or commits.

`PartitionReader` reads a log: it never resets its offset by itself. `all_partitions` reads any topic whole.
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
    """Build the error of a Kafka that does not answer, so that its text is the same everywhere."""
    return LogUnavailable(sentence(connection, error))


def client(connection: Connection) -> dict[str, Any]:
    """Build the arguments of an aiokafka client. Raises: LogUnavailable if a secret's file is unreadable."""
    try:
        return connection.aiokafka()
    except SecretUnreadable as error:
        raise unavailable(connection, error) from error


@asynccontextmanager
async def all_partitions(
    connection: Connection, topic: str, *, begin: Literal["earliest", "latest"]
) -> AsyncGenerator[tuple[AIOKafkaConsumer, list[TopicPartition]]]:
    """Start a consumer of the partitions that a topic has now; yield it and the partitions.

    `begin`: where it starts in each partition without a seek, and after its offset was deleted. Raises, also
    in the block: KafkaError, OSError, TimeoutError.
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
        consumer.unsubscribe()  # subscribing has fetched the partitions; from here on they are assigned
        numbers = sorted(consumer.partitions_for_topic(topic) or ())
        partitions = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(partitions)
        yield consumer, partitions
    finally:
        await stop_consumer(consumer)


async def offsets_since(
    consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition], instant: datetime
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Look up each partition's first offset since then (its end, if nothing came), and its end now.

    Raises: KafkaError, OSError, TimeoutError.
    """
    ends: dict[TopicPartition, int] = await consumer.end_offsets(partitions)
    instant_ms = int(instant.timestamp() * 1000)
    first = await consumer.offsets_for_times(dict.fromkeys(partitions, instant_ms))
    return {
        partition: start.offset if (start := first[partition]) else ends[partition]
        for partition in partitions
    }, ends


class PartitionReader:
    """Consumer of one partition. An async context manager. Raises on entering: LogUnavailable."""

    def __init__(
        self, connection: Connection, partition: TopicPartition, *, fetch_bytes: int | None = None
    ) -> None:
        """`fetch_bytes`: limit of one fetch; None: the limit that replays a long log fastest."""
        self._connection = connection
        self._partition = partition
        self._fetch_bytes = _FETCH_BYTES if fetch_bytes is None else fetch_bytes
        self._consumer = self._new_consumer()

    async def __aenter__(self) -> Self:
        await self._start(self._consumer)
        return self

    async def renew(self, sequence: int) -> None:
        """Replace a stuck consumer, and read on from this sequence. Raises: LogUnavailable."""
        fresh, stuck = self._new_consumer(), self._consumer
        await self._start(fresh)
        self._consumer = fresh
        self.seek(sequence)
        await stop_consumer(stuck)

    def _new_consumer(self) -> AIOKafkaConsumer:
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
        """Fetch the sequences of the first and last record; (0, -1): a new topic. Raises: LogUnavailable."""
        try:
            first = await self._consumer.beginning_offsets([self._partition])
            last = await self._consumer.end_offsets([self._partition])
        except TEMPORARY as error:
            raise unavailable(self._connection, error) from error
        return first[self._partition], last[self._partition] - 1

    def seek(self, sequence: int) -> None:
        """Read on from this sequence."""
        self._consumer.seek(self._partition, sequence)

    async def position(self) -> int:
        """Return the sequence that is read next."""
        sequence: int = await self._consumer.position(self._partition)
        return sequence

    async def read_to(self, end: int) -> list[Message]:
        """Read the next records of a topic that held the sequence `end`; if none come, check that it does.

        Raises: LogUnavailable, LogDamaged.
        """
        messages = await self.read()
        if not messages:
            await self.check_end(end)
        return messages

    async def check_end(self, sequence: int) -> None:
        """Compare the end with a sequence read before. Raises: LogDamaged if shorter; LogUnavailable."""
        _, last = await self.bounds()
        if last < sequence:
            raise LogDamaged(f"topic {self._partition.topic} ends at {last}, but {sequence} was read before")

    async def read(self) -> list[Message]:
        """Read the next records; empty when none come within _POLL_MS. Raises: LogDamaged."""
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
