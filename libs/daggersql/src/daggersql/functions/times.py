"""Flink's functions of time. A TIMESTAMP is an instant in UTC; text that is no time gives NULL."""

from __future__ import annotations

import re
from collections.abc import Sequence

from daggersql.findings import Report, Span, instead, instead_of_constant
from daggersql.functions.checks import check_whole, is_null, together
from daggersql.functions.collected import let
from daggersql.functions.signature import Check, Function, Signature, corrected_form, overloads, scalar
from daggersql.functions.zones import check_zone
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.ops import Form
from daggersql.ir.types import BIGINT, DATE, INT, STRING, TIMESTAMP

TEXT, WHOLE, NUMBER, TIME, DAY = Family.TEXT, Family.INTEGER, Family.NUMBER, Family.TIMESTAMP, Family.DATE
_DEFAULT = "'yyyy-MM-dd HH:mm:ss'"
# How often a letter may stand in a row in Spark, which would end the job at more.
_WRITTEN = {
    "y": 6, "M": 4, "L": 4, "d": 2, "D": 3, "E": 4, "a": 1, "H": 2, "h": 2, "k": 2, "K": 2, "m": 2, "s": 2,
    "S": 9, "G": 4, "Q": 4, "q": 4,
}  # fmt: skip
_READ = {letter: most for letter, most in _WRITTEN.items() if letter in "yMdHhaKkmsS"}
_PARTS = re.compile(r"''|'(?:[^']|'')*'|'|([A-Za-z])\1*|[\[\]{}#]|[^A-Za-z']")
_UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
# The farthest that TIMESTAMPADD goes: ten thousand years, beyond which Spark would end the job.
_FARTHEST = {
    "SECOND": 2_147_483_647, "MINUTE": 2_147_483_647, "HOUR": 87_600_000, "DAY": 3_650_000, "WEEK": 520_000,
    "MONTH": 120_000, "QUARTER": 40_000, "YEAR": 10_000,
}  # fmt: skip
_SPANS = {
    "SECOND": "0, 0, 0, 0, 0, 0, {}", "MINUTE": "0, 0, 0, 0, 0, {}", "HOUR": "0, 0, 0, 0, {}",
    "DAY": "0, 0, 0, {}", "WEEK": "0, 0, {}", "MONTH": "0, {}", "QUARTER": "0, 3 * {}", "YEAR": "{}",
}  # fmt: skip
"""Arguments of make_interval, by unit: years, months, weeks, days, hours, minutes, seconds."""


