"""Know the members of this process, which are the launches that run in it, and write to the log of each.

A thread says with `working_for` which member it works for; threads that it starts by `chassis.threads`
inherit that. What it logs and prints goes to driver.log of that member's run directory. All else goes where
the process writes: to driver.log of the directory that it was started in.

A Python worker, which no member joins, says with `serve` whose task it does: it writes to that driver.log,
too, where its host has it. Both say with `in_step` what they are in the middle of, for when they are killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

from chassis.lastword import StepRecorder
from daggerspec import rundir
from runtime.errors import JobError

_run_dir: ContextVar[Path | None] = ContextVar("run_dir", default=None)
_logs: dict[Path | None, TextIO] = {}
"""Open logs by the run directories of the members."""
_firsts: list[Path] = []
"""Run directory of the first member of this process, once there was one."""
_served: ContextVar[Path | None] = ContextVar("served", default=None)
"""Run directory of the launch whose task this worker does."""
_steps = StepRecorder(Path())


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


def serve(run_dir: str) -> None:
    """Do a task of the launch of a run directory, in a Python worker, from now on; of none where empty."""
    _served.set(Path(run_dir) if run_dir else None)


def in_step(dagger: str, generation: int, step: str) -> AbstractContextManager[None]:
    """Record a step of a launch within the context: the last word of this process, if it is killed there."""
    return _steps.step(dagger, generation, step, harmless=(JobError,))


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
        if (run_dir := _served.get()) is not None:
            return _append(run_dir / rundir.LOG, text)
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


def _append(log: Path, text: str) -> int:
    """Append a text to a launch's log, or write it to stderr where this host has no such launch."""
    try:
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        with os.fdopen(file, "a", encoding="utf-8", errors="backslashreplace") as lines:
            return lines.write(text)
    except OSError:
        return sys.stderr.write(text)
