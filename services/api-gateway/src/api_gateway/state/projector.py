"""Write the fold's changes to the projection, one transaction at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from api_gateway.state.fold import Fold
from api_gateway.state.projection import Projection
from api_gateway.state.rows import build_change
from chassis.logging import logger
from eventlog.follower import Follower
from fleet import ApplyResult
from fleet.snapshot.entries import ChangeSet

_RETRY_S: Final = 1.0
# Changes gather for one transaction while no call waits to read them: a transaction costs as much as
# a hundred rows. Beyond _ENOUGH records building the rows would delay calls by some milliseconds.
_ENOUGH: Final = 200
_GATHER_S: Final = 0.5


class Projector:
    """Writes changes of the fold, and wakes the calls that wait to read them."""

    def __init__(
        self, follower: Follower[ApplyResult], fold: Fold, projection: Projection, *, applied: int
    ) -> None:
        """applied: sequence of the fold's snapshot; -1 of a fold that begins with the log."""
        self.sequence = applied
        """Sequence of the log that the tables hold."""
        self.failure = ""
        """Why the tables do not follow at the moment; empty while they do."""
        self._follower = follower
        self._fold = fold
        self._projection = projection
        self._moved = asyncio.Event()
        self._wanted = False
        self._finishing = False

    async def run(self, *, since: int) -> None:
        """Write until `finish`. Waits first for the fold to reach `since`, since a restored fold may be
        behind the tables.
        """
        await self._until_news(since - 1)
        written, changes = self.sequence, self._fold.take_changes()
        while True:
            fleet = self._fold.fleet
            rows = build_change(self._fold, changes)
            try:
                if self.failure:  # another gateway, or a person, may have dropped the tables
                    await asyncio.to_thread(self._projection.prepare)
                is_written = await asyncio.to_thread(self._projection.write, rows, before=written)
            except SQLAlchemyError as error:
                is_written = False
                self._report(f"the gateway's database does not answer ({type(error).__name__})")
                if self._finishing:
                    return
                await asyncio.sleep(_RETRY_S)
            if not is_written:  # the database's content is unknown now: write everything
                self._fold.take_changes()
                changes = ChangeSet()
                continue
            written = self.sequence = rows.applied.sequence
            self._report("")
            await self._until_news(written)
            if fleet.sequence == written:
                return
            await self._until_wanted(written)
            changes = self._fold.take_changes()

    def finish(self) -> None:
        """Let `run` write what is folded already, and return."""
        self._finishing = True
        self._follower.wake()

    async def _until_news(self, written: int) -> None:
        await self._follower.until(lambda: self._follower.sequence > written or self._finishing)

    async def _until_wanted(self, written: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_GATHER_S):
                await self._follower.until(
                    lambda: self._wanted or self._finishing or self._follower.sequence - written >= _ENOUGH
                )
        self._wanted = False

    async def wait_for(self, sequence: int) -> None:
        """Wait until the tables hold `sequence`, or have failed."""
        while self.sequence < sequence and not self.failure:
            if not self._wanted:
                self._wanted = True
                self._follower.wake()
            await self.wait_for_write()

    async def wait_for_write(self) -> None:
        """Wait for the next write, successful or failed."""
        await self._moved.wait()

    def _report(self, failure: str) -> None:
        if failure and not self.failure:
            logger().error("projection.failed", detail=failure)
        self.failure = failure
        self._moved.set()
        self._moved = asyncio.Event()
