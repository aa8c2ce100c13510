"""Checks of arguments that several functions share. Each makes a `Check` for one place among the arguments.

A NULL passes everywhere: its answer is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span, instead
from daggersql.functions.signature import Check
from daggersql.ir.expr import Expr
from daggersql.ir.types import NULL


def together(*checks: Check) -> Check:
    """Combine checks."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        for one in checks:
            one(arguments, span, report)

    return check


def is_null(argument: Expr) -> bool:
    """Tell whether an argument is the constant NULL."""
    return argument.type == NULL or (argument.is_constant and argument.value is None)


def check_whole(
    number: int, low: int, high: int, words: str, *, example: str, constant: bool = True
) -> Check:
    """Check that argument `number` is from `low` to `high`; `words` describes it in the message.

    Unless `constant`, it may be a column, too.
    """

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        argument = arguments[number] if number < len(arguments) else None
        if argument is None or argument.wrong or is_null(argument):
            return
        value = argument.value
        if value is None:
            if constant:
                report.error(
                    "INVALID_ARGUMENT",
                    argument.span,
                    f"{words} is written as a constant.",
                    instead(argument.span, example),
                )
        elif not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            report.error(
                "INVALID_ARGUMENT",
                argument.span,
                f"{words} is a whole number from {low} to {high}.",
                instead(argument.span, example),
            )

    return check


def check_constant_text(number: int, words: str, example: str) -> Check:
    """Check that argument `number` is a constant text; `words` describes it in the message."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        argument = arguments[number] if number < len(arguments) else None
        if argument is None or argument.wrong or is_null(argument) or isinstance(argument.value, str):
            return
        report.error(
            "INVALID_ARGUMENT",
            argument.span,
            f"{words} is written as a constant.",
            instead(argument.span, example),
        )

    return check
