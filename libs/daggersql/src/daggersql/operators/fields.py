"""Fields that are no columns of their own: those that a Timestamp and a Duration still have."""

from __future__ import annotations

from daggersql.ir.ops import Op
from daggersql.ir.types import BIGINT, DURATION, INT, MESSAGE_TIME, Type

TIME_FIELDS: dict[tuple[Type, str], tuple[Op, Type]] = {
    (MESSAGE_TIME, "seconds"): (Op.TIME_SECONDS, BIGINT),
    (MESSAGE_TIME, "nanos"): (Op.TIME_NANOS, INT),
    (DURATION, "seconds"): (Op.DURATION_SECONDS, BIGINT),
    (DURATION, "nanos"): (Op.DURATION_NANOS, INT),
}
"""Fields that a Timestamp and a Duration still have as columns: what reads each, and its type."""
