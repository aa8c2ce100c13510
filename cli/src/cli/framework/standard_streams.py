"""The standard streams of a command: what becomes of an answer that cannot be written.

OutputError                the answer: it is lost, or its reader has enough (`is_read_enough`)
(none)                     what stands beside it, on stderr: the command goes on without

A character that the encoding of a stream lacks is written as an escape. A stream that was closed before the
command began can be written to by nobody, and no file takes its number.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TextIO


class OutputError(Exception):
    """The result cannot be written. It is no OSError, so no library handles it as its own."""

    def __init__(self, error: OSError) -> None:
        self.errno = error.errno
        super().__init__(f"the answer cannot be written to standard output ({error.strerror or error})")

    @property
    def is_read_enough(self) -> bool:
        """True where the reader has left (`daggers … | head`), so that nothing is lost that anybody wants."""
        return self.errno == errno.EPIPE


class _Answer(io.TextIOWrapper):
    """Standard output. Raises: OutputError."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputError(error) from error


class _Beside(io.TextIOWrapper):
    """Standard error. Once it cannot be written to, all further output to it is dropped."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            silence(2)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            silence(2)


def prepare() -> None:
    """Set up the streams as this module describes. Call it before any file is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # the lowest number that is free; to what is open for reading alone nothing can be written
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = _wrap(sys.stdout, 1, _Answer)
    sys.stderr = _wrap(sys.stderr, 2, _Beside)


def finish() -> None:
    """Flush both streams. Raises: OutputError."""
    sys.stdout.flush()
    sys.stderr.flush()


def silence(number: int) -> None:
    """Redirect a stream to nowhere, so that the end of the process does not fail either."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def _wrap(stream: TextIO | None, number: int, kind: type[io.TextIOWrapper]) -> io.TextIOWrapper:
    if isinstance(stream, io.TextIOWrapper):
        encoding, lines = stream.encoding, stream.line_buffering
        return kind(stream.detach(), encoding, "backslashreplace", line_buffering=lines)
    raw = io.FileIO(number, "w", closefd=False)
    return kind(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=number == 2)
