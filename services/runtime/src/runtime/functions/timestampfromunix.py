"""TimestampFromUnix(seconds): the timestamp of an instant in seconds since 1970 UTC, negative before.

NULL for NULL and outside of the years 1 to 9999. Fast form: numpy over Arrow batches; not native, so that
invalid data is counted.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from runtime.values import periods, zones
from runtime.values.registration import Registration


def reference(seconds: int | None) -> datetime | None:
    """Convert one instant, in seconds since 1970, to an aware timestamp; None outside of the years."""
    if seconds is None or not zones.FIRST <= seconds <= zones.LAST:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def compute(seconds: pa.Array) -> pa.Array:
    """Convert many instants: seconds since 1970 in, timestamps with microseconds out."""
    instants = periods.numbers(seconds)
    valid = periods.all_valid(seconds) & periods.within(instants)
    micros = pa.array((instants * valid) * 1_000_000, mask=~valid)
    return micros.cast(pa.timestamp("us", "UTC"))


def register(session: Registration) -> None:
    """Bring `timestampfromunix(BIGINT) -> TIMESTAMP` to the session."""
    session.function("timestampfromunix", compute, "timestamp")
