"""The logs of a host's drivers: which is a dagger's newest, its lines, and what is written to it.

A driver keeps its log short: what is in `driver.log` moves to `driver.log.1`, whose own content goes. So a
cursor in a log is known by the bytes before it, and is found again in either file.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from daggerspec.rundir import LOG, OLDER_LOG

LONGEST: Final = 256 * 1024
"""Characters of a line that are told."""
CHUNK: Final = 512 * 1024
"""Bytes that are read at once, so that a step of an answer is not much longer."""
_BEFORE: Final = 1024
"""Bytes before a cursor that it is known by."""
_TRACE: Final = "Traceback (most recent call last)"
_FRAMES: Final = ("\tat ", "\t... ", "Caused by: ", "During handling of the above", "The above exception was")
_POSITION: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{16})(t?)")


@dataclass(frozen=True, slots=True)
class Cursor:
    """An offset in one of a log's two files. 0 means that nothing was read: the older file begins there."""

    offset: int = 0
    digest: str = ""
    """Of the bytes before it."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a dagger's logs were read."""

    generation: int
    cursor: Cursor
    inside: bool
    """Whether that is amid a stack trace."""

    def __str__(self) -> str:
        digest = self.cursor.digest or "0" * 16
        return f"{self.generation}-{self.cursor.offset}-{digest}{'t' if self.inside else ''}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """The position that was told so; None for anything else."""
        told = _POSITION.fullmatch(text)
        return told and cls(int(told[1]), Cursor(int(told[2]), told[3]), told[4] == "t")


def newest(runs: Path, name: str, create_sequence: int, file: str = LOG) -> Path | None:
    """The log, or another file, of a dagger's newest launch that has one; launches before its creation are
    another's.
    """
    logs = launches(runs, name, create_sequence, file)
    return logs[-1] if logs else None


def launches(runs: Path, name: str, after: int, file: str = LOG) -> list[Path]:
    """The logs, or other files, of the launches behind a sequence, the oldest first."""
    run_dirs: list[Path] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        run_dirs = [each for each in (runs / name).iterdir() if each.name.isdigit()]
    behind = sorted((each for each in run_dirs if int(each.name) > after), key=lambda each: int(each.name))
    return [each / file for each in behind if (each / file).is_file()]


class TraceFilter:
    """Tells the lines of stack traces from others; to be asked about each line in order."""

    def __init__(self, *, inside: bool = False) -> None:
        self.inside = inside

    def keeps(self, line: str) -> bool:
        """Whether it is none of a trace."""
        if line.lstrip().startswith(_TRACE):
            self.inside = True
            return False
        if self.inside and (not line or line[0].isspace()):
            return False
        self.inside = False
        return not line.startswith(_FRAMES)


def last(log: Path, count: int, *, traces: bool) -> Cursor:
    """Where the last `count` whole lines of a log begin; with `traces`, those of stack traces count.

    Raises: FileNotFoundError.
    """
    while True:
        older = _identity(_older(log))
        cursor = _last(log, count, traces=traces)
        if _identity(_older(log)) == older:  # else it was moved meanwhile, and this is half of each
            return cursor


def _last(log: Path, count: int, *, traces: bool) -> Cursor:
    begins: deque[tuple[Path, int]] = deque(maxlen=count)
    end = log, 0
    filter_ = TraceFilter()
    for part in (_older(log), log):
        if part != log and not part.exists():
            continue
        with part.open("rb") as file:
            offset = 0
            for line in file:
                if not line.endswith(b"\n"):
                    break
                if traces or filter_.keeps(_text(line)):
                    begins.append((part, offset) if offset else end)
                offset += len(line)
            end = (part, offset) if offset else end
    part, offset = begins[0] if begins else end
    if (count and not begins) or not offset:
        return Cursor()
    with part.open("rb") as file:
        return Cursor(offset, _digest(_before(file, offset)))


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
        self._older = _identity(_older(log))  # what was read before the log
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
                self.cursor = Cursor(offset, _digest(self._window[-min(offset, _BEFORE) :]))
            if whole or not chunk:
                return [_text(line) for line in whole]

    def unfinished(self) -> str:
        """The beginning of a line, behind all that was read."""
        return _text(self._rest)

    def close(self) -> None:
        """No more of it."""
        self._file.close()

    def _located(self) -> tuple[BinaryIO, bytes]:
        """The file that has the cursor, positioned there, and the bytes before it. Raises: OSError."""
        for part in (self._log, _older(self._log)) if self.cursor.offset else ():
            with suppress(FileNotFoundError):
                file = part.open("rb")
                if _holds(file, self.cursor):
                    file.seek(self.cursor.offset)
                    return file, _before(file, self.cursor.offset)
                file.close()
        self.gap = self.cursor.offset > 0
        self.cursor = Cursor()
        older = _older(self._log)
        return (older if older.exists() else self._log).open("rb"), b""

    def _cut(self) -> bool:
        """Whether the file does not hold any more what was read of it."""
        if not self._file.tell():  # nothing was read of it, but it may have been moved
            return self._older != _identity(_older(self._log))
        return _before(self._file, self._file.tell()) != self._before_end()

    def _before_end(self) -> bytes:
        """What was read last of the file."""
        read = self._window + self._rest
        return read[max(len(read) - min(self._file.tell(), _BEFORE), 0) :]

    def _switch(self) -> bool:
        """At the end of a file: whether the log goes on in another, which is read then. Raises: OSError."""
        if not self._log.exists():
            return False  # it was tidied away
        here = os.fstat(self._file.fileno())
        is_log = os.path.samestat(here, self._log.stat())
        if is_log and not self._cut():
            return False
        following = _older(self._log).open("rb")
        self._older = os.fstat(following.fileno()).st_ino
        if is_log:  # what followed stands in the older one
            end = self._file.tell()
            if _before(following, end) == self._before_end():
                following.seek(end)
            else:
                self.gap, self._rest = True, b""
        elif here.st_ino == self._older:
            following.close()
            following = self._log.open("rb")
        self._file.close()
        self._file = following
        return True


def _holds(file: BinaryIO, cursor: Cursor) -> bool:
    """Whether this is the file that the cursor is in."""
    return (
        os.fstat(file.fileno()).st_size >= cursor.offset
        and _digest(_before(file, cursor.offset)) == cursor.digest
    )


def _identity(file: Path) -> int:
    """What tells a file from the one that takes its place; 0 when there is none."""
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return 0


def _before(file: BinaryIO, offset: int) -> bytes:
    """The bytes that a cursor is known by."""
    start = max(offset - _BEFORE, 0)
    return os.pread(file.fileno(), offset - start, start)


def _digest(window: bytes) -> str:
    return hashlib.sha256(window).hexdigest()[:16]


def _older(log: Path) -> Path:
    """Where the driver moves what is in its log when that is long."""
    return log.with_name(OLDER_LOG)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\n")[:LONGEST]
