"""The logs of a host's drivers: which is a dagger's newest, its lines, and what is written to it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from daggerspec.rundir import LOG, OLDER_LOG

LONGEST: Final = 256 * 1024
"""Characters of a line that are told."""
_TRACE: Final = "Traceback (most recent call last)"
_FRAMES: Final = ("\tat ", "\t... ", "Caused by: ", "During handling of the above", "The above exception was")


def newest(runs: Path, name: str, create_sequence: int, file: str = LOG) -> Path | None:
    """The log, or another file, of a dagger's newest launch that has one; launches before its creation are
    another's.
    """
    folder = runs / name
    found = [each for each in folder.iterdir() if each.name.isdigit()] if folder.is_dir() else []
    for launch in sorted(found, key=lambda each: int(each.name), reverse=True):
        if int(launch.name) > create_sequence and (launch / file).is_file():
            return launch / file
    return None


def lines(log: Path, end: int | None = None) -> Iterator[str]:
    """The lines of a log, without their ends: first of its older part, if it was long enough to have one.

    end: byte at which the log is taken to end; None: where it ends.
    """
    with suppress(FileNotFoundError), _older(log).open("rb") as file:
        yield from map(_text, file)
    with suppress(FileNotFoundError), log.open("rb") as file:
        for line in file:
            if end is not None and file.tell() > end:
                return
            yield _text(line)


def without_traces(lines: Iterable[str]) -> Iterator[str]:
    """The lines without the stack traces of Python and Java; what an exception says stays."""
    filter_ = TraceFilter()
    return (line for line in lines if filter_.keeps(line))


def whole_end(log: Path) -> int:
    """The byte behind the last whole line of a log. Raises: FileNotFoundError."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(size - LONGEST, 0))
        return start + file.read(size - start).rfind(b"\n") + 1


class TraceFilter:
    """Tells the lines of stack traces from others; to be asked about each line in order."""

    def __init__(self) -> None:
        self._inside = False

    def keeps(self, line: str) -> bool:
        """Whether it is none of a trace."""
        if line.lstrip().startswith(_TRACE):
            self._inside = True
            return False
        if self._inside and (not line or line[0].isspace()):
            return False
        self._inside = False
        return not line.startswith(_FRAMES)


class Tail:
    """What is written behind a byte of a log, also when it is moved meanwhile. To be closed."""

    def __init__(self, log: Path, start: int) -> None:
        self._log = log
        self._file = log.open("rb")
        self._file.seek(start)
        self._rest = b""

    def read(self) -> list[str]:
        """The whole lines that were written since the last call. Raises: OSError."""
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            with suppress(FileNotFoundError):
                self._rest += _older(self._log).read_bytes()[self._file.tell() :]
            self._file.seek(0)
        self._rest += self._file.read()
        *whole, self._rest = self._rest.split(b"\n")
        return [_text(line) for line in whole]

    def close(self) -> None:
        """No more of it."""
        self._file.close()


def _older(log: Path) -> Path:
    """Where the driver moves what is in its log when that is long."""
    return log.with_name(OLDER_LOG)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\n")[:LONGEST]
