"""ExponentialMovingAverage(times, values, hop_start, window, alpha) -> DOUBLE, over one value a minute.

average = alpha * value + (1 - alpha) * average before it, from the window's first minute on. The fast form
sums every point's value times the weight of its minute, which is the same sum written out.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pyarrow as pa

from runtime.values import series
from runtime.values.registration import Registration
from runtime.values.series import Numbers, Times


def reference(
    times: Times | None,
    values: Numbers | None,
    start: datetime | None,
    window: float | None,
    alpha: float | None,
) -> float | None:
    """Average one series minute by minute."""
    length = series.whole_minutes(window)
    if times is None or values is None or start is None or length is None or len(times) != len(values):
        return None
    if alpha is None or not 0 <= alpha <= 1:
        return None
    first, *others = series.minutes(series.points(times, values), start, length)
    average = first
    for value in others:
        average = alpha * value + (1 - alpha) * average
    return average


def compute(
    times: pa.Array, values: pa.Array, start: pa.Array, window: pa.Array, alpha: pa.Array
) -> pa.Array:
    """Average many series: lists of timestamps and of doubles, timestamps, doubles, doubles in."""
    points, valid = series.flatten(times, values)
    starts, has_start = series.micros(start)
    lengths, alphas = series.numbers(window), series.numbers(alpha)
    good = (lengths >= 1) & (lengths <= series.MAX_MINUTES) & (lengths == np.floor(lengths))
    valid = valid & has_start & good & (alphas >= 0) & (alphas <= 1)
    whole = np.where(good, lengths, 0).astype(np.int64)
    points, minute = series.last_of_minutes(points.only(valid[points.row]), starts, whole)
    own = alphas[points.row]
    # The oldest minute carries all the weight that is left.
    weight = np.where(minute == 0, 1.0, own) * (1 - own) ** (whole[points.row] - 1 - minute)
    with np.errstate(invalid="ignore"):  # infinity times nothing is NaN, in the plain form as well
        averages = np.bincount(points.row, weight * points.value, minlength=len(valid))
    return pa.array(averages, pa.float64(), mask=~valid)


def register(session: Registration) -> None:
    """Bring `exponentialmovingaverage(ARRAY<TIMESTAMP>, ARRAY<DOUBLE>, TIMESTAMP, DOUBLE, DOUBLE)`."""
    session.function("exponentialmovingaverage", compute, "double")
