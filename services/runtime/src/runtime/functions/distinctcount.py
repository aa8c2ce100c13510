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
    """How many different values there are, counted one by one. NaN is one value, as in SQL."""
    known = (value for (value,) in rows if value is not None)
    return len({"NaN" if isinstance(value, float) and math.isnan(value) else value for value in known})


def register(session: Registration) -> None:
    """Nothing to bring: Spark has the sketch."""
