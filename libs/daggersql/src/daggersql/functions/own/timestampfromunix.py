"""TimestampFromUnix(seconds)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.families import Family
from daggersql.ir.types import MESSAGE_TIME

FUNCTION = Function(
    "TimestampFromUnix",
    (Signature((Family.INTEGER,), MESSAGE_TIME, "timestampfromunix(CAST({0} AS BIGINT))"),),
    own=True,
    doc=Doc(
        "The timestamp of an instant, which has .seconds and .nanos like a message's. NULL, and counted as"
        " bad data, outside of the years 1 to 9999.",
        (("seconds", "seconds since 1970 UTC; negative before"),),
        (
            ("TimestampFromUnix(1711846799)", "2024-03-31 00:59:59.000"),
            ("TimestampFromUnix(-1)", "1969-12-31 23:59:59.000"),
        ),
        dagger="loses the sign, so that times before 1970 come out after it.",
    ),
)
