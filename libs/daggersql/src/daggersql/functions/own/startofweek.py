"""StartOfWeek(seconds, zone)."""

from __future__ import annotations

from daggersql.functions.signature import Doc, Function, Signature
from daggersql.functions.zones import check_zone
from daggersql.ir.families import Family
from daggersql.ir.types import BIGINT

FUNCTION = Function(
    "StartOfWeek",
    (Signature((Family.INTEGER, Family.TEXT), BIGINT, "startofweek(CAST({0} AS BIGINT), {1})"),),
    own=True,
    check=check_zone(1),
    doc=Doc(
        "The first second of the week that the instant lies in, by the zone's clocks, in the unit that the"
        " instant came in. Weeks begin on Monday. A midnight that the clocks skip is the first instant after"
        " it; of one that comes twice, the earlier counts."
        " NULL, and counted as bad data, outside of the years 1 to 9999 and for a column's unknown zone.",
        (
            ("seconds", "an instant, in seconds since 1970 UTC, or in milliseconds from 100,000,000,000 on"),
            ("zone", "a time zone, such as Asia/Jakarta or GMT+07:00"),
        ),
        (
            ("StartOfWeek(1562457600, 'UTC')", "1561939200"),
            ("StartOfWeek(1704085199, 'America/New_York')", "1703480400"),
        ),
        dagger="takes milliseconds, whatever its documentation says, and lets the machine's locale decide"
        " when weeks begin; takes an unknown zone for UTC.",
    ),
)
