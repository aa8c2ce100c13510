"""`daggers.audit`: who read what tenants' records say, who was refused, who failed to log in.

Refusals hold no call up: what Kafka does not take yet waits in memory; beyond so many the oldest are lost,
and counted. What shows records of tenants is answered only once its own record is written: see `write`.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TypeAlias

from daggers.v1 import audit_pb2

from api_gateway.auth.audit_counts import Counts
from chassis.logging import logger
from eventlog import Draft, Log, LogError, RecordTooLarge

PATIENCE_S: Final = 5.0
"""How long a read waits for its record to be written, in seconds."""
OPENING_S: Final = 30.0
"""The same before the log was first opened: a gateway that has just begun may be quicker than its topic."""
_ROOM: Final = 10_000
_RETRY_S: Final = 1.0
_TURN_S: Final = 5.0
_AT_ONCE: Final = 100

Opened: TypeAlias = Callable[[], AbstractAsyncContextManager[Log]]


class AuditAway(Exception):  # noqa: N818 - reads as what happened
    """The audit takes no record now; says why, in one clause."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    draft: Draft
    written: asyncio.Future[None] | None
    """Who waits for it."""


class Audit:
    """Writes what it is told, in order. Without a log it is told for nothing: the calls' own lines say it."""

    def __init__(
        self,
        opened: Opened | None,
        source: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        room: int = _ROOM,
        *,
        patience_s: float = PATIENCE_S,
        opening_s: float = OPENING_S,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """`opened` opens the log; `source`: ce_source of what it writes; `room`: how much waits for Kafka;
        `patience_s`, `opening_s`: as the constants say; `seconds` go on.
        """
        self.lost = 0
        """Records that there was no room for."""
        self.away = ""
        """Why records are not written now; empty while they are."""
        self._opened, self._source, self._clock, self._room = opened, source, clock, room
        self._patience_s, self._opening_s, self._seconds = patience_s, opening_s, seconds
        self._was_open = False
        self._counts = Counts()
        self._waiting: dict[str, _Waiting] = {}
        self._told = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()

    def tell(self, call: audit_pb2.CallAudited) -> None:
        """Write a record soon; of many refusals of one caller some, and the number of the rest."""
        if self._opened is None:
            return
        now = self._seconds()
        self._collect(now)
        if self._counts.takes(call, now):
            self._queue(call)

    async def write(self, call: audit_pb2.CallAudited) -> None:
        """Write a record, and return once it is written. Raises: AuditAway; it is not written then."""
        if self._opened is None:
            return
        if self.away:
            raise AuditAway(self.away)
        if len(self._waiting) >= self._room:
            raise AuditAway(f"{self._room} records wait to be written")
        written = asyncio.get_running_loop().create_future()
        name = self._queue(call, written)
        patience_s = self._patience_s if self._was_open else self._opening_s
        try:
            async with asyncio.timeout(patience_s):
                await written
        except TimeoutError:
            self.away = self.away or f"it has not taken a record within {patience_s:g} s"
            raise AuditAway(self.away) from None
        finally:
            if not written.done() or written.cancelled():
                self._waiting.pop(name, None)

    def _queue(self, call: audit_pb2.CallAudited, written: asyncio.Future[None] | None = None) -> str:
        while len(self._waiting) >= self._room:
            # What somebody waits for is not pushed out: whoever waits gives up by themselves, and soon.
            oldest = next((name for name, entry in self._waiting.items() if entry.written is None), None)
            if oldest is None:
                break
            del self._waiting[oldest]
            self.lost += 1
        name = uuid.uuid4().hex
        subject = call.subject or call.method
        self._waiting[name] = _Waiting(Draft(name, self._source, subject, self._clock(), call), written)
        self._written.clear()
        self._told.set()
        return name

    def _collect(self, now: float) -> None:
        for counted in self._counts.over(now):
            self._queue(counted)

    async def run(self) -> None:
        """Write for ever. What the log refuses is tried again: a gateway that may not write there serves."""
        why = ""
        while self._opened is not None:
            try:
                async with self._opened() as log:
                    self.away, self._was_open = "", True
                    await self._write(log)
            except LogError as error:
                self.away = str(error)
                if str(error) != why:
                    why = str(error)
                    logger().warning("audit.delayed", why=why, waiting=len(self._waiting), lost=self.lost)
                await asyncio.sleep(_RETRY_S)

    async def _write(self, log: Log) -> None:
        while True:
            while self._waiting:
                batch = dict(islice(self._waiting.items(), _AT_ONCE))
                appending = [self._append(log, name, entry) for name, entry in batch.items()]
                failed = [why for why in await asyncio.gather(*appending) if why is not None]
                if failed:
                    raise failed[0]
                self.away = ""
            self._written.set()
            with suppress(TimeoutError):
                # Not by wait_for: Python 3.11's loses a cancellation that comes with what it waits for.
                async with asyncio.timeout(_TURN_S):
                    await self._told.wait()
            self._told.clear()
            self._collect(self._seconds())

    async def _append(self, log: Log, name: str, waiting: _Waiting) -> LogError | None:
        """Append a record that waits; why it waits on."""
        try:
            await log.append(waiting.draft)
        except RecordTooLarge as error:  # which waiting does not mend
            self.lost += 1
            logger().error("audit.event_refused", why=str(error))
            if waiting.written is not None and not waiting.written.done():
                waiting.written.set_exception(AuditAway(str(error)))
        except LogError as error:
            return error
        self._waiting.pop(name, None)  # unless it was pushed out meanwhile
        if waiting.written is not None and not waiting.written.done():
            waiting.written.set_result(None)
        return None

    async def written(self, patience_s: float) -> None:
        """Wait until all that it was told is written, for so many seconds at most."""
        self._collect(float("inf"))
        try:
            async with asyncio.timeout(patience_s):
                await self._written.wait()
        except TimeoutError:
            logger().error("audit.events_lost", records=self.lost + len(self._waiting))
