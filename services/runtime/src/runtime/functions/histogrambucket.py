"""HistogramBucket(value, bounds): the buckets of a cumulative histogram that a value falls into.

The fast form is native: `daggersql.functions.own` writes it into the query.
"""

from __future__ import annotations

from daggersql.functions import reals
from daggersql.functions.own.histogrambucket import bounds_of
from runtime.values.registration import Registration


def reference(value: float | None, bounds: str | None) -> list[tuple[str]]:
    """'+Inf', then every bound that is not below the value, as it is written; no row for NULL."""
    if value is None or bounds is None:
        return []
    numbers = ((bound, reals.read(bound)) for bound in bounds_of(bounds))
    return [("+Inf",), *((bound,) for bound, number in numbers if number is not None and number >= value)]


def register(session: Registration) -> None:
    """Bring nothing: Spark has filters over lists."""
