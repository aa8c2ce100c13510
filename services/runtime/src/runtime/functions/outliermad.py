"""OutlierMad(values, times, hop_start, window, observed, tolerance, percentage): does a series go astray?

Double median absolute deviation: the values at or below the median of all, and those at or above it, each
have the median distance from their own median as deviation. The fast form is a numpy pass for each series of
an Arrow batch: medians of lists of different length have no common vector form.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from runtime.values import series
from runtime.values.registration import Registration
from runtime.values.series import Floats, Numbers, Points, Times

Row: TypeAlias = tuple[datetime, float, float, float, bool]
_ROW = pa.struct(
    [
        ("timestamp", pa.timestamp("us", "UTC")),
        ("value", pa.float64()),
        ("upper", pa.float64()),
        ("lower", pa.float64()),
        ("is_outlier", pa.bool_()),
    ]
)
_DDL = "array<struct<timestamp:timestamp,value:double,upper:double,lower:double,is_outlier:boolean>>"


def reference(
    values: Numbers | None,
    times: Times | None,
    start: datetime | None,
    window: int | None,
    observed: int | None,
    tolerance: float | None,
    percentage: float | None,
) -> list[Row]:
    """Judge one series: rows (time, value, upper bound, lower bound, whether the series goes astray)."""
    if values is None or times is None or start is None or len(values) != len(times):
        return []
    if tolerance is None or percentage is None or not (tolerance >= 0 and 0 <= percentage <= 100):
        return []
    length, period = series.whole_minutes(window), series.whole_minutes(observed)
    if length is None or period is None:
        return []
    points = sorted(
        (point for point in series.points(times, values) if math.isfinite(point[1])),
        key=lambda point: point[0],
    )
    since = start + timedelta(minutes=length - period)
    watched = [point for point in points if point[0] >= since]
    if not watched:
        return []
    middle = statistics.median(value for _, value in points)
    low = _deviation([value for _, value in points if value <= middle])
    high = _deviation([value for _, value in points if value >= middle])
    if 0 in (low, high):
        return [(time, value, value, value, percentage <= 0) for time, value in watched]
    own = [low if value <= middle else high for _, value in watched]
    astray = sum(abs(value - middle) / mad > tolerance for (_, value), mad in zip(watched, own, strict=True))
    flag = astray * 100 / len(watched) >= percentage
    return [
        (time, value, middle + tolerance * mad, middle - tolerance * mad, flag)
        for (time, value), mad in zip(watched, own, strict=True)
    ]


def _deviation(values: Sequence[float]) -> float:
    """Return the median distance of values from their median."""
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


def compute(
    values: pa.Array,
    times: pa.Array,
    start: pa.Array,
    window: pa.Array,
    observed: pa.Array,
    tolerance: pa.Array,
    percentage: pa.Array,
) -> pa.Array:
    """Judge many series: a list of structs for each; NULL for a series that cannot be used."""
    points, valid = series.flatten(times, values)
    starts, has_start = series.micros(start)
    lengths, periods = series.numbers(window), series.numbers(observed)
    limits, shares = series.numbers(tolerance), series.numbers(percentage)
    for span in (lengths, periods):
        valid = valid & (span >= 1) & (span <= series.MAX_MINUTES)
    valid = valid & has_start & (limits >= 0) & (shares >= 0) & (shares <= 100)
    since = starts + np.where(valid, lengths - periods, 0).astype(np.int64) * 60_000_000
    points = points.only(valid[points.row] & np.isfinite(points.value))
    order = np.lexsort((points.time, points.row))
    points = Points(points.row[order], points.time[order], points.value[order])
    ends = np.searchsorted(points.row, np.arange(len(valid) + 1))
    parts = []
    for row in np.flatnonzero(np.diff(ends)).tolist():
        part = slice(ends[row], ends[row + 1])
        watched = points.time[part] >= since[row]
        if watched.any():
            answer = _bounds(points.value[part], watched, limits[row], shares[row])
            parts.append((row, points.time[part][watched], *answer))
    return _to_lists(parts, valid)


def _bounds(
    values: Floats, watched: series.Bools, tolerance: float, percentage: float
) -> tuple[Floats, Floats, Floats, bool]:
    """Return watched values, their upper and lower bounds, and the flag."""
    middle, watched_values = np.median(values), values[watched]
    low, high = (_spread(half) for half in (values[values <= middle], values[values >= middle]))
    if low == 0 or high == 0:
        return watched_values, watched_values, watched_values, bool(percentage <= 0)
    own = np.where(watched_values <= middle, low, high)
    with np.errstate(over="ignore"):  # further away than any number tells
        astray = np.count_nonzero(np.abs(watched_values - middle) / own > tolerance)
    flag = astray * 100 / len(watched_values) >= percentage
    return watched_values, middle + tolerance * own, middle - tolerance * own, bool(flag)


def _spread(values: Floats) -> float:
    return float(np.median(np.abs(values - np.median(values))))


def _to_lists(
    parts: Sequence[tuple[int, series.Ints, Floats, Floats, Floats, bool]], valid: series.Bools
) -> pa.Array:
    """Join the rows of each series to one list column; NULL where a series is not valid."""
    counts = np.zeros(len(valid) + 1, dtype=np.int64)
    for row, times, *_ in parts:
        counts[row + 1] = len(times)
    columns = [
        np.concatenate([part[index] for part in parts]) if parts else np.zeros(0) for index in (1, 2, 3, 4)
    ]
    flags = np.concatenate([np.full(len(part[1]), part[5]) for part in parts]) if parts else np.zeros(0, bool)
    arrays = [
        pa.array(columns[0].astype(np.int64)).cast(_ROW.field(0).type),
        *(pa.array(column, pa.float64()) for column in columns[1:]),
        pa.array(flags, pa.bool_()),
    ]
    structs = pa.StructArray.from_arrays(arrays, fields=list(_ROW))
    offsets = pa.array(np.cumsum(counts), pa.int32())
    return pa.ListArray.from_arrays(offsets, structs, mask=pa.array(~valid))


def register(session: Registration) -> None:
    """Bring `outliermad(ARRAY<DOUBLE>, ARRAY<TIMESTAMP>, TIMESTAMP, BIGINT, BIGINT, DOUBLE, DOUBLE)`."""
    session.function("outliermad", compute, _DDL)
