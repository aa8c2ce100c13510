"""Series of one value a minute, in both forms: what EMA, LinearTrend and OutlierMad have in common.

A plain series is two lists, of aware datetimes and of numbers, of one length; a point whose time or value is
None is left out. A batch of series is two Arrow list columns, of timestamps (us) and of doubles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

MAX_MINUTES = 31 * 24 * 60
_MINUTE = timedelta(minutes=1)
_MINUTE_US = 60_000_000

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

Times = Sequence[datetime | None]
Numbers = Sequence[float | None]


def points(times: Times, values: Numbers) -> Iterator[tuple[datetime, float]]:
    """Yield the points of a series that have both a time and a value. Both lists have one length."""
    for time, value in zip(times, values, strict=True):
        if time is not None and value is not None:
            yield time, float(value)


def minutes(series: Iterable[tuple[datetime, float]], start: datetime, window: int) -> list[float]:
    """Return the value of each of the `window` minutes: 0 without one; of two the later in the list."""
    values = [0.0] * window
    for time, value in series:
        minute = (time - start) // _MINUTE
        if 0 <= minute < window:
            values[minute] = value
    return values


def whole_minutes(window: float | None) -> int | None:
    """Return the length of a window in minutes; None for what is no whole number of them, or too long."""
    if window is None or not 1 <= window <= MAX_MINUTES or window != int(window):
        return None
    return int(window)


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a batch of series, one after the other."""

    row: Ints
    """Index of the series that each point is of."""
    time: Ints
    """Microseconds since 1970."""
    value: Floats

    def only(self, which: Bools) -> Points:
        """Return the points that `which` marks."""
        return Points(self.row[which], self.time[which], self.value[which])


def flatten(times: pa.ListArray, values: pa.ListArray) -> tuple[Points, Bools]:
    """Join all points that have a time and a value, in order; mark the series with lists of equal length."""
    there = np.asarray(
        pc.fill_null(pc.equal(pc.list_value_length(times), pc.list_value_length(values)), False).to_numpy(
            zero_copy_only=False
        ),
        dtype=bool,
    )
    mask = pa.array(there)
    numbers = np.flatnonzero(there)
    times, values = times.filter(mask), values.filter(mask)
    row = np.repeat(numbers, pc.list_value_length(times).to_numpy(zero_copy_only=False))
    time, value = times.flatten(), values.flatten()
    valid = np.asarray(pc.and_(time.is_valid(), value.is_valid()).to_numpy(zero_copy_only=False), dtype=bool)
    micros = pc.fill_null(time.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 0).to_numpy()
    doubles = pc.fill_null(value.cast(pa.float64()), 0.0).to_numpy()
    return Points(row, micros, doubles).only(valid), there


def last_of_minutes(points: Points, start: Ints, window: Ints) -> tuple[Points, Ints]:
    """Return the points that count in their windows, of two in one minute the later, and their minutes.

    `start` (us) and `window` (minutes) are those of each series.
    """
    minute = (points.time - start[points.row]) // _MINUTE_US
    inside = (minute >= 0) & (minute < window[points.row])
    points, minute = points.only(inside), minute[inside]
    # Of equal numbers `unique` takes the first: so backwards, the last.
    slot = points.row * (MAX_MINUTES + 1) + minute
    _, behind = np.unique(slot[::-1], return_index=True)
    last = len(slot) - 1 - behind
    return Points(points.row[last], points.time[last], points.value[last]), minute[last]


def micros(times: pa.Array) -> tuple[Ints, Bools]:
    """Convert timestamps to microseconds since 1970, 0 for NULL, and mark those that are not NULL."""
    valid = np.asarray(times.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    numbers = pc.fill_null(times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 0).to_numpy()
    return numbers, valid


def numbers(values: pa.Array) -> Floats:
    """Convert numbers to doubles, one for each value; NaN for NULL."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)
