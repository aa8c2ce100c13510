"""EndOfWeek(seconds, zone)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.functions.zones import check_zone
from daggersql.ir.families import Family
from daggersql.ir.types import BIGINT

FUNCTION = Function(
    "EndOfWeek",
    (Signature((Family.INTEGER, Family.TEXT), BIGINT, "endofweek(CAST({0} AS BIGINT), {1})"),),
    own=True,
    check=check_zone(1),
    doc=Doc(
        "The last second (or millisecond) of the week that the instant lies in, by the zone's clocks, in"
        " the unit that the instant came in. Weeks end on Sunday. A second that comes twice counts the later"
        " time."
        " NULL, and counted as bad data, outside of the years 1 to 9999 and for a column's unknown zone.",
        (
            ("seconds", "an instant, in seconds since 1970 UTC, or in milliseconds from 100,000,000,000 on"),
            ("zone", "a time zone, such as Asia/Jakarta or GMT+07:00"),
        ),
        (
            ("EndOfWeek(1562224758, 'Asia/Kolkata')", "1562524199"),
            ("EndOfWeek(1562543999, 'UTC')", "1562543999"),
        ),
        dagger="takes milliseconds, whatever its documentation says, and lets the machine's locale decide"
        " when weeks end; takes an unknown zone for UTC.",
    ),
)
