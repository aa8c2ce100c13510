"""Where a driver ends that has a shadow beside it: it writes no window behind its boundary (ADR 109).

That makes a cutover quick. What keeps a window from being written twice is not here: a driver may have looked
before there was a boundary.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from daggerspec import rundir
from runtime.source.watermark import NEVER, Windows


class Boundary:
    """The boundary of one driver, once there is one."""

    def __init__(self, run_dir: Path, windows: Windows | None, closed: datetime | None) -> None:
        """`windows` are those of the query; up to `closed` its checkpoint says that they are written."""
        self._file = run_dir / rundir.BOUNDARY
        self._windows = windows
        self._closed = millis(closed)

    def is_reached(self) -> bool:
        """Whether every window up to it is written."""
        boundary = self._read()
        if boundary is None or self._windows is None:
            return False
        return not self._windows.closes_one(self._closed, boundary)

    def is_passed(self, closes: datetime | None) -> bool:
        """Whether a batch that closes windows up to `closes` is not to be written: it would write one behind
        it, or none up to it is left.
        """
        boundary = self._read()
        if boundary is None or self._windows is None:
            return False
        return self.is_reached() or self._windows.closes_one(boundary, millis(closes))

    def written(self, closes: datetime | None) -> None:
        """A batch is written that closed windows up to `closes`."""
        self._closed = max(self._closed, millis(closes))

    def _read(self) -> int | None:
        """In ms; None while there is none."""
        with suppress(OSError, ValueError):
            return int(self._file.read_text()) // 1000
        return None


def millis(when: datetime | None) -> int:
    """An event time in ms since the epoch; before all of them for none."""
    return NEVER if when is None else round(when.timestamp() * 1000)
