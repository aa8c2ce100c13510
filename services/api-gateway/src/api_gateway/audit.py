"""`daggers.audit`: who read what tenants' records say, and who was refused. It never holds a call up.

What Kafka does not take yet waits in memory; beyond so many the oldest are lost, and counted.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Final, TypeAlias

from daggers.v1 import audit_pb2

from chassis.logging import logger
from eventlog import Draft, Log, LogError

_ROOM: Final = 10_000
_RETRY_S: Final = 1.0

Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Log]]


class Audit:
    """Writes what it is told, in order. Without a log it is told for nothing: the calls' own lines say it."""

    def __init__(
        self,
        opened: Opened | None,
        source: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        room: int = _ROOM,
    ) -> None:
        """`opened` opens the log; `source`: ce_source of what it writes; `room`: how much waits for Kafka."""
        self.lost = 0
        """Records that there was no room for."""
        self._opened, self._source, self._clock, self._room = opened, source, clock, room
        self._waiting: deque[Draft] = deque()
        self._told = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()

    def tell(self, call: audit_pb2.CallAudited) -> None:
        """Write a record soon."""
        if self._opened is None:
            return
        if len(self._waiting) >= self._room:
            self._waiting.popleft()
            self.lost += 1
        subject = call.subject or call.method
        self._waiting.append(Draft(uuid.uuid4().hex, self._source, subject, self._clock(), call))
        self._written.clear()
        self._told.set()

    async def run(self) -> None:
        """Write for ever. What the log refuses is tried again: a gateway that may not write there serves."""
        why = ""
        while self._opened is not None:
            try:
                async with self._opened() as log:
                    await self._write(log)
            except LogError as error:
                if str(error) != why:
                    why = str(error)
                    logger().warning("audit_waits", why=why, waiting=len(self._waiting), lost=self.lost)
                await asyncio.sleep(_RETRY_S)

    async def _write(self, log: Log) -> None:
        while True:
            while self._waiting:
                draft = self._waiting[0]
                await log.append(draft)
                if self._waiting[0] is draft:  # else it was pushed out meanwhile
                    self._waiting.popleft()
            self._written.set()
            await self._told.wait()
            self._told.clear()

    async def written(self, patience_s: float) -> None:
        """Wait until all that it was told is written, for so many seconds at most."""
        try:
            async with asyncio.timeout(patience_s):
                await self._written.wait()
        except TimeoutError:
            logger().error("audit_lost", records=self.lost + len(self._waiting))
