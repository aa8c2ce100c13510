"""End a driver that has a shadow at a boundary in event time: it writes no window behind it (ADR 109).

That makes a cutover quick. It does not prevent that a window is written twice: a driver may have read the
file before the boundary was set.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from daggerspec import rundir
from runtime.source.watermark import NEVER, Windows


class Boundary:
    """Boundary of one driver, read from its run directory once it is set."""

    def __init__(self, run_dir: Path, windows: Windows | None, closed: datetime | None) -> None:
        """windows: of the query. closed: event time up to which its checkpoint has them as written."""
        self._file = run_dir / rundir.BOUNDARY
        self._windows = windows
        self._closed = millis(closed)

    def is_reached(self) -> bool:
        """Tell whether all windows up to the boundary are written."""
        boundary = self._read()
        if boundary is None or self._windows is None:
            return False
        return not self._windows.closes_one(self._closed, boundary)

    def is_passed(self, closes_until: datetime | None) -> bool:
        """Tell whether a batch that closes windows up to `closes_until` must not be written.

        It would write a window behind the boundary, or all windows up to it are written.
        """
        boundary = self._read()
        if boundary is None or self._windows is None:
            return False
        return self.is_reached() or self._windows.closes_one(boundary, millis(closes_until))

    def record_written(self, closes_until: datetime | None) -> None:
        """Record that a batch is written that closed windows up to `closes_until`."""
        self._closed = max(self._closed, millis(closes_until))

    def _read(self) -> int | None:
        """Read the boundary in ms; None while none is set."""
        with suppress(OSError, ValueError):
            return int(self._file.read_text()) // 1000
        return None


def millis(when: datetime | None) -> int:
    """Convert an event time to ms since 1970; NEVER for None."""
    return NEVER if when is None else round(when.timestamp() * 1000)
