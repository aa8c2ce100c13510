"""Local time in a zone: of one instant for references, of whole numpy arrays for the fast forms.

Instants are seconds since 1970 UTC, wall times are seconds since 1970-01-01 00:00 on the zone's clocks. Both
stay in the years 1 to 9999. The rules are those of the package tzdata, never the machine's own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cached_property, lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import tzdata  # type: ignore[import-untyped]  # it is but a folder of data

from daggersql.functions import zones

Ints = npt.NDArray[np.int64]

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall time, or UTC where it is added to seconds
_SECOND = timedelta(seconds=1)
FIRST, LAST = -62_135_596_800, 253_402_300_799
"""First second of year 1 and last one of year 9999."""
_CYCLE = 146_097 * 86_400
"""Seconds in 400 years: the calendar, weekdays included, and so every rule of a zone begins again."""
_DAY, _MONTH = 86_400, 30 * 86_400
_LONG_AGO, _NEVER = -(1 << 60), 1 << 60


def wall_time(seconds: int, zone: tzinfo) -> datetime | None:
    """Return the wall time of an instant; None outside of the years 1 to 9999."""
    try:
        return (EPOCH.replace(tzinfo=UTC) + seconds * _SECOND).astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        return None


def first_instant(wall: datetime, zone: tzinfo) -> int:
    """Return the first instant at which the clocks show `wall`; if they never do, when they pass it."""
    early, late = _instant(wall, zone, fold=0), _instant(wall, zone, fold=1)
    return early if early <= late else _find_jump(wall, zone)


def last_instant(wall: datetime, zone: tzinfo) -> int:
    """Return the last instant at which clocks show `wall`; if they never do, a second before they pass it."""
    early, late = _instant(wall, zone, fold=0), _instant(wall, zone, fold=1)
    return late if early <= late else _find_jump(wall, zone) - 1


def later_instant(wall: datetime, zone: tzinfo) -> int:
    """Return the later instant at which clocks show `wall`; if they never do, as much later as they jump."""
    return max(_instant(wall, zone, fold=0), _instant(wall, zone, fold=1))


def _instant(wall: datetime, zone: tzinfo, fold: int) -> int:
    offset = wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()
    return (wall - EPOCH - offset) // _SECOND


def _find_jump(wall: datetime, zone: tzinfo) -> int:
    """Find the instant when clocks jump over `wall`, by bisection between the offsets before and after."""
    before, after = _instant(wall, zone, fold=1) - 1, _instant(wall, zone, fold=0)
    while after - before > 1:
        middle = (before + after) // 2
        local = wall_time(middle, zone)
        before, after = (middle, after) if local is None or local < wall else (before, middle)
    return after


@lru_cache(maxsize=1024)
def find(name: str) -> tzinfo | None:
    """Find the zone of a name that a query may write; None when there is none."""
    resolved = zones.find(name)
    if isinstance(resolved, timedelta):
        return timezone(resolved)
    if resolved is None:
        return None
    with _file(resolved).open("rb") as data:
        return ZoneInfo.from_file(data, key=resolved)


@lru_cache(maxsize=1024)
def clock(name: str) -> Clock | None:
    """Build the clock of a zone's name, for arrays; None when there is none."""
    zone, resolved = find(name), zones.find(name)
    if zone is None or resolved is None:
        return None
    if isinstance(resolved, timedelta):
        return Clock(zone, np.array([_LONG_AGO]), np.array([resolved // _SECOND]), _NEVER)
    starts, offsets = _read_changes(_file(resolved).read_bytes())
    # Behind the last change that the file lists come its rules, the same every year.
    last = max(int(starts[-1]), FIRST + _MONTH)
    base = last + 12 * _MONTH
    later = _find_changes(zone, last, base + _CYCLE + 12 * _MONTH)
    return Clock(
        zone,
        np.concatenate((starts, np.array([start for start, _ in later], dtype=np.int64))),
        np.concatenate((offsets, np.array([offset for _, offset in later], dtype=np.int64))),
        base,
    )


@dataclass(frozen=True)
class Clock:
    """A zone's offsets from UTC, in seconds, each from an instant to the next."""

    zone: tzinfo
    starts: Ints
    offsets: Ints
    base: int
    """From here on everything repeats every 400 years; the arrays reach a little beyond the first time."""

    def wall(self, instants: Ints) -> Ints:
        """Return the wall time of each instant, in seconds."""
        moved, cycles = self._first_cycle(instants)
        index = np.searchsorted(self.starts, moved, side="right") - 1
        walls: Ints = moved + self.offsets[index] + cycles
        return walls

    def names(self, instants: Ints) -> tuple[list[str], Ints]:
        """Return the different abbreviations of the zone's time (EST, EDT), and the index of each instant."""
        moved, _ = self._first_cycle(instants)
        used, which = np.unique(np.searchsorted(self.starts, moved, side="right") - 1, return_inverse=True)
        starts = [EPOCH + max(int(self.starts[number]), FIRST + _DAY) * _SECOND for number in used]
        names = [start.replace(tzinfo=UTC).astimezone(self.zone).tzname() or "" for start in starts]
        return names, which.astype(np.int64)

    def first(self, walls: Ints) -> Ints:
        """Return the first instant of each wall time; if clocks never show it, when they pass it."""
        moved, cycles = self._first_cycle(walls)
        index = np.searchsorted(self._reached, moved, side="right")
        instants: Ints = np.maximum(self.starts[index], moved - self.offsets[index]) + cycles
        return instants

    def last(self, walls: Ints) -> Ints:
        """Return the last instant of each wall time; if clocks never show it, a second before they pass."""
        moved, cycles = self._first_cycle(walls)
        index = np.searchsorted(self._left, moved, side="right") - 1
        instants: Ints = np.minimum(self._ends[index] - 1, moved - self.offsets[index]) + cycles
        return instants

    def later(self, walls: Ints) -> Ints:
        """Return the later instant of each wall time; if clocks never show it, as much later as they jump."""
        moved, cycles = self._first_cycle(walls)
        index = np.searchsorted(self._left, moved, side="right") - 1
        instants: Ints = moved - self.offsets[index] + cycles
        return instants

    def _first_cycle(self, times: Ints) -> tuple[Ints, Ints]:
        """Move times into the arrays by whole cycles, and return what was taken off."""
        cycles = np.maximum((times - self.base) // _CYCLE, 0) * _CYCLE
        return times - cycles, cycles

    @cached_property
    def _ends(self) -> Ints:
        return np.append(self.starts[1:], _NEVER)

    @cached_property
    def _reached(self) -> Ints:
        """For each offset: the latest that clocks have shown by its end."""
        return np.maximum.accumulate(self._ends + self.offsets)

    @cached_property
    def _left(self) -> Ints:
        """For each offset: the earliest that clocks will show from its start on."""
        return np.minimum.accumulate((self.starts + self.offsets)[::-1])[::-1]


def _file(name: str) -> resources.abc.Traversable:
    return resources.files(tzdata).joinpath("zoneinfo", *name.split("/"))


def _read_changes(data: bytes) -> tuple[Ints, Ints]:
    """Read the changes that a TZif file lists (RFC 8536): the second block, with 64-bit times."""
    first = struct.unpack_from(">6l", data, 20)
    skipped = 44 + _length(first, 4)
    times, types = struct.unpack_from(">2l", data, skipped + 32)
    begin = skipped + 44
    changes = struct.unpack_from(f">{times}q", data, begin)
    kinds = struct.unpack_from(f">{times}B", data, begin + 8 * times)
    offsets = [struct.unpack_from(">l", data, begin + 9 * times + 6 * kind)[0] for kind in range(types)]
    return (
        np.array([_LONG_AGO, *changes], dtype=np.int64),
        np.array([offsets[0], *(offsets[kind] for kind in kinds)], dtype=np.int64),
    )


def _length(counts: tuple[int, ...], width: int) -> int:
    is_utc, is_std, leaps, times, types, chars = counts
    return times * (width + 1) + types * 6 + chars + leaps * (width + 4) + is_std + is_utc


def _find_changes(zone: tzinfo, begin: int, end: int) -> list[tuple[int, int]]:
    """Find changes of offset between two instants, by bisection: rules have none less than a month apart."""

    def offset(instant: int) -> int:
        local = (EPOCH + instant * _SECOND).replace(tzinfo=UTC).astimezone(zone)
        return (local.utcoffset() or timedelta()) // _SECOND

    changes = []
    low, before = begin, offset(begin)
    for step in range(begin + _MONTH // 2, end, _MONTH // 2):
        high, after = step, offset(step)
        if after != before:
            left, right = low, high
            while right - left > 1:
                middle = (left + right) // 2
                left, right = (middle, right) if offset(middle) == before else (left, middle)
            changes.append((right, after))
        low, before = high, after
    return changes
