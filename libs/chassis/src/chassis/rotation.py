"""What files hold, read again when they change: tokens and certificates are replaced without a restart.

Nothing is watched: who needs the value asks for it, at each call or handshake.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
_Stamp = tuple[int, int, int, int]


class Rotated(Generic[T]):
    """Called, it answers what `read` makes of some files now. Any thread may call it.

    What cannot be used is refused, and what was read last stays: of two files that belong together, one is
    always replaced first. `refused` is told why, once for each change; `changed` is told of what is taken.
    The first reading raises what `read` raises.
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
        """The newest that could be used."""
        stamps = self._now()  # before the files are read: what is written meanwhile is seen the next time
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
