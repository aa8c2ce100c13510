"""DistinctCount(x): how many different values a group has; NULL is none.

The fast form is native: a Theta sketch of 2^15 entries, which `daggersql.functions.own` writes into the
query. It is exact up to 32,768 values a group; beyond, an estimate with a standard error of 0.55 %. State is
8 bytes for each value kept, so at most 512 KiB a group, and merges across batches and partitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from runtime.values.registration import Registration


def reference(rows: Iterable[tuple[object]]) -> int:
    """Count different values one by one. NaN is one value, as in SQL."""
    values = (value for (value,) in rows if value is not None)
    return len({"NaN" if isinstance(value, float) and math.isnan(value) else value for value in values})


def register(session: Registration) -> None:
    """Bring nothing: Spark has the sketch."""
