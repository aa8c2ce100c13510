"""Conditions, lists, times, and what fits nowhere else."""

from __future__ import annotations

from daggersql.functions.signature import Function, Signature, overloaded, scalar
from daggersql.ir.types import BIGINT, BOOLEAN, DATE, INT, TIMESTAMP, Family

ANY, WHOLE, TIME = Family.ANY, Family.INTEGER, Family.TIMESTAMP

# GREATEST and LEAST give NULL when any argument is NULL, as in Flink; Spark's leave NULLs out.
_ANY_NULL = "CASE WHEN array_contains(transform(array({rest}), x -> x IS NULL), true) THEN NULL ELSE "


def _extreme(name: str) -> Function:
    template = f"{_ANY_NULL}{name.lower()}({{rest}}) END"
    return Function(name, (Signature((ANY, ANY), 0, template, variadic=True, same=True),))


NOW = "current_timestamp()"
"""The batch's time."""
TIME_UNITS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")
"""Units that a timestamp is rounded down to."""
PARTS = {
    "YEAR": "year({0})",
    "QUARTER": "quarter({0})",
    "MONTH": "month({0})",
    "WEEK": "weekofyear({0})",
    "DAY": "day({0})",
    "DOY": "dayofyear({0})",
    "DOW": "dayofweek({0})",
    "ISODOW": "(weekday({0}) + 1)",
    "HOUR": "hour({0})",
    "MINUTE": "minute({0})",
    "SECOND": "second({0})",
}
"""Parts of a timestamp that EXTRACT gives, in UTC; DOW counts from Sunday = 1."""


def _part(name: str, part: str) -> Function:
    return scalar(name, [TIME], BIGINT, f"CAST({PARTS[part]} AS BIGINT)")


FUNCTIONS = (
    Function("COALESCE", (Signature((ANY,), 0, "coalesce({rest})", variadic=True, same=True),)),
    scalar("NULLIF", [ANY, ANY], 0, "nullif({0}, {1})", same=True),
    scalar("IFNULL", [ANY, ANY], 0, "coalesce({0}, {1})", same=True),
    _extreme("GREATEST"),
    _extreme("LEAST"),
    overloaded(
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
    scalar("PROCTIME", [], TIMESTAMP, NOW),
    scalar("NOW", [], TIMESTAMP, NOW),
    scalar("CURRENT_TIMESTAMP", [], TIMESTAMP, NOW),
    scalar("LOCALTIMESTAMP", [], TIMESTAMP, NOW),
    scalar("CURRENT_ROW_TIMESTAMP", [], TIMESTAMP, NOW),
    scalar("CURRENT_DATE", [], DATE, "current_date()"),
    scalar("IS_ALPHA", [Family.TEXT], BOOLEAN, "rlike({0}, '^\\\\\\\\p{{L}}+$')"),
    scalar("IS_DECIMAL", [Family.TEXT], BOOLEAN, "rlike(trim({0}), '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)$')"),
    scalar("IS_DIGIT", [Family.TEXT], BOOLEAN, "rlike({0}, '^[0-9]+$')"),
)
WITHOUT_BRACKETS = {"CURRENT_TIMESTAMP", "LOCALTIMESTAMP", "CURRENT_DATE", "CURRENT_TIME", "LOCALTIME"}
"""Functions that are called by their bare name."""
