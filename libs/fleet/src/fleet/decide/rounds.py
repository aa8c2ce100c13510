"""Decide which daggers a service looks at next: those that something happened to, and at each tick those that
go on by themselves, and a part of all the others. Pure.

Only time is left to say something about the others. A part is as large as a small fleet, so that there each
tick looks at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

PART: Final = 500
"""Daggers to which nothing happened that one tick looks at, at most."""


class Rounds:
    """Goes through the daggers of a scope again and again, a part at each tick."""

    def __init__(self, tick: timedelta) -> None:
        """tick: time between two parts."""
        self._tick = tick
        self._scope: Callable[[], Iterable[str]] = tuple
        self._hasty: Callable[[], Iterable[str]] = tuple
        self._changed: set[str] = set()
        self._again: set[str] = set()
        """Names to look at at the next tick."""
        self._left: dict[str, None] = {}
        """Names of this round that were not looked at yet."""
        self._next_tick: datetime | None = None

    def begin(self, scope: Callable[[], Iterable[str]], hasty: Callable[[], Iterable[str]] = tuple) -> None:
        """Begin anew: the next look is at all.

        scope: names of the daggers to look at. hasty: of those to look at at each tick, as many as a part
        has.
        """
        self._scope, self._changed, self._left, self._next_tick = scope, set(scope()), {}, None
        self._hasty, self._again = hasty, set()

    def note(self, name: str) -> None:
        """Have the next look be at a dagger, too."""
        self._changed.add(name)

    def note_again(self, name: str) -> None:
        """Have the look of the next tick be at a dagger, too."""
        self._again.add(name)

    def take(self, now: datetime) -> Set[str]:
        """Return the names of the daggers to look at now."""
        names, self._changed = self._changed, set()
        for name in names & self._left.keys():
            del self._left[name]
        # None at the first look, which is at all. A clock that was ahead had it due too late.
        self._next_tick = min(self._next_tick or now + self._tick, now + self._tick)
        if now >= self._next_tick:
            self._next_tick = now + self._tick
            self._left = self._left or dict.fromkeys(self._scope())
            part = list(islice(self._left, PART))
            for name in part:
                del self._left[name]
            names.update(part, self._again, islice(self._hasty(), PART))
            self._again = set()
        return names