def _check_pattern(number: int, letters: dict[str, int]) -> Check:
    """Argument `number` is a constant pattern made of these letters."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        pattern = arguments[number] if number < len(arguments) else None
        if pattern is None or pattern.wrong or is_null(pattern):
            return
        if not isinstance(pattern.value, str):
            report.error(
                "INVALID_ARGUMENT",
                pattern.span,
                "The pattern is written as a constant.",
                instead(pattern.span, _DEFAULT),
            )
            return
        for part in _PARTS.finditer(pattern.value):
            letter, text = part[1], part[0]
            if text == "'" or text in "[]{}#":
                problem = f"{text} has a meaning of its own in a pattern: close the quote, or quote it."
            elif letter and letter not in letters:
                problem = f"{letter} is no letter of a pattern here; text is quoted, as in 'T'."
            elif letter and len(text) > letters[letter]:
                problem = f"{letter} stands at most {letters[letter]} times in a row."
            else:
                continue
            report.error(
                "INVALID_FORMAT_PATTERN",
                pattern.span,
                problem,
                instead_of_constant(pattern.span, "yyyy-MM-dd HH:mm:ss"),
            )
            return

    return check


def _constant_zones(*numbers: int) -> Check:
    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        for number in numbers:
            zone = arguments[number]
            if not zone.wrong and not is_null(zone) and not isinstance(zone.value, str):
                report.error(
                    "INVALID_TIME_ZONE",
                    zone.span,
                    "The zone is written as a constant.",
                    instead(zone.span, "'UTC'"),
                )

    return together(check, *(check_zone(number) for number in numbers))


def _within(value: str, most: int) -> str:
    """SQL of whether a whole number is at most so far from zero: of the least one there is no abs."""
    return f"({value} >= -{most} AND {value} <= {most})"


def _parse(value: str, pattern: str = _DEFAULT) -> str:
    return f"try_to_timestamp({value}, {pattern})"


# As Flink reads it without a pattern: with or without a fraction of the second.
_TWO = "[0-9]{{2}}"
_SHAPE = f"^[0-9]{{{{4}}}}-{_TWO}-{_TWO} {_TWO}:{_TWO}:{_TWO}([.][0-9]{{{{1,9}}}})?$"
_PLAIN_TIME = f"CASE WHEN rlike(trim({{0}}), '{_SHAPE}') THEN try_cast(trim({{0}}) AS TIMESTAMP) END"
# A year alone is the first of January, as in Flink; words such as `today` are no day.
_FIRST_TEN = "substring(trim({0}), 1, 10)"
_ANY_DAY = f"try_cast({_FIRST_TEN} AS DATE)"
_PLAIN_DAY = corrected_form(f"CASE WHEN rlike({_FIRST_TEN}, '^[0-9]') THEN {_ANY_DAY} END", _ANY_DAY)
# What from_unixtime makes microseconds of; beyond, they wrap round.
_FARTHEST_SECOND = 9_223_372_036_854


def _text_of_seconds(pattern: str) -> Form:
    seconds = "try_cast({0} AS BIGINT)"
    text = f"from_unixtime({seconds}, {pattern})"
    return corrected_form(f"CASE WHEN {_within(seconds, _FARTHEST_SECOND)} THEN {text} END", text)


_CLOCK = Form("date_format(current_timestamp(), 'HH:mm:ss')", of_now=True)

FUNCTIONS = (
    overloads(
        "DATE_FORMAT",
        Signature((TIME, TEXT), STRING, "date_format({0}, {1})"),
        Signature((TEXT, TEXT), STRING, f"date_format({_PLAIN_TIME}, {{1}})"),
        check=_check_pattern(1, _WRITTEN),
    ),
    overloads(
        "TO_TIMESTAMP",
        Signature((TEXT,), TIMESTAMP, _PLAIN_TIME),
        Signature((TEXT, TEXT), TIMESTAMP, _parse("{0}", "{1}")),
        check=_check_pattern(1, _READ),
    ),
    overloads(
        "TO_TIMESTAMP_LTZ",
        Signature(
            (WHOLE, WHOLE),
            TIMESTAMP,
            corrected_form(
                f"CASE WHEN {_within('{0}', 253_402_300_799_999)} THEN"
                " CASE WHEN {1} = 3 THEN timestamp_millis({0})"
                f" WHEN {_within('{0}', 253_402_300_799)} THEN timestamp_seconds({{0}}) END END",
                "CASE WHEN abs({0}) <= 253402300799999 THEN"
                " CASE WHEN {1} = 3 THEN timestamp_millis({0})"
                " WHEN abs({0}) <= 253402300799 THEN timestamp_seconds({0}) END END",
            ),
        ),
        check=together(
            check_whole(1, 0, 3, "The precision", example="3"),
            lambda arguments, span, report: (
                report.error(
                    "INVALID_ARGUMENT",
                    arguments[1].span,
                    "The precision is 0 or 3.",
                    instead(arguments[1].span, "3"),
                )
                if arguments[1].value in (1, 2)
                else None
            ),
        ),
    ),
    overloads(
        "TO_DATE",
        Signature((TEXT,), DATE, _PLAIN_DAY),
        Signature((TEXT, TEXT), DATE, f"CAST({_parse('{0}', '{1}')} AS DATE)"),
        check=_check_pattern(1, _READ),
    ),
    overloads(
        "UNIX_TIMESTAMP",
        Signature((), BIGINT, Form("unix_seconds(current_timestamp())", of_now=True)),
        Signature((TEXT,), BIGINT, f"unix_seconds({_PLAIN_TIME})"),
        Signature((TIME,), BIGINT, "unix_seconds({0})"),
        Signature((TEXT, TEXT), BIGINT, f"unix_seconds({_parse('{0}', '{1}')})"),
        check=_check_pattern(1, _READ),
    ),
    overloads(
        "FROM_UNIXTIME",
        Signature((NUMBER,), STRING, _text_of_seconds(_DEFAULT)),
        Signature((NUMBER, TEXT), STRING, _text_of_seconds("{1}")),
        check=_check_pattern(1, _WRITTEN),
    ),
    overloads(
        "CONVERT_TZ",
        Signature(
            (TEXT, TEXT, TEXT),
            STRING,
            f"date_format(from_utc_timestamp(to_utc_timestamp({_PLAIN_TIME}, {{1}}), {{2}}), {_DEFAULT})",
        ),
        check=_constant_zones(1, 2),
    ),
    scalar("LAST_DAY", [DAY], DATE, "last_day({0})"),
    scalar("CURRENT_TIME", [], STRING, _CLOCK),
    scalar("LOCALTIME", [], STRING, _CLOCK),
)


_IN_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def _whole_months(earlier: str, later: str) -> str:
    """Months between times: the end of a shorter month ends one, too, as in Flink. From January 31 to
    February 29 it is one.
    """
    passed = f"timestampdiff(MONTH, {earlier}, {later})"
    next_one = f"try_add({earlier}, make_interval(0, CAST({passed} AS INT) + 1))"
    return f"({passed} + CASE WHEN {next_one} <= {later} THEN 1 ELSE 0 END)"


def _between(unit: str) -> str:
    first, second = "CAST({0} AS TIMESTAMP)", "CAST({1} AS TIMESTAMP)"
    if unit not in _IN_MONTHS:
        return f"timestampdiff({unit}, {first}, {second})"
    forth, back = _whole_months("d.a", "d.b"), _whole_months("d.b", "d.a")
    months = f"CASE WHEN d.a <= d.b THEN {forth} WHEN d.a > d.b THEN - {back} END"
    return let(f"named_struct('a', {first}, 'b', {second})", "d", f"({months}) div {_IN_MONTHS[unit]}")


def between_times(unit: str) -> Function:
    """TIMESTAMPDIFF of one unit: whole units from the first to the second."""
    original = f"try_cast(timestampdiff({unit}, CAST({{0}} AS TIMESTAMP), CAST({{1}} AS TIMESTAMP)) AS INT)"
    form = corrected_form(f"try_cast({_between(unit)} AS INT)", original)
    return overloads(
        "TIMESTAMPDIFF",
        *(Signature((first, second), INT, form) for first in (TIME, DAY) for second in (TIME, DAY)),
    )


def added_time(unit: str) -> Function:
    """TIMESTAMPADD of one unit: a number of them, and a time."""
    near = f"({{0}} >= {-_FARTHEST[unit] - 1} AND {{0}} <= {_FARTHEST[unit]})"
    span, moved = _SPANS[unit].format("CAST({0} AS INT)"), "CAST({1} AS TIMESTAMP)"
    return overloads(
        "TIMESTAMPADD",
        *(
            Signature(
                (WHOLE, time),
                TIMESTAMP,
                corrected_form(
                    # NULL for what is no TIMESTAMP any more.
                    f"CASE WHEN {near} THEN try_add({moved}, make_interval({span})) END",
                    f"CASE WHEN abs({{0}}) <= {_FARTHEST[unit]} THEN"
                    f" timestampadd({unit}, CAST({{0}} AS INT), {moved}) END",
                ),
            )
            for time in (TIME, DAY)
        ),
    )


BY_UNIT = {
    name: {unit: make(unit) for unit in _UNITS}
    for name, make in (("TIMESTAMPDIFF", between_times), ("TIMESTAMPADD", added_time))
}
"""Functions whose first argument is a unit, by name and unit."""
