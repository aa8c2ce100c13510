"""The logs of a host's drivers and attempts of replays: the newest of a dagger, its last lines, positions.

`chassis.tail` reads one on while it is written.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from daggers.v1 import events_pb2
from google.protobuf.message import DecodeError

from chassis import lines, tail
from chassis.files import open_plain, read_plain
from chassis.tail import Cursor
from daggerspec.rundir import HANDED, LOG, REPLAY, REPLAYS, SHADOW

LONGEST: Final = 256 * 1024
"""Characters of a line that a caller gets."""
_TRACE: Final = "Traceback (most recent call last)"
_FRAMES: Final = ("\tat ", "\t... ", "Caused by: ", "During handling of the above", "The above exception was")
_POSITION: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9a-f]{16})(t?)")


@dataclass(frozen=True, slots=True)
class Position:
    """Position up to which a dagger's logs were read."""

    generation: int
    cursor: Cursor
    inside: bool
    """True amid a stack trace."""

    def __str__(self) -> str:
        digest = self.cursor.digest or "0" * 16
        return f"{self.generation}-{self.cursor.offset}-{digest}{'t' if self.inside else ''}"

    @classmethod
    def parse(cls, text: str) -> Position | None:
        """Parse a position that a caller got; return None for any other text."""
        match = _POSITION.fullmatch(text)
        return match and cls(int(match[1]), Cursor(int(match[2]), match[3]), match[4] == "t")


def newest(runs: Path, name: str, create_sequence: int, file: str = LOG) -> Path | None:
    """Return the log, or another file, of a dagger's newest launch that has one; launches before its creation
    are another's.
    """
    logs = launches(runs, name, create_sequence, file)
    return logs[-1] if logs else None


def launches(runs: Path, name: str, after: int, file: str = LOG, *, shadows: bool = False) -> list[Path]:
    """Return the logs, or other files, of the launches behind a sequence, the oldest first. With `shadows`
    also of those that were never handed over.
    """
    run_dirs: list[Path] = []
    with suppress(FileNotFoundError, NotADirectoryError):
        run_dirs = [path for path in (runs / name).iterdir() if path.name.isdigit()]
    behind = sorted(
        (run_dir for run_dir in run_dirs if int(run_dir.name) > after), key=lambda run_dir: int(run_dir.name)
    )
    return [path / file for path in behind if (path / file).is_file() and (shadows or not _is_shadow(path))]


def _is_shadow(run_dir: Path) -> bool:
    """Tell whether a launch runs, or ran, beside the driver: such a one is not the dagger's newest."""
    return (run_dir / SHADOW).exists() and not (run_dir / HANDED).exists()


def attempts(runs: Path, name: str, after: int) -> list[Path]:
    """Return the logs of the attempts of a dagger's replays behind a sequence, the oldest first."""
    return [log for log in launches(runs, REPLAYS, after) if _dagger_of_attempt(log.parent) == name]


def _dagger_of_attempt(run_dir: Path) -> str:
    """Return the dagger of an attempt; empty for a directory without a readable request."""
    try:
        return events_pb2.QuarantineReplayRequested.FromString(read_plain(run_dir / REPLAY)).name
    except (OSError, DecodeError):
        return ""


def choose_log(logs: Sequence[Path], generation: int, *, previous: bool) -> Path | None:
    """Return the log of a launch among logs, oldest first: the newest one for 0; or the one before it."""
    generations = [int(log.parent.name) for log in logs]
    wanted = generation or (generations[-1] if generations else 0)
    if previous:
        return next((log for log in reversed(logs) if int(log.parent.name) < wanted), None)
    return logs[generations.index(wanted)] if wanted in generations else None


class TraceFilter:
    """Tells the lines of stack traces from others; it is given each line in order."""

    def __init__(self, *, inside: bool = False) -> None:
        self.inside = inside

    def keeps(self, line: str) -> bool:
        """Tell whether a line is none of a trace."""
        if line.lstrip().startswith(_TRACE):
            self.inside = True
            return False
        if self.inside and (not line or line[0].isspace()):
            return False
        self.inside = False
        return not line.startswith(_FRAMES)


def last(log: Path, count: int, *, traces: bool, since: datetime | None = None) -> Cursor:
    """Return where the last `count` whole lines of a log begin; with `traces`, those of stack traces count.

    Of the lines before `since` (aware) none does. Raises: FileNotFoundError.
    """
    begin = lines.stamp(since) if since else ""
    while True:
        older = tail.identity(tail.older(log))
        cursor = _last(log, count, begin, traces=traces)
        if tail.identity(tail.older(log)) == older:  # else it was moved meanwhile, and this is half of each
            return cursor


def _last(log: Path, count: int, begin: str, *, traces: bool) -> Cursor:
    begins: deque[tuple[Path, int]] = deque(maxlen=count)
    end = log, 0
    filter_, begun = TraceFilter(), not begin
    for part in (tail.older(log), log):
        if part != log and not part.exists():
            continue
        with open_plain(part) as file:
            offset = 0
            for line in file:
                if not line.endswith(b"\n"):
                    break
                text = tail.text(line)
                begun = begun or lines.stamp_of(text) >= begin
                if (filter_.keeps(text) or traces) and begun:
                    begins.append((part, offset) if offset else end)
                offset += len(line)
            end = (part, offset) if offset else end
    part, offset = begins[0] if begins else end
    if (count and not begins and not begin) or not offset:
        return Cursor()
    with open_plain(part) as file:
        return Cursor.of(file, offset)
