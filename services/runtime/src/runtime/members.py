"""Know the members of this process, which are the launches that run in it, and write to the log of each.

A thread says with `working_for` which member it works for; threads that it starts by `chassis.threads`
inherit that. What it logs and prints goes to driver.log of that member's run directory. All else goes where
the process writes: to driver.log of the directory that it was started in.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

from daggerspec import rundir

_run_dir: ContextVar[Path | None] = ContextVar("run_dir", default=None)
_logs: dict[Path | None, TextIO] = {}
"""Open logs by the run directories of the members."""
_firsts: list[Path] = []
"""Run directory of the first member of this process, once there was one."""


@contextmanager
def join(run_dir: Path) -> Iterator[None]:
    """Count the launch of a run directory as a member, and work for it in this thread, within the context.

    Raises: OSError where its log cannot be written.
    """
    place = run_dir.resolve()
    log = (place / rundir.LOG).open("a", buffering=1, encoding="utf-8", errors="backslashreplace")
    _logs[place] = log
    _firsts[:] = _firsts or [place]
    try:
        with working_for(run_dir):
            yield
    finally:
        del _logs[place]
        with suppress(OSError):  # of what a full disk has not taken the launch does not fail
            log.close()


@contextmanager
def working_for(run_dir: Path) -> Iterator[None]:
    """Work for the launch of a run directory in this thread, within the context."""
    token = _run_dir.set(run_dir.resolve())
    try:
        yield
    finally:
        _run_dir.reset(token)


def work_for(run_dir: Path) -> None:
    """Work for the launch of a run directory in this thread from now on."""
    _run_dir.set(run_dir.resolve())


def count() -> int:
    """Count the members; 1 in a process that has none, such as a preview's."""
    return max(len(_logs), 1)


def is_first() -> bool:
    """Tell whether this thread works for the first member that the process ever had, or for none."""
    return _run_dir.get() in (None, *_firsts)


def write(text: str) -> None:
    """Print a text to the log of the member that this thread works for, at once; else to stdout."""
    if (log := _logs.get(_run_dir.get())) is not None:
        with suppress(ValueError, OSError):  # its launch has ended meanwhile, or the disk is full
            log.write(text)
            log.flush()
            return
    sys.stdout.write(text)
    sys.stdout.flush()


class Output:
    """Stream that writes to the log of the member that a thread works for, or else to stderr."""

    def write(self, text: str) -> int:
        """Write a text, and return its length."""
        try:
            return self._log.write(text)
        except (ValueError, OSError):  # its launch has ended meanwhile, or the disk is full
            return sys.stderr.write(text)

    def flush(self) -> None:
        """Write out what is buffered."""
        with suppress(ValueError, OSError):  # as above
            self._log.flush()

    def isatty(self) -> bool:
        """Tell whether it is a terminal."""
        return self._log.isatty()

    @property
    def _log(self) -> TextIO:
        log = _logs.get(_run_dir.get())
        return sys.stderr if log is None else log
