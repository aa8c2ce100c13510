"""Follow the heartbeats topic into the minute sums of each dagger.

They are in memory, 69 KB a dagger, and saved each minute: a start reads the heartbeats since the last save. A
minute has the same numbers whether they were heard as they came or read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from daggers.v1 import telemetry_pb2
from sqlalchemy.exc import SQLAlchemyError

from api_gateway.state.database import in_thread
from api_gateway.state.eviction import Eviction
from api_gateway.state.fold import Fold
from api_gateway.state.minute_table import Block, MinuteTable
from chassis.logging import logger
from eventlog.tail import Arrival
from fleet import Dagger
from fleet.health.minutes import HOUR, MINUTES, MinuteSums, minute_of, newest_in

_SAVE_EVERY_S: Final = 60.0
# Minutes before the last save whose heartbeats are read again: the first count has to have one before it.
_BEFORE_MIN: Final = 10
# Calls are answered in between while blocks are read.
_BREATHER: Final = 100


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class _Entry:
    """The sums of one dagger."""

    created: int
    sums: MinuteSums = field(default_factory=MinuteSums)
    unsaved: int | None = None
    """First minute that changed since the last save; None where none did."""


class MinuteCache:
    """The minute sums of a fleet. For one event loop."""

    def __init__(self, fold: Fold, table: MinuteTable, clock: Callable[[], datetime] = _utc_now) -> None:
        self._fold, self._table, self._now = fold, table, clock
        self._entries: dict[str, _Entry] = {}
        self._eviction = Eviction()
        self.since = datetime.fromtimestamp(0, UTC)
        """From when on heartbeats are read, or were read last."""

    def sums_of(self, dagger: Dagger) -> MinuteSums:
        """Return the sums of a dagger; empty ones where nothing was heard of it."""
        entry = self._entries.get(dagger.name)
        return entry.sums if entry is not None and entry.created == dagger.create_sequence else MinuteSums()

    def take(self, arrival: Arrival) -> None:
        """Apply a record of the topic."""
        message, now = arrival.record.message, self._now()
        # A writer's clock that is ahead skips nothing.
        self.since = max(self.since, min(arrival.record.time, now))
        if not isinstance(message, telemetry_pb2.Heartbeat):
            return
        dagger = self._fold.fleet.living(message.dagger)
        if dagger is None or message.generation <= dagger.create_sequence:
            return
        entry = self._entry_of(dagger)
        # By the record's own time: whoever reads it again puts it into the same minute.
        entry.sums.add(message, min(arrival.record.time, now))
        newest = entry.sums.newest
        if newest >= 0:
            entry.unsaved = newest if entry.unsaved is None else min(entry.unsaved, newest)

    async def load(self) -> None:
        """Read what was saved, and decide from when on heartbeats are read again."""
        now = minute_of(self._now())
        first, saved = now - MINUTES + 1, -1
        try:
            saved = await self._load_since(first // HOUR)
        except SQLAlchemyError as error:
            logger().warning(
                "minutes.load_failed", why=type(error).__name__, then="heartbeats are read again"
            )
        begin = max(first, saved - _BEFORE_MIN)
        self.since = datetime.fromtimestamp(0, UTC) + timedelta(minutes=begin)

    async def _load_since(self, hour: int) -> int:
        """Read the saved blocks from an hour on, one hour after the other; return the minute of the last
        save, -1 where there was none. Raises: SQLAlchemyError.
        """
        hours = await in_thread(lambda: self._table.hours(hour))
        if not hours:
            return -1
        # All are saved together, so the newest minute of any is that of the last save.
        newest = await in_thread(lambda: self._table.read(hours[-1]))
        saved = max([newest_in(block.hour, block.data) for block in newest], default=-1)
        for earlier in hours[:-1]:
            await self._restore(await in_thread(partial(self._table.read, earlier)), saved)
        await self._restore(newest, saved)
        return saved

    async def _restore(self, blocks: Sequence[Block], saved: int) -> None:
        """Take in the blocks of an hour."""
        for number, block in enumerate(blocks):
            if number % _BREATHER == 0:
                await asyncio.sleep(0)
            dagger = self._fold.fleet.living(block.dagger)
            if dagger is not None and dagger.create_sequence == block.created:
                # The newest minute may have been saved before it was over: it is read again.
                self._entry_of(dagger).sums.restore(block.hour, block.data, before=saved)

    async def save(self) -> None:
        """Write the hours that changed since the last save. Raises: SQLAlchemyError."""
        blocks, saved = [], []
        for name, entry in self._entries.items():
            if entry.unsaved is None:
                continue
            saved.append((entry, entry.unsaved))
            # a writer's clock may have been wrong for long: older minutes are in no ring
            first = max(entry.unsaved, entry.sums.newest - MINUTES + 1)
            hours = range(first // HOUR, entry.sums.newest // HOUR + 1)
            blocks += [Block(name, hour, entry.created, entry.sums.block(hour)) for hour in hours]
            entry.unsaved = None
        before = (minute_of(self._now()) - MINUTES + 1) // HOUR
        try:
            await in_thread(lambda: self._table.write(blocks, before_hour=before))
        except BaseException:
            for entry, unsaved in saved:
                entry.unsaved = unsaved if entry.unsaved is None else min(unsaved, entry.unsaved)
            raise

    async def keep_saving(self) -> None:
        """Save each minute until cancelled, and log the first failure of an outage."""
        failed = False
        while True:
            await asyncio.sleep(_SAVE_EVERY_S)
            try:
                await self.save()
                failed = False
            except SQLAlchemyError as error:
                if not failed:
                    logger().warning("minutes.save_failed", why=type(error).__name__)
                failed = True

    def _entry_of(self, dagger: Dagger) -> _Entry:
        entry = self._entries.get(dagger.name)
        if entry is None or entry.created != dagger.create_sequence:
            self._eviction.make_room(self._entries, self._fold.fleet)
            entry = self._entries[dagger.name] = _Entry(dagger.create_sequence)
        return entry
