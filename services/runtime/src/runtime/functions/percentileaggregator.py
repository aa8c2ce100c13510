"""PercentileAggregator(p, x) -> DOUBLE: the value at position p (n + 1) / 100 of a group's sorted numbers.

The fast form is native: `daggersql.functions.own` writes it into the query. State is the first 10,001 numbers
of a group, sorted when the window closes, and beside them Spark's quantile summary, which answers for larger
groups: within 0.05 % of the group's size of the true rank, and the same answer for the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal

from runtime.values.registration import Registration


def reference(rows: Iterable[tuple[float | Decimal, float | Decimal | None]]) -> float | None:
    """Return the percentile of rows (p, x), p the same in all; None without numbers."""
    pairs = [(float(p), float(x)) for p, x in rows if x is not None and not math.isnan(x)]
    if not pairs:
        return None
    numbers = sorted(x for _, x in pairs)
    position = pairs[0][0] * (len(numbers) + 1) / 100
    if position < 1:
        return numbers[0]
    if position >= len(numbers):
        return numbers[-1]
    below = math.floor(position)
    low, high = numbers[below - 1], numbers[below]
    return low if low == high else low + (position - below) * (high - low)


def register(session: Registration) -> None:
    """Bring nothing: Spark keeps the numbers."""
