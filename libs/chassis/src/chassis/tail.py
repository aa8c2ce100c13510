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
        """Build the cursor at an offset of one of the files. Raises: OSError."""
        return cls(offset, _digest_of(_before(file, offset)))


class Tail:
    """Reader of a log from a cursor on, also when the log is moved meanwhile. Close it.

    `cursor`: end of the last line that was read; `gap`: lines behind the cursor were lost.
    """

    def __init__(self, log: Path, cursor: Cursor = Cursor()) -> None:
        """Raises: OSError."""
        self._log = log
        self.cursor = cursor
        self.gap = False
        self._rest = b""
        self._older = identity(older(log))  # what was read before the log
        self._file, self._window = self._locate()

    def read(self) -> list[str]:
        """Read the next whole lines; empty at the end of the log. Raises: OSError."""
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

    def unfinished_line(self) -> str:
        """Return the begin of an unfinished line, behind all that was read."""
        return text(self._rest)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _locate(self) -> tuple[BinaryIO, bytes]:
        """Open the file that has the cursor, positioned there, and read the bytes before. Raises: OSError."""
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
        """Tell whether the file was truncated or overwritten since it was read."""
        if not self._file.tell():  # nothing was read yet, but the file may have been moved
            return self._older != identity(older(self._log))
        return _before(self._file, self._file.tell()) != self._before_end()

    def _before_end(self) -> bytes:
        """Return the bytes that were read last."""
        read = self._window + self._rest
        return read[max(len(read) - min(self._file.tell(), _BEFORE), 0) :]

    def _switch(self) -> bool:
        """Switch at the end of a file to the one in which the log goes on, if any. Raises: OSError."""
        with suppress(FileNotFoundError):  # deleted, or moved at this moment
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
    """Tell whether a file is the cursor's."""
    return os.fstat(file.fileno()).st_size >= cursor.offset and Cursor.of(file, cursor.offset) == cursor


def identity(file: Path) -> int:
    """Return a number that distinguishes a file from its replacement; 0 without a file."""
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return 0


def _before(file: BinaryIO, offset: int) -> bytes:
    """Read the bytes by which a cursor is recognised."""
    start = max(offset - _BEFORE, 0)
    return os.pread(file.fileno(), offset - start, start)


def _digest_of(window: bytes) -> str:
    """Digest the bytes before a cursor."""
    return hashlib.sha256(window).hexdigest()[:16]


def older(log: Path) -> Path:
    """Return the file to which the driver moves a long log."""
    return log.with_name(OLDER_LOG)


def text(line: bytes) -> str:
    """Decode a line, without its end."""
    return line.decode(errors="replace").rstrip("\n")
