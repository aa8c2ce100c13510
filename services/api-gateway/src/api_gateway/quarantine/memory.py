"""A quarantine topic in memory, for tests. It passes the contract that Kafka's passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from api_gateway.quarantine.topic import Message, PartitionBounds, TopicReader

_POLL_S: Final = 0.05


class MemoryQuarantine:
    """A topic that lives as long as its object; for one event loop."""

    def __init__(self, partitions: int = 2) -> None:
        self.partitions: list[list[Message]] = [[] for _ in range(partitions)]
        self.first = [0] * partitions
        """First offset of each partition after retention."""

    def place(
        self,
        partition: int,
        key: bytes,
        headers: Sequence[tuple[str, bytes]],
        value: bytes,
        *,
        time_ms: int,
    ) -> None:
        """Write a record."""
        messages = self.partitions[partition]
        messages.append(Message(partition, len(messages), time_ms, key, headers, value))

    @asynccontextmanager
    async def open_reader(self) -> AsyncGenerator[TopicReader, None]:
        """Open a reader of this object."""
        yield _MemoryReader(self)

    async def append(
        self, partition: int, key: bytes, headers: Sequence[tuple[str, bytes]], value: bytes
    ) -> None:
        """Write a record with the time of now."""
        self.place(partition, key, headers, value, time_ms=round(time.time() * 1_000))


class _MemoryReader:
    def __init__(self, topic: MemoryQuarantine) -> None:
        self._topic = topic
        self._offsets = [0] * len(topic.partitions)

    async def bounds(self) -> Mapping[int, PartitionBounds]:
        topic = self._topic
        return {
            number: PartitionBounds(topic.first[number], len(messages))
            for number, messages in enumerate(topic.partitions)
        }

    def seek(self, partition: int, offset: int) -> None:
        self._offsets[partition] = offset

    async def read(self) -> Sequence[Message]:
        messages: list[Message] = []
        for number, stored in enumerate(self._topic.partitions):
            messages += stored[max(self._offsets[number], self._topic.first[number]) :]
            self._offsets[number] = len(stored)
        if not messages:
            await asyncio.sleep(_POLL_S)
        return messages
