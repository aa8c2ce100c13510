"""Values that are read from files again when these change, so that secrets rotate without a restart.

Files are not watched: each call for the value checks them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
_Stamp = tuple[int, int, int, int]


class ReloadedValue(Generic[T]):
    """Value that `read` makes of files; calling it returns the newest. Any thread may call it.

    If `read` fails, the last value stays: of two files that belong together, one is always replaced first.
    `refused` is called with the error, once for each change; `changed` after each successful change. The
    first read raises what `read` raises.
    """

    def __init__(
        self,
        read: Callable[[], T],
        *files: Path,
        unusable: tuple[type[Exception], ...] = (OSError, ValueError),
        refused: Callable[[str], None] = lambda _: None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._read, self._files, self._unusable = read, files, unusable
        self._refused, self._changed = refused, changed
        self._stamps = self._now()
        self._value = read()

    def __call__(self) -> T:
        """Return the newest value that could be read."""
        stamps = self._now()  # before the read, so that a change during it is noticed at the next call
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self._value = self._read()
            except self._unusable as error:
                self._refused(str(error))
            else:
                self._changed()
        return self._value

    def _now(self) -> tuple[_Stamp | None, ...]:
        return tuple(map(_stamp, self._files))


def _stamp(file: Path) -> _Stamp | None:
    """Differs when a file was written or replaced. None: it is not there."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size
