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
    """All of these."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        for one in checks:
            one(arguments, span, report)

    return check


def is_null(argument: Expr) -> bool:
    """Whether it is the constant NULL."""
    return argument.type == NULL or (argument.is_constant and argument.value is None)


def check_whole(number: int, low: int, high: int, what: str, *, example: str, constant: bool = True) -> Check:
    """Argument `number` lies between `low` and `high`, `what` says which in words.

    Unless `constant`, a column may stand there as well.
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
                    f"{what} is written as a constant.",
                    instead(argument.span, example),
                )
        elif not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            report.error(
                "INVALID_ARGUMENT",
                argument.span,
                f"{what} is a whole number from {low} to {high}.",
                instead(argument.span, example),
            )

    return check


def check_constant_text(number: int, what: str, example: str) -> Check:
    """Argument `number` is a text that is written in the query."""

    def check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
        argument = arguments[number] if number < len(arguments) else None
        if argument is None or argument.wrong or is_null(argument) or isinstance(argument.value, str):
            return
        report.error(
            "INVALID_ARGUMENT",
            argument.span,
            f"{what} is written as a constant.",
            instead(argument.span, example),
        )

    return check
