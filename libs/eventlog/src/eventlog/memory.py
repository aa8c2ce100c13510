"""The log in memory: for tests. Trusted because it passes `testing.LogContract`, as Kafka's does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from eventlog.log import LogDamaged
from eventlog.record import Draft, Record, read_record


class MemoryLog:
    """A log that lives as long as its object; for one event loop."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._grown = asyncio.Event()

    async def append(self, draft: Draft) -> None:
        """Append a record."""
        self.place(draft.headers(), draft.message.SerializeToString(deterministic=True))

    def place(self, headers: list[tuple[str, bytes]], value: bytes) -> None:
        """Append raw headers and bytes, as any program can do to a topic."""
        self._records.append(read_record(len(self._records), headers, value))
        self._grown.set()
        self._grown = asyncio.Event()

    async def replay(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """The records with sequence > since that are there now."""
        for sequence in range(self._start(since), len(self._records)):
            yield self._records[sequence]

    async def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """The records with sequence > since, for ever."""
        sequence = self._start(since)
        while True:
            while sequence < len(self._records):
                yield self._records[sequence]
                sequence += 1
            await self._grown.wait()

    async def read(self, sequences: Sequence[int]) -> list[Record]:
        """The records at these sequences, in this order."""
        return [self._records[self._start(sequence) - 1] for sequence in sequences]

    async def end(self) -> int:
        """Sequence of the last record; -1 when there is none."""
        return len(self._records) - 1

    def _start(self, since: int) -> int:
        if since >= len(self._records):
            raise LogDamaged(
                f"the log ends at {len(self._records) - 1}, but {since} was read before: it lost records"
            )
        return max(since, -1) + 1
