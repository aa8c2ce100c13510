"""EndOfMonth(seconds, zone): the last second of the month, by the zone's clocks.

Seconds since 1970 UTC in and out. NULL for NULL, outside of the years 1 to 9999, for an unknown zone. Fast
form: numpy over Arrow batches, one pass for each zone that a batch names.
"""

from __future__ import annotations

import calendar

import pyarrow as pa

from runtime.values import periods, zones
from runtime.values.registration import Registration
from runtime.values.zones import Clock


def reference(seconds: int | None, zone: str | None) -> int | None:
    """Return the month's last second."""
    local = periods.local_time(seconds, zone)
    if local is None:
        return None
    wall, where = local
    days = calendar.monthrange(wall.year, wall.month)[1]
    last = wall.replace(day=days, hour=23, minute=59, second=59, microsecond=0)
    return zones.last_instant(last, where)


def compute(seconds: pa.Array, zone: pa.Array) -> pa.Array:
    """Compute the last seconds of many months: integers and texts in, integers out, all of one length."""
    return periods.compute(seconds, zone, periods.month_ends, Clock.last)


def register(session: Registration) -> None:
    """Bring `endofmonth(BIGINT, STRING) -> BIGINT` to the session."""
    session.function("endofmonth", compute, "bigint")
