"""The windows that drivers write, and the checkpoints that say up to which: each is written once, in order.

A window ends every `WINDOW_S`; they are numbered by the order in which they end, from 1 on. Event time is the
time of the world.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.witness import Violation
from tests.simulation.world import START, World

WINDOW_S = 8.0
_US = 1_000_000


@dataclass
class Progress:
    """What the checkpoint of a dagger's driver says; one that begins goes by it, whatever its query."""

    written: int = 0
    """The newest window that is written; all before it are."""


class Windows:
    """Of every dagger, by the place of its checkpoints."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._progress: dict[str, Progress] = {}

    @property
    def head(self) -> int:
        """The newest window that has ended."""
        return int((self._world.now() - START).total_seconds() // WINDOW_S)

    def of(self, checkpoints: str) -> Progress:
        """How far the driver of these checkpoints is."""
        return self._progress.setdefault(checkpoints, Progress())

    def write(self, checkpoints: str, window: int, by: str) -> None:
        """A driver writes a window and commits it. Raises: Violation where it lacks one, or has it twice."""
        progress = self.of(checkpoints)
        if window <= progress.written:
            raise Violation(f"{by} writes window {window}, and all up to {progress.written} are written")
        if window > progress.written + 1:
            raise Violation(f"{by} writes window {window}, and nobody wrote {progress.written + 1}")
        progress.written = window


def end_us(window: int) -> int:
    """Its end, in microseconds since 1970; 0 for none."""
    return int((START.timestamp() + window * WINDOW_S) * _US) if window else 0


def window_of(us: int) -> int:
    """The newest window that has ended then."""
    return max(0, int((us / _US - START.timestamp()) // WINDOW_S)) if us else 0
