"""EndOfMonth(seconds, zone)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.functions.zones import check_zone
from daggersql.ir.families import Family
from daggersql.ir.types import BIGINT

FUNCTION = Function(
    "EndOfMonth",
    (Signature((Family.INTEGER, Family.TEXT), BIGINT, "endofmonth(CAST({0} AS BIGINT), {1})"),),
    own=True,
    check=check_zone(1),
    doc=Doc(
        "The last second of the month that the instant lies in, by the zone's clocks, in seconds. A second"
        " that comes twice counts the later time."
        " NULL, and counted as bad data, outside of the years 1 to 9999 and for a column's unknown zone.",
        (
            ("seconds", "an instant, in seconds since 1970 UTC"),
            ("zone", "a time zone, such as Asia/Jakarta or GMT+07:00"),
        ),
        (
            ("EndOfMonth(1562224758, 'UTC')", "1564617599"),
            ("EndOfMonth(-86400, 'UTC')", "-1"),
        ),
        dagger="rounds towards zero before 1970; takes an unknown zone for UTC.",
    ),
)
