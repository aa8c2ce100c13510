"""Write `daggers.audit`: reads of tenants' records, refused calls, failed logins.

Refusals delay no call: records that Kafka has not accepted wait in memory; beyond a limit the oldest are
dropped, and counted. A call that returns records of tenants is answered only once its own audit record is
written: see `write`.
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
"""Longest time that a read waits for its record to be written, in seconds."""
OPENING_S: Final = 30.0
"""Longest wait, in seconds, until the log was first opened: a new gateway may be ready before its topic."""
_ROOM: Final = 10_000
_RETRY_S: Final = 1.0
_TURN_S: Final = 5.0
_AT_ONCE: Final = 100

OpenLog: TypeAlias = Callable[[], AbstractAsyncContextManager[Log]]


class AuditAway(Exception):  # noqa: N818 - reads as what happened
    """The audit log accepts no record now; the message is one clause with the reason."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    draft: Draft
    written: asyncio.Future[None] | None
    """Resolved when the record is written; None where no call waits for it."""


class Audit:
    """Writes audit records in order. Discards them if no audit log is configured: log lines of calls still
    say who called.
    """

    def __init__(
        self,
        open_log: OpenLog | None,
        source: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        room: int = _ROOM,
        *,
        patience_s: float = PATIENCE_S,
        opening_s: float = OPENING_S,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a writer that is idle until `run`.

        open_log: opens the log. source: `ce_source` of the records. room: the number of records that may wait
        for Kafka. patience_s, opening_s: as the constants PATIENCE_S and OPENING_S. seconds: a monotonic
        clock.
        """
        self.lost = 0
        """Number of records that were dropped for want of room, or that Kafka rejected as too large."""
        self.away = ""
        """Why records are not written now; empty while they are."""
        self._open_log, self._source, self._clock, self._room = open_log, source, clock, room
        self._patience_s, self._opening_s, self._seconds = patience_s, opening_s, seconds
        self._was_open = False
        self._counts = Counts()
        self._waiting: dict[str, _Waiting] = {}
        self._queued = asyncio.Event()
        self._written = asyncio.Event()
        self._written.set()

    def tell(self, call: audit_pb2.CallAudited) -> None:
        """Queue a record without waiting. Of many refusals of one caller some are written, and the number of
        the rest.
        """
        if self._open_log is None:
            return
        now = self._seconds()
        self._collect(now)
        if self._counts.takes(call, now):
            self._queue(call)

    async def write(self, call: audit_pb2.CallAudited) -> None:
        """Write a record and return once Kafka has it. Raises: AuditAway; the record is not written then."""
        if self._open_log is None:
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
            # a record that a call waits for stays: the call removes it when its own wait ends
            oldest = next((name for name, entry in self._waiting.items() if entry.written is None), None)
            if oldest is None:
                break
            del self._waiting[oldest]
            self.lost += 1
        name = uuid.uuid4().hex
        subject = call.subject or call.method
        self._waiting[name] = _Waiting(Draft(name, self._source, subject, self._clock(), call), written)
        self._written.clear()
        self._queued.set()
        return name

    def _collect(self, now: float) -> None:
        for record in self._counts.over(now):
            self._queue(record)

    async def run(self) -> None:
        """Write queued records until cancelled. An error of the log is logged and retried: a gateway without
        write access to the topic still serves.
        """
        last_error = ""
        while self._open_log is not None:
            try:
                async with self._open_log() as log:
                    self.away, self._was_open = "", True
                    await self._write(log)
            except LogError as error:
                self.away = str(error)
                if str(error) != last_error:
                    last_error = str(error)
                    logger().warning(
                        "audit.delayed", why=last_error, waiting=len(self._waiting), lost=self.lost
                    )
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
                # no wait_for: Python 3.11's loses a cancellation that arrives together with the result
                async with asyncio.timeout(_TURN_S):
                    await self._queued.wait()
            self._queued.clear()
            self._collect(self._seconds())

    async def _append(self, log: Log, name: str, waiting: _Waiting) -> LogError | None:
        """Append a waiting record; return the error of the log where it is to be retried."""
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

    async def flush(self, patience_s: float) -> None:
        """Wait until the queue is written, for `patience_s` seconds at most; log the number
        of lost records.
        """
        self._collect(float("inf"))
        try:
            async with asyncio.timeout(patience_s):
                await self._written.wait()
        except TimeoutError:
            logger().error("audit.events_lost", records=self.lost + len(self._waiting))
