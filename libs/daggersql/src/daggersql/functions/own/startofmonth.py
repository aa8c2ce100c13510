"""StartOfMonth(seconds, zone)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.functions.zones import check_zone
from daggersql.ir.families import Family
from daggersql.ir.types import BIGINT

FUNCTION = Function(
    "StartOfMonth",
    (Signature((Family.INTEGER, Family.TEXT), BIGINT, "startofmonth(CAST({0} AS BIGINT), {1})"),),
    own=True,
    check=check_zone(1),
    doc=Doc(
        "The first second of the month that the instant lies in, by the zone's clocks, in seconds. A midnight"
        " that the clocks skip is the first instant after it; of one that comes twice, the earlier counts."
        " NULL, and counted as bad data, outside of the years 1 to 9999 and for a column's unknown zone.",
        (
            ("seconds", "an instant, in seconds since 1970 UTC"),
            ("zone", "a time zone, such as Asia/Jakarta or GMT+07:00"),
        ),
        (
            ("StartOfMonth(1562224758, 'Asia/Kolkata')", "1561919400"),
            ("StartOfMonth(-1, 'UTC')", "-2678400"),
        ),
        dagger="gives the Monday of the week that the month begins in; takes an unknown zone for UTC.",
    ),
)
