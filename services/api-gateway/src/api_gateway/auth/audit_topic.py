"""`daggers.audit` as it is read back: one partition, of which retention takes the oldest records."""

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
        """Sequences of the first record there is and of the last; (0, -1) where there is none."""

    async def read(self, first: int, last: int) -> Sequence[Record]:
        """The records from one sequence to another, both included, in order."""


class AuditTopic(Protocol):
    """The topic, to be opened."""

    def opened(self) -> AbstractAsyncContextManager[AuditReader]:
        """A reader of it. Raises: LogUnavailable."""


class KafkaAudits:
    """The topic in Kafka."""

    def __init__(self, connection: Connection, topic: str = topics.AUDIT) -> None:
        self._connection, self._topic = connection, topic

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[AuditReader]:
        """As `AuditTopic.opened`."""
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
    """The topic in memory: for tests, and for a gateway without one."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log = log or MemoryLog()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[AuditReader]:
        """As `AuditTopic.opened`."""
        yield self

    async def bounds(self) -> tuple[int, int]:
        """As `AuditReader.bounds`."""
        return 0, await self._log.end()

    async def read(self, first: int, last: int) -> Sequence[Record]:
        """As `AuditReader.read`."""
        return await self._log.read(range(first, last + 1))
