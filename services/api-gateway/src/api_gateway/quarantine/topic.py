"""Read and write `daggers.quarantine` in Kafka, whose retention removes the oldest records
of each partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from eventlog import topics
from eventlog.reader import all_partitions
from kafkaclient import Connection
from kafkaclient.behind import Listener

_POLL_MS: Final = 1_000
_MOST: Final = 1_000
_ACK_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Message:
    """One record of the topic."""

    partition: int
    offset: int
    time_ms: int
    """Kafka's timestamp in ms."""
    key: bytes
    headers: Sequence[tuple[str, bytes]]
    value: bytes


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """Offsets of a partition: from `first` to before `end`."""

    first: int
    end: int


class TopicReader(Protocol):
    """Reads the topic from given offsets. Raises, from every method: KafkaError, OSError, TimeoutError."""

    async def bounds(self) -> Mapping[int, PartitionBounds]:
        """Return the offsets of each partition now. May be called while `read` waits."""

    def seek(self, partition: int, offset: int) -> None:
        """Read a partition from this offset on, or from the first record after it."""

    async def read(self) -> Sequence[Message]:
        """Return the next records, those of a partition in order; none where none came for a while.

        Raises, too, where a fresh reader sees records that this one missed.
        """


class QuarantineTopic(Protocol):
    """The quarantine topic, which opens readers."""

    def open_reader(self) -> AbstractAsyncContextManager[TopicReader]:
        """Open a reader of all present partitions. Raises: KafkaError, OSError, TimeoutError."""

    async def append(
        self, partition: int, key: bytes, headers: Sequence[tuple[str, bytes]], value: bytes
    ) -> None:
        """Append a record to the partition of those it is about. Raises: KafkaError,
        OSError, TimeoutError.
        """


class KafkaQuarantine:
    """The quarantine topic in Kafka."""

    def __init__(self, connection: Connection, topic: str = topics.QUARANTINE) -> None:
        self._connection = connection
        self._topic = topic

    @asynccontextmanager
    async def open_reader(self) -> AsyncGenerator[TopicReader, None]:
        """Open a consumer of all present partitions. Raises: KafkaError, OSError, TimeoutError."""
        async with all_partitions(self._connection, self._topic, begin="earliest") as (consumer, partitions):
            yield _KafkaReader(consumer, self._topic, partitions, Listener(self._connection, consumer))

    async def append(
        self, partition: int, key: bytes, headers: Sequence[tuple[str, bytes]], value: bytes
    ) -> None:
        """Append a record by a producer of its own, since calls are rare. Raises: KafkaError, OSError,
        TimeoutError.
        """
        async with asyncio.timeout(_ACK_S):
            producer = AIOKafkaProducer(
                **self._connection.aiokafka(), acks="all", enable_idempotence=True, compression_type="gzip"
            )
            try:
                await producer.start()
                await producer.send_and_wait(
                    self._topic, value, key=key, headers=[*headers], partition=partition
                )
            finally:
                await producer.stop()


class _KafkaReader:
    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        topic: str,
        partitions: Sequence[TopicPartition],
        listener: Listener,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._partitions = partitions
        self._listener = listener

    async def bounds(self) -> Mapping[int, PartitionBounds]:
        # both at once: the broker answers each only after the fetch that `read` waits for
        first, end = await asyncio.gather(
            self._consumer.beginning_offsets(self._partitions), self._consumer.end_offsets(self._partitions)
        )
        return {
            partition.partition: PartitionBounds(first[partition], end[partition])
            for partition in self._partitions
        }

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(TopicPartition(self._topic, partition), offset)

    async def read(self) -> Sequence[Message]:
        fetched = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_MOST)
        await self._listener.check(received=bool(fetched))
        return [
            Message(
                message.partition,
                message.offset,
                message.timestamp,
                message.key or b"",
                message.headers,
                message.value or b"",
            )
            for messages in fetched.values()
            for message in messages
        ]
