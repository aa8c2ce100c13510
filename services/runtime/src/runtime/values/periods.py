"""Find beginnings and ends of months, weeks and days on a zone's clocks, for several time functions.

For references plain `datetime`s, for the fast forms numpy arrays of wall times (see `zones.py`). Instants and
wall times outside of the years 1 to 9999 have no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.values import zones
from runtime.values.zones import Clock, Ints

Bools: TypeAlias = npt.NDArray[np.bool_]
_DAY = 86_400
MILLISECONDS_FROM = 100_000_000_000
"""From this magnitude on, arguments of a week's function are milliseconds: year 5138 in seconds."""


def local_time(seconds: int | None, zone: str | None) -> tuple[datetime, tzinfo] | None:
    """Return an instant's wall time and the zone; None for NULL, an unknown zone, outside of the years."""
    if seconds is None or zone is None or not zones.FIRST <= seconds <= zones.LAST:
        return None
    tz = zones.find(zone)
    wall = None if tz is None else zones.wall_time(seconds, tz)
    return None if tz is None or wall is None else (wall, tz)


def midnight(wall: datetime, days: int = 0) -> datetime | None:
    """Return midnight of a day, some days later or earlier; None outside of the years."""
    try:
        return wall.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)
    except OverflowError:
        return None


def month_begins(walls: Ints) -> Ints:
    """Return midnight of the first day of each month; wall times in seconds in and out."""
    return _from_months(_months(walls))


def month_ends(walls: Ints) -> Ints:
    """Return the last second of each month."""
    return _from_months(_months(walls) + 1) - 1


def week_begins(walls: Ints) -> Ints:
    """Return midnight of each week's Monday; 1970 began on a Thursday."""
    days = walls // _DAY
    return (days - (days + 3) % 7) * _DAY


def week_ends(walls: Ints) -> Ints:
    """Return the last second of each week's Sunday."""
    return week_begins(walls) + 7 * _DAY - 1


def numbers(values: pa.Array) -> Ints:
    """Convert whole numbers to int64, one for each value; NULL is 0."""
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), dtype=np.int64)


def all_valid(*arrays: pa.Array) -> Bools:
    """Mark the rows where none of the arrays is NULL."""
    valid: Bools = np.ones(len(arrays[0]), dtype=np.bool_)
    for array in arrays:
        if array.null_count:
            valid &= pc.is_valid(array).to_numpy(zero_copy_only=False)
    return valid


def within(times: Ints) -> Bools:
    """Mark the instants or wall times, in seconds, that lie in the years 1 to 9999."""
    return (times >= zones.FIRST) & (times <= zones.LAST)


def by_zone(zone: pa.Array) -> Iterator[tuple[Clock, Bools | slice]]:
    """Yield the clocks of each zone that is named, and the rows that name it; rows of unknown zones never."""
    coded = zone.dictionary_encode()
    names = coded.dictionary.to_pylist()
    rows = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for code, name in enumerate(names):
        clock = zones.clock(name)
        if clock is not None:
            # A view is cheaper than a selection, and one zone for all rows is the rule.
            yield clock, (slice(None) if len(names) == 1 and zone.null_count == 0 else rows == code)


def compute(
    seconds: pa.Array, zone: pa.Array, bound: Callable[[Ints], Ints], back: Callable[[Clock, Ints], Ints]
) -> pa.Array:
    """Compute the bound of each instant's period, in seconds: `bound` of its wall time, `back` on clocks."""
    instants, valid = numbers(seconds), all_valid(seconds, zone)
    valid &= within(instants)
    instants = np.where(valid, instants, 0)
    answers, answered = np.zeros_like(instants), np.zeros_like(valid)
    for clock, rows in by_zone(zone):
        walls = clock.wall(instants[rows])
        bounds = bound(walls)
        answered[rows] = within(walls) & within(bounds)
        answers[rows] = back(clock, bounds)
    return pa.array(answers, mask=~(valid & answered))


def in_own_unit(times: pa.Array, answer: Callable[[pa.Array], pa.Array], last_ms: int) -> pa.Array:
    """Compute `answer` of seconds; of milliseconds in milliseconds, with `last_ms` added."""
    if len(times) == 0 or times.null_count == len(times):
        return answer(times)
    given_numbers = numbers(times)
    fine = (given_numbers > -MILLISECONDS_FROM) & (given_numbers < MILLISECONDS_FROM)
    if fine.all():
        return answer(times)
    seconds = np.where(fine, given_numbers, given_numbers // 1000)
    answers = answer(pa.array(seconds, mask=~all_valid(times)))
    found_numbers = numbers(answers)
    return pa.array(np.where(fine, found_numbers, found_numbers * 1000 + last_ms), mask=~all_valid(answers))


def _months(walls: Ints) -> Ints:
    """Number months since January 1970."""
    return (walls // _DAY).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _from_months(months: Ints) -> Ints:
    days: Ints = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    return days * _DAY
