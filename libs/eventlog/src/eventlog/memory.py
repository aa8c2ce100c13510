"""The log in memory, for tests. It passes the contract that Kafka's passes, `testing.LogContract`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from eventlog.log import LogDamaged
from eventlog.record import Draft, Record, read_record


class MemoryLog:
    """Log of one event loop that lives as long as its object."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._grown = asyncio.Event()

    async def append(self, draft: Draft) -> None:
        """Append a record."""
        self.place(draft.headers(), draft.message.SerializeToString(deterministic=True))

    def place(self, headers: list[tuple[str, bytes]], value: bytes) -> None:
        """Append raw headers and bytes, valid or not: any program may write such to a topic."""
        self._records.append(read_record(len(self._records), headers, value))
        self._grown.set()
        self._grown = asyncio.Event()

    async def replay(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """Yield the records with sequence > since that the log holds now. Raises: LogDamaged."""
        for sequence in range(self._start(since), len(self._records)):
            yield self._records[sequence]

    async def follow(self, since: int = -1) -> AsyncGenerator[Record, None]:
        """Yield the records with sequence > since, then new ones for ever. Raises: LogDamaged."""
        sequence = self._start(since)
        while True:
            while sequence < len(self._records):
                yield self._records[sequence]
                sequence += 1
            await self._grown.wait()

    async def read(self, sequences: Sequence[int]) -> list[Record]:
        """Read the records at these sequences, in this order. Raises: LogDamaged behind the end."""
        return [self._records[self._start(sequence) - 1] for sequence in sequences]

    async def end(self) -> int:
        """Return the sequence of the last record; -1 for an empty log."""
        return len(self._records) - 1

    def _start(self, since: int) -> int:
        if since >= len(self._records):
            raise LogDamaged(
                f"the log ends at {len(self._records) - 1}, but {since} was read before: it lost records"
            )
        return max(since, -1) + 1
