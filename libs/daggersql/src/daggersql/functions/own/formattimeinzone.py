"""FormatTimeInZone(time, zone, pattern)."""

from __future__ import annotations

from daggersql.functions.checks import together
from daggersql.functions.patterns import check_pattern
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.functions.zones import check_zone
from daggersql.ir.families import Family
from daggersql.ir.types import STRING

FUNCTION = Function(
    "FormatTimeInZone",
    (Signature((Family.TIMESTAMP, Family.TEXT, Family.TEXT), STRING, "formattimeinzone({0}, {1}, {2})"),),
    own=True,
    check=together(check_zone(1), check_pattern(2)),
    doc=Doc(
        "A timestamp as text, by the zone's clocks, in English. Patterns are those of Java's"
        " SimpleDateFormat: G era, y year, M month, d day, D day of the year, E weekday, u its number"
        " from Monday = 1, a AM or PM, H k K h hours (0-23, 1-24, 0-11, 1-12), m minute, s second,"
        " S millisecond, z Z X zone; other"
        " letters stand in quotes. NULL, and counted as bad data, outside of the years 1 to 9999 and for a"
        " column's unknown zone.",
        (
            ("time", "a timestamp"),
            ("zone", "a time zone, such as Asia/Jakarta or GMT+07:00"),
            ("pattern", "a constant"),
        ),
        (
            ("FormatTimeInZone(TIMESTAMP '2020-12-03 13:45:14', 'Asia/Kolkata', 'hh:mm aa')", "07:15 PM"),
            (
                "FormatTimeInZone(TIMESTAMP '2020-12-03 13:45:14', 'Asia/Jakarta', 'EEE d MMM yyyy, XXX')",
                "Thu 3 Dec 2020, +07:00",
            ),
        ),
        dagger="writes in the machine's language and takes an unknown zone for UTC. Y, w, W and F, whose"
        " meaning depends on a locale, are refused here.",
    ),
)
