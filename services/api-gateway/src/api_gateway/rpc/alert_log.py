"""The alerts topic as a gateway follows it: the fold, and the records that a gateway appends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from google.protobuf.message import Message

from api_gateway.state.writer import unacknowledged_error
from api_gateway.watch_limits import damage_error
from eventlog import Draft, Log, LogDamaged
from eventlog.follower import Follower
from fleet.alerts.ledger import Ledger


class Alerts:
    """The alerts topic and its fold. A gateway serves calls before the topic is read."""

    def __init__(
        self,
        log: Log,
        *,
        source: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        patience_s: float = 10.0,
    ) -> None:
        """Remember the log.

        source: `ce_source` of records that the gateway appends. clock: now, UTC. patience_s: time that one
        may take to be read back, in seconds.
        """
        self.log, self.clock = log, clock
        self.ledger = Ledger()
        self.follower = Follower(log, self.ledger)
        self._source, self._patience_s = source, patience_s
        self._ready = asyncio.Event()

    async def run(self) -> None:
        """Fold until cancelled. Returns when the log is damaged; the alerts so far stay."""
        reading = asyncio.create_task(self._read_to_end())
        try:
            await self.follower.run()
        except LogDamaged:
            await reading
        finally:
            reading.cancel()

    async def _read_to_end(self) -> None:
        with suppress(LogDamaged):
            await self.follower.catch_up()
        self._ready.set()

    async def wait_for(self, sequence: int) -> None:
        """Wait until the records of the start, and `sequence`, are folded. Raises: LogDamaged."""
        await self._ready.wait()
        await self.follower.wait_for(sequence)

    async def append(self, id_: str, subject: str, message: Message, request_id: str) -> int:
        """Append a record, wait until it is folded, and return the sequence of the first with its id.

        Raises: ApiError, where Kafka does not take it in time: the record may be in the log all the same.
        """
        draft = Draft(id_, self._source, subject, self.clock(), message)
        try:
            async with asyncio.timeout(self._patience_s):
                return (await self.follower.append(draft)).record.sequence
        except TimeoutError as error:
            raise unacknowledged_error(request_id) from error
        except LogDamaged as error:
            raise damage_error(str(error), self.follower.sequence) from error
