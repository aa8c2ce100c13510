"""TimeInDate(seconds, hour, minute, zone): a time of day on the instant's day, both by the zone's clocks.

Seconds since 1970 UTC in and out. Of a time that comes twice the later counts, one that the clocks skip is as
much later as they jump. NULL for NULL, outside of the years 1 to 9999, for an unknown zone, for an hour or
minute that no clock shows. Fast form: numpy over Arrow batches, one pass for each zone that a batch names.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.values import periods, zones
from runtime.values.registration import Registration

_DAY, _HOUR, _MINUTE = 86_400, 3600, 60


def reference(
    seconds: int | None, hour: int | None, minute: int | None, zone: str | None = "UTC"
) -> int | None:
    """Return the instant of that time of day."""
    local = periods.local_time(seconds, zone)
    if local is None or hour is None or minute is None or not (0 <= hour <= 23 and 0 <= minute <= 59):
        return None
    wall, where = local
    return zones.later_instant(wall.replace(hour=hour, minute=minute, second=0, microsecond=0), where)


def compute(seconds: pa.Array, hour: pa.Array, minute: pa.Array, zone: pa.Array) -> pa.Array:
    """Compute many such instants: integers and texts in, integers out, all of one length."""
    instants, hours, minutes = map(periods.numbers, (seconds, hour, minute))
    valid = periods.all_valid(seconds, hour, minute, zone) & periods.within(instants)
    valid &= (hours >= 0) & (hours <= 23) & (minutes >= 0) & (minutes <= 59)
    instants = np.where(valid, instants, 0)
    times = hours * _HOUR + minutes * _MINUTE
    answers, answered = np.zeros_like(instants), np.zeros_like(valid)
    for clock, rows in periods.by_zone(zone):
        walls = clock.wall(instants[rows])
        answered[rows] = periods.within(walls)
        answers[rows] = clock.later(walls // _DAY * _DAY + times[rows])
    return pa.array(answers, mask=~(valid & answered))


def register(session: Registration) -> None:
    """Bring `timeindate(BIGINT, INT, INT, STRING) -> BIGINT` to the session."""
    session.function("timeindate", compute, "bigint")
