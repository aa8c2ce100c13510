"""Read `daggers.audit` back: one partition, whose oldest records are removed by retention."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from aiokafka import TopicPartition

from eventlog import Record, read_record, topics
from eventlog.memory import MemoryLog
from eventlog.reader import PartitionReader
from kafkaclient import Connection


class AuditReader(Protocol):
    """Reads the topic. Raises, from every method: LogUnavailable, LogDamaged."""

    async def bounds(self) -> tuple[int, int]:
        """Return the sequences of the first and the last record; (0, -1) where the topic is empty."""

    async def read(self, first: int, last: int) -> Sequence[Record]:
        """Return the records with sequences `first` to `last`, both included, in order."""


class AuditTopic(Protocol):
    """The audit topic, which opens readers."""

    def open_reader(self) -> AbstractAsyncContextManager[AuditReader]:
        """Open a reader. Raises: LogUnavailable."""


class KafkaAudits:
    """The audit topic in Kafka."""

    def __init__(self, connection: Connection, topic: str = topics.AUDIT) -> None:
        self._connection, self._topic = connection, topic

    @asynccontextmanager
    async def open_reader(self) -> AsyncGenerator[AuditReader]:
        """Open a consumer of the topic's only partition. Raises: LogUnavailable."""
        async with PartitionReader(self._connection, TopicPartition(self._topic, 0)) as reader:
            yield _KafkaReader(reader)


class _KafkaReader:
    def __init__(self, reader: PartitionReader) -> None:
        self._reader = reader

    async def bounds(self) -> tuple[int, int]:
        return await self._reader.bounds()

    async def read(self, first: int, last: int) -> Sequence[Record]:
        self._reader.seek(first)
        records: list[Record] = []
        while not records or records[-1].sequence < last:
            messages = await self._reader.read_to(last)
            records += [read_record(message.offset, message.headers, message.value) for message in messages]
        return [record for record in records if record.sequence <= last]


class MemoryAudits:
    """The audit topic in memory: for tests, and for a gateway that has no audit topic."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = log or MemoryLog()

    @asynccontextmanager
    async def open_reader(self) -> AsyncGenerator[AuditReader]:
        """Return this object, which is its own reader."""
        yield self

    async def bounds(self) -> tuple[int, int]:
        """Return the bounds of the memory log."""
        return 0, await self._log.end()

    async def read(self, first: int, last: int) -> Sequence[Record]:
        """Read records of the memory log."""
        return await self._log.read(range(first, last + 1))
