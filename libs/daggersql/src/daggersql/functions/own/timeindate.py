"""TimeInDate(seconds, hour, minute, zone)."""

from __future__ import annotations

from daggersql.functions.checks import check_whole, together
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.functions.zones import check_zone
from daggersql.ir.families import Family
from daggersql.ir.types import BIGINT

_WHOLE = Family.INTEGER
_ARGUMENTS = "CAST({0} AS BIGINT), CAST({1} AS INT), CAST({2} AS INT)"

FUNCTION = Function(
    "TimeInDate",
    (
        Signature((_WHOLE, _WHOLE, _WHOLE), BIGINT, f"timeindate({_ARGUMENTS}, 'UTC')"),
        Signature((_WHOLE, _WHOLE, _WHOLE, Family.TEXT), BIGINT, f"timeindate({_ARGUMENTS}, {{3}})"),
    ),
    own=True,
    check=together(
        check_whole(1, 0, 23, "The hour", example="9", constant=False),
        check_whole(2, 0, 59, "The minute", example="30", constant=False),
        check_zone(3),
    ),
    doc=Doc(
        "The time of day on the day that the instant lies in, both by the zone's clocks, in seconds since"
        " 1970 UTC. Of a time that comes twice the later counts; one that the clocks skip is as much later as"
        " they jump. NULL, and counted as bad data, outside of the years 1 to 9999, for a column's unknown"
        " zone and for a column's hour or minute that no clock shows.",
        (
            ("seconds", "an instant, in seconds since 1970 UTC"),
            ("hour", "from 0 to 23"),
            ("minute", "from 0 to 59"),
            ("zone", "a time zone, such as Asia/Jakarta or GMT+07:00; UTC when left out"),
        ),
        (
            ("TimeInDate(1704139200, 9, 30, 'Asia/Jakarta')", "1704162600"),
            ("TimeInDate(1562224758, 21, 0)", "1562274000"),
        ),
        dagger="goes on to the next day for hours from 24 on; takes an unknown zone for UTC.",
    ),
)
