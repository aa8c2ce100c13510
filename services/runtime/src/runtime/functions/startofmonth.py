"""StartOfMonth(seconds, zone): the first second of the month, by the zone's clocks.

Seconds since 1970 UTC in and out. NULL for NULL, outside of the years 1 to 9999, for an unknown zone. Fast
form: numpy over Arrow batches, one pass for each zone that a batch names.
"""

from __future__ import annotations

import pyarrow as pa

from runtime.values import periods, zones
from runtime.values.registration import Registration
from runtime.values.zones import Clock


def reference(seconds: int | None, zone: str | None) -> int | None:
    """The month's first second."""
    shown = periods.shown(seconds, zone)
    if shown is None:
        return None
    wall, where = shown
    first = wall.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return zones.first_instant(first, where)


def compute(seconds: pa.Array, zone: pa.Array) -> pa.Array:
    """The same for many instants: integers and texts in, integers out, all of one length."""
    return periods.compute(seconds, zone, periods.month_begins, Clock.first)


def register(session: Registration) -> None:
    """Bring `startofmonth(BIGINT, STRING) -> BIGINT` to the session."""
    session.function("startofmonth", compute, "bigint")
