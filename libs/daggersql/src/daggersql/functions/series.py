"""Arguments of functions over a series: a list of times, a list of values, the window they are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from daggersql.findings import Report, Span
from daggersql.ir.expr import Expr, call, cast
from daggersql.ir.families import Family, fits
from daggersql.ir.ops import Form
from daggersql.ir.types import DOUBLE, NULL, TIMESTAMP, Array, Type
from daggersql.operators.coercion import describe

MAX_MINUTES: Final = 31 * 24 * 60
"""Length of the longest window."""
VALUES, TIMES = Array(DOUBLE), Array(TIMESTAMP)


def check_lists(times: Expr, values: Expr, report: Report) -> None:
    """Check the elements of the two lists."""
    for value, family, words in ((times, Family.TIMESTAMP, "times"), (values, Family.NUMBER, "numbers")):
        if value.type != NULL and not (isinstance(value.type, Array) and fits(value.type.element, family)):
            report.error("TYPE_MISMATCH", value.span, f"This is a list of {words}, not {describe(value)}.")


def number_of(value: Expr) -> float | None:
    """Return the number of a constant, cast or not; None for a column, NULL, and text that is no number."""
    number = value.value
    if isinstance(number, bool) or not isinstance(number, int | float | str):
        return None
    try:
        return float(number)
    except ValueError:
        return None


def check_range(value: Expr, words: str, least: float, most: float, report: Report, *, whole: bool) -> None:
    """Check that a constant is between two numbers; a column is checked row by row, by the job."""
    if value.value is None:
        return
    number = number_of(value)
    if number is None or not least <= number <= most or (whole and number % 1):
        kind = "a whole number" if whole else "a number"
        report.error("INVALID_ARGUMENT", value.span, f"The {words} is {kind} from {least} to {most}.")


def check_minutes(value: Expr, words: str, report: Report) -> None:
    """Check a span of time in whole minutes."""
    check_range(value, f"{words}, in minutes,", 1, MAX_MINUTES, report, whole=True)


def call_with(form: Form, arguments: Sequence[Expr], kinds: Sequence[Type], result: Type, span: Span) -> Expr:
    """Build a call of a function of Spark, and cast each argument to its type there."""
    converted = [cast(argument, kind) for argument, kind in zip(arguments, kinds, strict=True)]
    return call(form, result, span, *converted)
