"""The control log and its fold, kept together: append a record, and see what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from chassis.logging import logger
from eventlog import Draft, Log, LogDamaged, LogUnavailable, Mark, Record
from fleet import Applied, Fleet

RETRY_S: Final = 1.0


class Fold:
    """Follows a control log into a Fleet. `on_record` is called after each record is applied."""

    def __init__(
        self,
        control: Log,
        on_record: Callable[[Record, Applied], None],
        seen: Mark = Mark(),  # noqa: B008 - a constant
    ) -> None:
        """`seen`: what log was read before, and how far; another one is damage."""
        self.fleet = Fleet()
        self.seen = seen
        self._control = control
        self._on_record = on_record
        self._expected: dict[str, asyncio.Future[tuple[int, Applied]]] = {}
        self._grown = asyncio.Event()

    async def follow(self) -> None:
        """Fold what stands in the log and what comes, for ever. Raises: LogDamaged."""
        while True:
            try:
                async for record in self._control.follow(self.fleet.sequence):
                    self._apply(record)
            except LogUnavailable as error:
                logger().warning("scheduler.log_unavailable", detail=str(error))
                await asyncio.sleep(RETRY_S)

    async def catch_up(self) -> None:
        """Wait until everything is folded that stands in the log now."""
        while True:
            try:
                end = await self._control.end()
                break
            except LogUnavailable as error:
                logger().warning("scheduler.log_unavailable", detail=str(error))
                await asyncio.sleep(RETRY_S)
        while self.fleet.sequence < end:
            await self._grown.wait()

    async def append(self, draft: Draft) -> tuple[int, Applied]:
        """Append a record and read it back: its sequence, and what the fold made of it.

        Repeats it under its id for as long as the log is unavailable. Raises: LogDamaged, RecordTooLarge.
        """
        expected: asyncio.Future[tuple[int, Applied]] = asyncio.get_running_loop().create_future()
        self._expected[draft.id] = expected
        try:
            while not expected.done():
                try:
                    await self._control.append(draft)
                except LogUnavailable as error:
                    logger().warning("scheduler.log_unavailable", detail=str(error))
                    await asyncio.wait([expected], timeout=RETRY_S)
                else:
                    break
            return await expected
        finally:
            del self._expected[draft.id]

    def _apply(self, record: Record) -> None:
        applied = self.fleet.apply(record)
        if record.sequence == self.seen.sequence and self.fleet.mark != self.seen:
            raise LogDamaged(
                f"the control topic was read up to sequence {record.sequence} before, and holds other records"
                " there now: it was made anew, or is another one"
            )
        expected = self._expected.get(record.id)
        if expected is not None and not expected.done():
            expected.set_result((record.sequence, applied))
        self._grown.set()
        self._grown = asyncio.Event()
        self._on_record(record, applied)
