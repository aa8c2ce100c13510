"""Read a log's past for many watches: they share what is read, and take turns in sending.

Callers without a role may watch, too. So no watch occupies a consumer of Kafka of its own, the newest parts
are cached for watches that begin at the same record, and only a few watches send at a time: with a hundred,
any other call would wait for a message of each, again and again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from eventlog import Log, Record

_PART_RECORDS: Final = 1_000
_PART_BYTES: Final = 2 * 1024 * 1024
_PARTS: Final = 4
"""Number of cached parts."""
_READ_AT_ONCE: Final = 2
_SEND_AT_ONCE: Final = 2
_TURN_RECORDS: Final = 50
_TURN_S: Final = 0.1
"""Longest turn, in seconds. A watcher that takes longer does not read; its turn ends, and it may continue."""


class PastRecords:
    """The records that a log contains."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._parts: OrderedDict[int, list[Record]] = OrderedDict()
        """Parts by the sequence that each begins behind."""
        self._reading = asyncio.Semaphore(_READ_AT_ONCE)
        self._turns = _Turns()
        self._asking = asyncio.Lock()
        self._next_end: asyncio.Task[int] | None = None

    async def end(self) -> int:
        """Return the log's end; calls that wait share the next answer of Kafka."""
        if self._next_end is None:
            self._next_end = asyncio.create_task(self._end())
        return await asyncio.shield(self._next_end)

    async def _end(self) -> int:
        async with self._asking:
            self._next_end = None  # callers from here on may have appended meanwhile: they need a new answer
            return await self._log.end()

    async def records(self, since: int, up_to: int) -> AsyncGenerator[Record]:
        """Yield the records behind `since` up to the one at `up_to`. Raises: LogUnavailable, LogDamaged."""
        while since < up_to:
            part = await self._part(since, up_to)
            if not part:
                return
            for begin in range(0, len(part), _TURN_RECORDS):
                turn = await self._turns.take()
                try:
                    for record in part[begin : begin + _TURN_RECORDS]:
                        if record.sequence > up_to:
                            return
                        since = record.sequence
                        yield record
                finally:
                    turn.end()

    async def _part(self, since: int, up_to: int) -> list[Record]:
        """Return the next records behind `since`; none where the log ends before `up_to`."""
        async with self._reading:
            if since in self._parts:
                self._parts.move_to_end(since)
                return self._parts[since]
            part: list[Record] = []
            size = 0
            async with aclosing(self._log.replay(since)) as records:
                async for record in records:
                    part.append(record)
                    size += len(record.value)
                    if record.sequence >= up_to or len(part) >= _PART_RECORDS or size >= _PART_BYTES:
                        break
            self._parts[since] = part
            if len(self._parts) > _PARTS:
                self._parts.popitem(last=False)
            return part


class _Turns:
    """Lets a few watches send at a time, in the order of their requests."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(_SEND_AT_ONCE)

    async def take(self) -> _Turn:
        """Wait for a turn."""
        await self._free.acquire()
        return _Turn(self._free)


class _Turn:
    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free: asyncio.Semaphore | None = free
        self._timer = asyncio.get_running_loop().call_later(_TURN_S, self.end)

    def end(self) -> None:
        """End the turn; further calls do nothing."""
        self._timer.cancel()
        if self._free is not None:
            self._free.release()
            self._free = None
