"""Medians of the numbers of rows by key and season, and usual distances from them. Pure.

The numbers of a key in an hour become one occurrence of that hour once a window behind it closes: QUANTILES
of them, so that each occurrence counts the same. An hour of a week is compared with that hour of the weeks
before, an hour of a day with that of the days before, and without a season with the hours before. Windows
come in their order; how they are divided into calls changes nothing. Times are ends of windows, in us since
1970.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final, NamedTuple

from daggerspec.alertrules import Key

HOUR: Final = 3_600_000_000
LEAST_OCCURRENCES: Final = 3
"""Occurrences of the hour that a key needs before a number of it is judged."""
QUANTILES: Final = (0.1, 0.3, 0.5, 0.7, 0.9)
_WIDTH: Final = 1 + len(QUANTILES)
_TOLERANCE: Final = 1e-9
_MINUTE: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class Season:
    """After how many hours an hour comes again, and how many occurrences of it are remembered."""

    hours: int
    occurrences: int


SEASONS: Final[Mapping[str, Season]] = {
    "hour of week": Season(168, 6),
    "hour of day": Season(24, 14),
    "": Season(1, 24),
}
"""By the words of the dialect; empty: no season."""


class Usual(NamedTuple):
    """Median and spread of a number."""

    median: float
    spread: float
    """Median of the distances from it; where that is 0, their mean."""

    def is_outside(self, number: float, band: float) -> bool:
        """Tell whether a number lies further from the median than so many spreads."""
        distance = abs(number - self.median)
        return distance > band * self.spread and distance > _TOLERANCE * abs(self.median)


def hour_of(window: int) -> int:
    """Return the hour since 1970 that a window ends in; one that ends with an hour belongs to that."""
    return (window - 1) // HOUR


class SeasonalSketch:
    """Occurrences of hours by key, and the numbers of the hours that go on."""

    def __init__(self, season: Season, slide: int) -> None:
        """slide: from the end of a window to that of the next, in us."""
        self._season, self._stride = season, max(_MINUTE // slide, 1) * slide
        self._slots: dict[int, dict[Key, array[float]]] = {}
        self._open: dict[int, dict[Key, float]] = {}
        self._usual: dict[Key, Usual | None] = {}
        self._usual_hour = 0
        self.keys: set[Key] = set()
        """Keys of which there are occurrences."""
        self.begun: int | None = None
        """The hour of the first window; None before it."""
        self.merged = -1
        """The newest hour whose numbers are occurrences."""
        self.passed_over = False
        """Whether there was no room for a key or an hour of it when occurrences were last made."""
        self.size = 0
        """How many numbers there are in occurrences."""

    def find(self, key: Key, window: int) -> Usual | None:
        """Return what the number of a key usually is in the hour of a window; None where too little is known
        of that.
        """
        hour = hour_of(window)
        if hour != self._usual_hour:
            self._usual, self._usual_hour = {}, hour
        if key not in self._usual:
            self._usual[key] = self._compute(key, hour)
        return self._usual[key]

    def _compute(self, key: Key, hour: int) -> Usual | None:
        rows = self._slots.get(hour % self._season.hours, {}).get(key, array("d"))
        oldest = self._find_oldest(hour)
        begins = [begin for begin in range(0, len(rows), _WIDTH) if oldest <= rows[begin] < hour]
        if len(begins) < LEAST_OCCURRENCES:
            return None
        numbers = [number for begin in begins for number in rows[begin + 1 : begin + _WIDTH]]
        middle = median(numbers)
        distances = [abs(number - middle) for number in numbers]
        return Usual(middle, median(distances) or fmean(distances))

    def _find_oldest(self, hour: int) -> int:
        """Return the oldest hour that counts: of a key that was away for long, nothing is known."""
        return hour - 2 * self._season.occurrences * self._season.hours

    def add(self, window: int, numbers: Mapping[Key, float]) -> None:
        """Take the numbers of a window, in place of those that there are of it. Of windows that are shorter
        than a minute, one a minute counts.
        """
        if self.begun is None:
            self.begun = hour_of(window)
        if hour_of(window) > self.merged and window % self._stride == 0:
            self._open[window] = dict(numbers)

    def merge(self, until: int, room: int, keys: int) -> Iterator[int]:
        """Make occurrences of the hours before that of a window, and yield each of these hours. room: how
        many more numbers there may be. keys: how many there may be in all; further ones are passed over.
        """
        if len(self.keys) >= keys:  # some of them may be forgotten
            self.keys = {key for slot in self._slots.values() for key in slot}
        ended: dict[int, dict[Key, list[float]]] = {}
        for window in sorted(window for window in self._open if hour_of(window) < hour_of(until)):
            by_key = ended.setdefault(hour_of(window), {})
            for key, number in self._open.pop(window).items():
                by_key.setdefault(key, []).append(number)
        for hour, by_key in ended.items():
            before = self.size
            self._put(hour, by_key, room, keys)
            room -= self.size - before
            self.merged = max(self.merged, hour)
            yield hour

    def _put(self, hour: int, by_key: Mapping[Key, Sequence[float]], room: int, keys: int) -> None:
        slot = self._slots.setdefault(hour % self._season.hours, {})
        self._forget(slot, self._find_oldest(hour))
        most = self.size + room
        self.passed_over = False
        for key, numbers in by_key.items():
            rows = slot.get(key)
            is_full = rows is not None and len(rows) == self._season.occurrences * _WIDTH
            is_beyond = rows is None and key not in self.keys and len(self.keys) >= keys
            if is_beyond or (not is_full and self.size + len(QUANTILES) > most):
                self.passed_over = True
                continue
            if rows is None:
                rows = slot[key] = array("d")
                self.keys.add(key)
            if is_full:
                del rows[:_WIDTH]
                self.size -= len(QUANTILES)
            rows.extend((hour, *_quantiles(numbers)))
            self.size += len(QUANTILES)

    def _forget(self, slot: dict[Key, array[float]], oldest: int) -> None:
        """Forget the keys of a slot that have had no occurrence for long."""
        for key in [key for key, rows in slot.items() if rows[-_WIDTH] < oldest]:
            self.size -= len(slot.pop(key)) // _WIDTH * len(QUANTILES)

    def learns_until(self) -> int | None:
        """Return the time from which on numbers can be judged, in us; None before the first window."""
        if self.begun is None:
            return None
        return (self.begun + LEAST_OCCURRENCES * self._season.hours) * HOUR

    # ---- Files ---------------------------------------------------------------------------------------------

    def slot_of(self, hour: int) -> int:
        """Return the number of the slot that an hour's occurrences are in."""
        return hour % self._season.hours

    def list_slot(self, slot: int) -> list[tuple[Key, list[float]]]:
        """List the keys of a slot with their occurrences, each an hour and its numbers."""
        return [(key, rows.tolist()) for key, rows in self._slots.get(slot, {}).items()]

    def load_slot(self, slot: int, rows: Iterable[tuple[Key, Sequence[float]]]) -> None:
        """Take what `list_slot` gave. Raises: ValueError, TypeError."""
        for key, occurrences in rows:
            numbers = array("d", occurrences)
            if not numbers or len(numbers) % _WIDTH or not all(map(math.isfinite, numbers)):
                raise ValueError("these are no occurrences")
            self._slots.setdefault(slot, {})[key] = numbers
            self.keys.add(key)
            self.size += len(numbers) // _WIDTH * len(QUANTILES)
            self.merged = max(self.merged, int(numbers[-_WIDTH]))

    def load_open(self, begun: int, windows: Iterable[tuple[int, Mapping[Key, float]]]) -> None:
        """Take the first hour, and what `list_open` gave."""
        self.begun = begun
        self._open |= {window: dict(numbers) for window, numbers in windows}

    def forget_merged(self) -> None:
        """Forget the numbers of hours that are occurrences already, once all files are read."""
        self._open = {window: rows for window, rows in self._open.items() if hour_of(window) > self.merged}

    def list_open(self) -> dict[int, list[tuple[Key, float]]]:
        """List the numbers of the windows whose hours go on."""
        return {window: list(numbers.items()) for window, numbers in self._open.items()}


def _quantiles(numbers: Sequence[float]) -> Iterator[float]:
    """Yield the numbers at QUANTILES."""
    ordered = sorted(numbers)
    return (ordered[int(share * len(ordered))] for share in QUANTILES)
