"""Watches of rows: one reader looks for all who watch the same rows of a launch.

After each look the reader sends new rows, and all rows where somebody has begun to watch since: `Mailbox` has
what each watcher takes of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from enum import Enum, auto
from pathlib import Path
from typing import Final

from chassis.errors import ApiError
from scheduler.host.reader_process import busy
from scheduler.host.row_reader import SNAPSHOT, RowReader

MOST_WAITING: Final = 64
"""Messages that may wait for a watcher: about as many looks. A slower one begins anew."""


class Watches:
    """The watches of a host, at most `most` readers of them at once."""

    def __init__(self, rows: RowReader, most: int) -> None:
        self._rows = rows
        self._most = most
        self._shared: dict[tuple[Path, str], SharedWatch] = {}

    async def messages(self, run_dir: Path, sink: str) -> AsyncGenerator[bytes, None]:
        """Yield serialised WatchRowsResponses: all rows, then new ones after each look. Raises: ApiError."""
        key = run_dir, sink
        shared = self._shared.get(key)
        if shared is None or shared.over:
            if len(self._shared) >= self._most:
                raise busy(self._most, "watches of rows")
            shared = self._shared[key] = SharedWatch(self._rows, run_dir, sink)
        mailbox = shared.join()
        try:
            while True:
                yield await mailbox.next()
        finally:
            if shared.leave(mailbox) and self._shared.get(key) is shared:
                del self._shared[key]

    def end(self, error: ApiError) -> None:
        """End every watch."""
        for shared in self._shared.values():
            shared.end(error)


class SharedWatch:
    """One reader, and everybody who watches what it finds."""

    def __init__(self, rows: RowReader, run_dir: Path, sink: str) -> None:
        self._members: set[Mailbox] = set()
        self._wanted = asyncio.Event()
        self._task = asyncio.create_task(self._read(rows, run_dir, sink))

    @property
    def over(self) -> bool:
        """True when nothing more is read."""
        return self._task.done()

    def join(self) -> Mailbox:
        """Watch from now on."""
        mailbox = Mailbox(self._wanted)
        self._members.add(mailbox)
        return mailbox

    def leave(self, mailbox: Mailbox) -> bool:
        """Leave the watch; return True for the last watcher, which ends it."""
        self._members.discard(mailbox)
        if not self._members:
            self._task.cancel()
        return not self._members

    def end(self, error: Exception) -> None:
        """Send all watchers the error that ends their watches."""
        for mailbox in self._members:
            mailbox.fail(error)

    async def _read(self, rows: RowReader, run_dir: Path, sink: str) -> None:
        try:
            async for kind, message in rows.watch_frames(run_dir, sink, self._wanted):
                for mailbox in self._members:
                    mailbox.take(kind, message)
        except Exception as error:  # noqa: BLE001 - whatever it is: who watches would wait for ever
            self.end(error)


class _State(Enum):
    JOINED = auto()
    """It has asked for all rows, and may have done so amid those for another."""
    READY = auto()
    """The next rows that are all there are begin a snapshot of its own."""
    TAKING = auto()
    LIVE = auto()


class Mailbox:
    """Messages that wait for one watcher."""

    def __init__(self, wanted: asyncio.Event) -> None:
        self._wanted = wanted
        self._waiting: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        self._state = _State.JOINED
        wanted.set()

    async def next(self) -> bytes:
        """Return the next message. Raises: ApiError; whatever else the reader has ended with."""
        message = await self._waiting.get()
        if isinstance(message, bytes):
            return message
        raise replace(message) if isinstance(message, ApiError) else message

    def take(self, kind: bytes, message: bytes) -> None:
        """Take a message of the reader, which may be for others."""
        if kind == SNAPSHOT:
            if self._state in (_State.READY, _State.TAKING):
                self._state = _State.TAKING
                self._waiting.put_nowait(message)
        elif self._state is _State.JOINED:
            self._state = _State.READY
        elif self._state is not _State.READY:
            self._state = _State.LIVE
            if self._waiting.qsize() < MOST_WAITING:
                self._waiting.put_nowait(message)
            else:
                self._waiting = asyncio.Queue()
                self._state = _State.JOINED
                self._wanted.set()

    def fail(self, error: Exception) -> None:
        """Put the error that ends the watch."""
        self._waiting.put_nowait(error)
