"""LinearTrend(times, values, hop_start, minutes) -> DOUBLE: the least-squares slope of one value a minute."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.values import series
from runtime.values.invalid_input import invalid_rows
from runtime.values.registration import Registration
from runtime.values.series import Numbers, Times


def reference(
    times: Times | None, values: Numbers | None, start: datetime | None, minutes: int | None
) -> float | None:
    """Return the slope per minute of one series: covariance of minute and value by variance of minutes."""
    length = series.whole_minutes(minutes)
    if times is None or values is None or start is None or length is None or len(times) != len(values):
        return None
    if length == 1:
        return None
    middle = (length - 1) / 2
    by_minute = series.minutes(series.points(times, values), start, length)
    together = sum((minute - middle) * value for minute, value in enumerate(by_minute))
    return together / sum((minute - middle) ** 2 for minute in range(length))


def compute(times: pa.Array, values: pa.Array, start: pa.Array, minutes: pa.Array) -> pa.Array:
    """Compute the slopes of many series: lists of timestamps and of doubles, timestamps, integers in."""
    points, valid = series.flatten(times, values)
    starts, has_start = series.micros(start)
    lengths = series.numbers(minutes)
    good = (lengths >= 2) & (lengths <= series.MAX_MINUTES)
    valid = valid & has_start & good
    whole = np.where(good, lengths, 2).astype(np.int64)
    points, minute = series.last_of_minutes(points.only(valid[points.row]), starts, whole)
    from_middle = minute - (whole[points.row] - 1) / 2
    together = np.bincount(points.row, from_middle * points.value, minlength=len(valid))
    varying = whole * (whole.astype(np.float64) ** 2 - 1) / 12
    return pa.array(together / varying, pa.float64(), mask=~valid)


def register(session: Registration) -> None:
    """Bring `lineartrend(ARRAY<TIMESTAMP>, ARRAY<DOUBLE>, TIMESTAMP, BIGINT) -> DOUBLE` to the session."""
    counter = session.invalid_input("lineartrend")

    def compute_and_count(times: pa.Array, values: pa.Array, start: pa.Array, minutes: pa.Array) -> pa.Array:
        answers = compute(times, values, start, minutes)
        # That one minute has no slope is nobody's mistake.
        proper = pc.if_else(pc.fill_null(pc.equal(minutes, 1), False), 0.0, answers)
        counter.add(invalid_rows((times, values, start, minutes), proper))
        return answers

    session.register_uncounted("lineartrend", compute_and_count, "double")
