"""Conditions, lists, times, and what fits nowhere else."""

from __future__ import annotations

from daggersql.functions.signature import Function, Signature, corrected_form, overloads, scalar
from daggersql.ir.families import Family
from daggersql.ir.ops import Form, Op
from daggersql.ir.types import BIGINT, BOOLEAN, DATE, INT, TIMESTAMP

ANY, WHOLE, TIME = Family.ANY, Family.INTEGER, Family.TIMESTAMP

# GREATEST and LEAST give NULL when any argument is NULL, as in Flink; Spark's leave NULLs out.
_ANY_NULL = "CASE WHEN array_contains(transform(array({rest}), x -> x IS NULL), true) THEN NULL ELSE "


def _extreme(name: str) -> Function:
    form = Form(f"{_ANY_NULL}{name.lower()}({{rest}}) END", total=True)
    return Function(name, (Signature((ANY, ANY), 0, form, variadic=True, same=True),))


TIME_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
"""Units that DATE_TRUNC rounds a time down to."""
ROUNDED_UNITS = (*TIME_UNITS[:3], "WEEK", *TIME_UNITS[3:])
"""Units that FLOOR and CEIL round a time to; a week begins on Sunday, as in Flink."""


def _part_of(number: str) -> Form:
    return Form(f"CAST({number} AS BIGINT)")


PARTS = {
    "YEAR": _part_of("year({0})"),
    "QUARTER": _part_of("quarter({0})"),
    "MONTH": _part_of("month({0})"),
    "WEEK": _part_of("weekofyear({0})"),
    "DAY": _part_of("day({0})"),
    "DOY": _part_of("dayofyear({0})"),
    "DOW": _part_of("dayofweek({0})"),
    "ISODOW": _part_of("(weekday({0}) + 1)"),
    "HOUR": _part_of("hour({0})"),
    "MINUTE": _part_of("minute({0})"),
    "SECOND": _part_of("second({0})"),
}
"""Parts of a timestamp that EXTRACT gives, in UTC; DOW counts from Sunday = 1."""


def _part(name: str, part: str) -> Function:
    return overloads(name, *(Signature((family,), BIGINT, PARTS[part]) for family in (TIME, Family.DATE)))


# Every character of the text; $ would let a line break stand behind them.
_IS_ALPHA = corrected_form("rlike({0}, '^\\\\p{{L}}+\\\\z')", "rlike({0}, '^\\\\\\\\p{{L}}+$')")
_IS_DIGIT = corrected_form("rlike({0}, '^\\\\p{{Nd}}+\\\\z')", "rlike({0}, '^[0-9]+$')")
# What Double.parseDouble of Java reads.
_EXPONENT = "([eE][+-]?[0-9]+)?"
_HEX = "0[xX]([0-9a-fA-F]+[.]?|[0-9a-fA-F]*[.][0-9a-fA-F]+)[pP][+-]?[0-9]+"
_REAL = f"NaN|Infinity|(([0-9]+[.]?[0-9]*|[.][0-9]+){_EXPONENT}|{_HEX})[fFdD]?"
_IS_DECIMAL = corrected_form(
    f"rlike({{0}}, '^[\\\\x00-\\\\x20]*[+-]?({_REAL})[\\\\x00-\\\\x20]*\\\\z')",
    "rlike(trim({0}), '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)$')",
)

FUNCTIONS = (
    Function("COALESCE", (Signature((ANY,), 0, Op.COALESCE, variadic=True, same=True),)),
    scalar("NULLIF", [ANY, ANY], 0, Op.NULL_IF, same=True),
    scalar("IFNULL", [ANY, ANY], 0, Op.COALESCE, same=True),
    _extreme("GREATEST"),
    _extreme("LEAST"),
    overloads(
        "CARDINALITY",
        Signature((Family.ARRAY,), INT, "CASE WHEN {0} IS NOT NULL THEN size({0}) END"),
        Signature((Family.MAP,), INT, "CASE WHEN {0} IS NOT NULL THEN size({0}) END"),
    ),
    _part("YEAR", "YEAR"),
    _part("QUARTER", "QUARTER"),
    _part("MONTH", "MONTH"),
    _part("WEEK", "WEEK"),
    _part("DAYOFYEAR", "DOY"),
    _part("DAYOFMONTH", "DAY"),
    _part("DAYOFWEEK", "DOW"),
    _part("HOUR", "HOUR"),
    _part("MINUTE", "MINUTE"),
    _part("SECOND", "SECOND"),
    # The batch's time: the same for every row of a batch.
    scalar("PROCTIME", [], TIMESTAMP, Op.NOW),
    scalar("NOW", [], TIMESTAMP, Op.NOW),
    scalar("CURRENT_TIMESTAMP", [], TIMESTAMP, Op.NOW),
    scalar("LOCALTIMESTAMP", [], TIMESTAMP, Op.NOW),
    scalar("CURRENT_ROW_TIMESTAMP", [], TIMESTAMP, Op.NOW),
    scalar("CURRENT_DATE", [], DATE, Form("current_date()", of_now=True)),
    scalar("IS_ALPHA", [Family.TEXT], BOOLEAN, _IS_ALPHA),
    scalar("IS_DECIMAL", [Family.TEXT], BOOLEAN, _IS_DECIMAL),
    scalar("IS_DIGIT", [Family.TEXT], BOOLEAN, _IS_DIGIT),
)
WITHOUT_BRACKETS = {"CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME"}
"""Functions that are called by their bare name."""
