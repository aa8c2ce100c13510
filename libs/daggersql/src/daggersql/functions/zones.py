"""Names of time zones: what a query may write, and what it means, the same on every machine.

The zones are those of the package tzdata, never the machine's own. Beside their names, what Java takes and
Dagger's users write: fixed offsets (`GMT+07:00`, `+05:30`, `UTC-3`) and Java's old abbreviations (`IST`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from daggerspec.zones import names
from daggersql.findings import Report, Span, instead_of_constant, unless
from daggersql.functions.checks import is_null
from daggersql.functions.signature import Check
from daggersql.ir.expr import Expr

_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?", re.ASCII)
_LONGEST_H = 18
"""Hours; the limit of java.time."""
_JAVAS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh", "Z": "UTC",
}  # fmt: skip


def find(name: str) -> str | timedelta | None:
    """Return the zone's name in tzdata, or its fixed offset east of UTC; None when there is no such zone."""
    if name in names():
        return name
    if name in _JAVAS:
        return _JAVAS[name]
    written = _OFFSET.fullmatch(name)
    if written is None or int(written[2]) > _LONGEST_H:
        return None
    offset = timedelta(hours=int(written[2]), minutes=int(written[3] or 0))
    return -offset if written[1] == "-" else offset


def check_zone(number: int) -> Check:
    """Check that argument `number`, if it is a constant, is a zone; a column is checked row by row."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        zone = arguments[number] if number < len(arguments) else None
        if zone is None or zone.wrong or is_null(zone) or not isinstance(zone.value, str):
            return
        if find(zone.value) is None:
            near = report.nearest(zone.value, names())
            such = unless(near, ", such as Asia/Jakarta or GMT+07:00")
            text = f"There is no time zone {zone.value}{such}."
            report.error("INVALID_TIME_ZONE", zone.span, text, instead_of_constant(zone.span, near))

    return check
