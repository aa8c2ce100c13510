"""Fields that are no columns of their own: those that a Timestamp and a Duration still have."""

from __future__ import annotations

from daggersql.ir.types import BIGINT, DURATION, INT, MESSAGE_TIME, Type

_MICROS = "extract(SECOND FROM {0}) * 1000000"
TIME_FIELDS: dict[tuple[Type, str], tuple[str, Type]] = {
    (MESSAGE_TIME, "seconds"): ("unix_seconds({0})", BIGINT),
    (MESSAGE_TIME, "nanos"): ("CAST(pmod(unix_micros({0}), 1000000) * 1000 AS INT)", INT),
    (DURATION, "seconds"): (
        "(extract(DAY FROM {0}) * 86400L + extract(HOUR FROM {0}) * 3600L + extract(MINUTE FROM {0}) * 60L"
        " + CAST(extract(SECOND FROM {0}) AS BIGINT))",
        BIGINT,
    ),
    (DURATION, "nanos"): (f"CAST({_MICROS} % 1000000 * 1000 AS INT)", INT),
}
"""Fields that a Timestamp and a Duration still have as columns: how Spark is told, and the type."""
