"""The log of a driver as it is written, in whichever of its two files that stands.

A driver keeps its log short: what is in `driver.log` moves to `driver.log.1`, whose own content goes. So a
cursor in a log is known by the bytes before it, and is found again in either file. Where something else
rotates logs, too, what it took away is a gap.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from chassis.files import open_plain
from daggerspec.rundir import OLDER_LOG

CHUNK: Final = 512 * 1024
"""Bytes that are read at once, so that a step of an answer is not much longer."""
_BEFORE: Final = 1024
"""Bytes before a cursor that it is known by."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """An offset in one of a log's two files. 0 means that nothing was read: the older file begins there."""

    offset: int = 0
    digest: str = ""
    """Of the bytes before it."""

    @classmethod
    def of(cls, file: BinaryIO, offset: int) -> Cursor:
        """The cursor at an offset of one of the files. Raises: OSError."""
        return cls(offset, _digest_of(_before(file, offset)))


class Tail:
    """What is written behind a cursor in a log, also when the log is moved meanwhile. To be closed.

    `cursor` is where the last line ends that was read; `gap` says that what was to be read is gone.
    """

    def __init__(self, log: Path, cursor: Cursor = Cursor()) -> None:
        """Raises: OSError."""
        self._log = log
        self.cursor = cursor
        self.gap = False
        self._rest = b""
        self._older = identity(older(log))  # what was read before the log
        self._file, self._window = self._located()

    def read(self) -> list[str]:
        """The next whole lines; none at the end of the log. Raises: OSError."""
        while True:
            chunk = b"" if self._cut() else self._file.read(CHUNK)
            if not chunk and self._switch():
                continue
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            if whole:
                self._window = (self._window + b"\n".join([*whole, b""]))[-_BEFORE:]
                offset = self._file.tell() - len(self._rest)
                self.cursor = Cursor(offset, _digest_of(self._window[-min(offset, _BEFORE) :]))
            if whole or not chunk:
                return [text(line) for line in whole]

    def unfinished(self) -> str:
        """The beginning of a line, behind all that was read."""
        return text(self._rest)

    def close(self) -> None:
        """No more of it."""
        self._file.close()

    def _located(self) -> tuple[BinaryIO, bytes]:
        """The file that has the cursor, positioned there, and the bytes before it. Raises: OSError."""
        for part in (self._log, older(self._log)) if self.cursor.offset else ():
            with suppress(FileNotFoundError):
                file = open_plain(part)
                if _holds(file, self.cursor):
                    file.seek(self.cursor.offset)
                    return file, _before(file, self.cursor.offset)
                file.close()
        self.gap = self.cursor.offset > 0
        self.cursor = Cursor()
        first = older(self._log)
        return open_plain(first if first.exists() else self._log), b""

    def _cut(self) -> bool:
        """Whether the file does not hold any more what was read of it."""
        if not self._file.tell():  # nothing was read of it, but it may have been moved
            return self._older != identity(older(self._log))
        return _before(self._file, self._file.tell()) != self._before_end()

    def _before_end(self) -> bytes:
        """What was read last of the file."""
        read = self._window + self._rest
        return read[max(len(read) - min(self._file.tell(), _BEFORE), 0) :]

    def _switch(self) -> bool:
        """At the end of a file: whether the log goes on in another, which is read then. Raises: OSError."""
        with suppress(FileNotFoundError):  # tidied away, or moved in this moment
            here, log = os.fstat(self._file.fileno()), self._log.stat()
            is_log, was_moved = os.path.samestat(here, log), identity(older(self._log)) != self._older
            if is_log and not self._cut():
                return False
            if was_moved:
                self._go_on_in_older(where_it_was=is_log)
                return True
            if here.st_ino != self._older:  # nor did the driver move it: somebody else rotates logs here
                if not is_log and not log.st_size:
                    return False  # the driver writes on into the file that it opened
                self.gap, self._rest = True, b""
            self._go_on(open_plain(self._log))
            return True
        return False

    def _go_on_in_older(self, *, where_it_was: bool) -> None:
        """Read what was moved there: with `where_it_was`, from where the log was read to."""
        following, end = open_plain(older(self._log)), self._file.tell()
        if where_it_was:
            if _before(following, end) == self._before_end():
                following.seek(end)
            else:  # moved twice
                self.gap, self._rest = True, b""
        self._older = os.fstat(following.fileno()).st_ino
        self._go_on(following)

    def _go_on(self, following: BinaryIO) -> None:
        self._file.close()
        self._file = following


def _holds(file: BinaryIO, cursor: Cursor) -> bool:
    """Whether this is the file that the cursor is in."""
    return os.fstat(file.fileno()).st_size >= cursor.offset and Cursor.of(file, cursor.offset) == cursor


def identity(file: Path) -> int:
    """What tells a file from the one that takes its place; 0 when there is none."""
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return 0


def _before(file: BinaryIO, offset: int) -> bytes:
    """The bytes that a cursor is known by."""
    start = max(offset - _BEFORE, 0)
    return os.pread(file.fileno(), offset - start, start)


def _digest_of(window: bytes) -> str:
    """What the bytes before a cursor are known by."""
    return hashlib.sha256(window).hexdigest()[:16]


def older(log: Path) -> Path:
    """Where the driver moves what is in its log when that is long."""
    return log.with_name(OLDER_LOG)


def text(line: bytes) -> str:
    """A line without its end."""
    return line.decode(errors="replace").rstrip("\n")
