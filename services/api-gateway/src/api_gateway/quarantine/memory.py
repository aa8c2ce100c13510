"""A topic of records that were set aside, in memory: for tests. Passes the contract that Kafka's does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from api_gateway.quarantine.topic import Bounds, Message, TopicReader

_POLL_S: Final = 0.05


class MemoryQuarantine:
    """A topic that lives as long as its object; for one event loop."""

    def __init__(self, partitions: int = 2) -> None:
        self.partitions: list[list[Message]] = [[] for _ in range(partitions)]
        self.first = [0] * partitions
        """What retention has left of each."""

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
        held = self.partitions[partition]
        held.append(Message(partition, len(held), time_ms, key, headers, value))

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[TopicReader, None]:
        """As `QuarantineTopic.opened`."""
        yield _MemoryReader(self)

    async def append(
        self, partition: int, key: bytes, headers: Sequence[tuple[str, bytes]], value: bytes
    ) -> None:
        """As `QuarantineTopic.append`."""
        self.place(partition, key, headers, value, time_ms=round(time.time() * 1_000))


class _MemoryReader:
    def __init__(self, topic: MemoryQuarantine) -> None:
        self._topic = topic
        self._at = [0] * len(topic.partitions)

    async def bounds(self) -> Mapping[int, Bounds]:
        topic = self._topic
        return {
            number: Bounds(topic.first[number], len(held)) for number, held in enumerate(topic.partitions)
        }

    def seek(self, partition: int, offset: int) -> None:
        self._at[partition] = offset

    async def read(self) -> Sequence[Message]:
        messages: list[Message] = []
        for number, held in enumerate(self._topic.partitions):
            messages += held[max(self._at[number], self._topic.first[number]) :]
            self._at[number] = len(held)
        if not messages:
            await asyncio.sleep(_POLL_S)
        return messages
