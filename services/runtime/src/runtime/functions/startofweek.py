"""StartOfWeek(seconds, zone): the first second of the week, by the zone's clocks.

Weeks run from Monday to Sunday. Seconds since 1970 UTC in and out; from 100,000,000,000 on milliseconds in
and out, as queries for Dagger have to pass. NULL for NULL, outside of the years 1 to 9999, for an unknown
zone. Fast form: numpy over Arrow batches, one pass for each zone that a batch names.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from runtime.values import periods, zones
from runtime.values.registration import Registration
from runtime.values.zones import Clock


def reference(seconds: int | None, zone: str | None) -> int | None:
    """Return the week's first second, or millisecond where milliseconds are given."""
    if seconds is not None and abs(seconds) >= periods.MILLISECONDS_FROM:
        answer = reference_in_seconds(seconds // 1000, zone)
        return None if answer is None else answer * 1000
    return reference_in_seconds(seconds, zone)


def reference_in_seconds(seconds: int | None, zone: str | None) -> int | None:
    """Return the week's first second; seconds in and out."""
    local = periods.local_time(seconds, zone)
    if local is None:
        return None
    wall, where = local
    monday = periods.midnight(wall, -wall.weekday())
    return None if monday is None else zones.first_instant(monday, where)


def compute(seconds: pa.Array, zone: pa.Array) -> pa.Array:
    """Compute the beginnings of many weeks: integers and texts in, integers out, all of one length."""
    answer = partial(periods.compute, zone=zone, bound=periods.week_begins, back=Clock.first)
    return periods.in_own_unit(seconds, answer, last_ms=0)


def register(session: Registration) -> None:
    """Bring `startofweek(BIGINT, STRING) -> BIGINT` to the session."""
    session.function("startofweek", compute, "bigint")
