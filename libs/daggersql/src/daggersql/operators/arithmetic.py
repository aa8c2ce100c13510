"""Operators: which types they take, what they give, and how Spark is told to mean the same as Flink.

Bad data gives NULL and never an error: hence try_ forms for what could overflow, and NULL for a division by
zero. Whole numbers divide to whole numbers, as in Flink.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from daggersql.findings import Report, Rewrite, Span, Suggestion
from daggersql.ir.expr import Expr, call, cast, constant, wrong
from daggersql.ir.families import NUMERIC, Family, family, fits
from daggersql.ir.ops import Op
from daggersql.ir.types import (  # fmt: skip
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
)
from daggersql.operators.coercion import as_decimal, bound_decimal, describe, widest

_PLAIN = {"+": Op.ADD, "-": Op.SUBTRACT, "*": Op.MULTIPLY, "/": Op.DIVIDE, "%": Op.REMAINDER}
_WRITTEN = NUMERIC | {Family.BOOLEAN, Family.DATE, Family.TIMESTAMP, Family.BINARY}
_DAY = timedelta(days=1)
_DAYS = {"+": Op.LATER_DAY, "-": Op.EARLIER_DAY}
_CHECKED = {**_PLAIN, "+": Op.TRY_ADD, "-": Op.TRY_SUBTRACT, "*": Op.TRY_MULTIPLY}


def arithmetic(sign: str, left: Expr, right: Expr, span: Span, report: Report) -> Expr:
    """Check `+ - * / %` of numbers, and `+ -` of a span of time."""
    if left.wrong or right.wrong:
        return wrong(span)
    if INTERVAL in (left.type, right.type) and sign in "+-":
        return _shift(sign, left, right, span, report)
    for side in (left, right):
        if not fits(side.type, Family.NUMBER):
            hint = ": text is joined with ||" if sign == "+" and fits(side.type, Family.TEXT) else ""
            report.error(
                "TYPE_MISMATCH", side.span, f"{sign} works on numbers, not on {describe(side)}{hint}."
            )
            return wrong(span)
    kind = widest(left.type, right.type) if NULL not in (left.type, right.type) else INT
    if isinstance(kind, Decimal):
        return _decimal(sign, left, right, span)
    a, b = cast(left, kind), cast(right, kind)
    if kind in INTEGERS:
        return _whole(sign, a, b, kind, right.type, span)
    # Division knows doubles only.
    if kind == FLOAT and sign == "/":
        return cast(call(Op.DIVIDE, DOUBLE, span, cast(a, DOUBLE), cast(b, DOUBLE)), FLOAT)
    return call(_PLAIN[sign], kind, span, a, b)


def warn_of_whole(left: Expr, right: Expr, report: Report) -> None:
    """Warns of aggregates that are whole numbers and divided: a ratio of counts is mostly 0."""
    if left.type in INTEGERS and right.type in INTEGERS and (left.has_aggregate or right.has_aggregate):
        report.warn(
            "WHOLE_DIVISION",
            (left.span[0], right.span[1]),
            "Whole numbers divide to whole numbers, and 7 / 8 is 0: cast one to DOUBLE for the fraction.",
            Rewrite(left.span, f"CAST({report.text[slice(*left.span)]} AS DOUBLE)"),
        )


def _whole(sign: str, a: Expr, b: Expr, kind: Type, divisor: Type, span: Span) -> Expr:
    """Whole numbers: overflow and division by zero give NULL."""
    if sign == "/":
        plain = b.is_constant and b.value not in (0, -1)
        quotient = Op.WHOLE_QUOTIENT if plain else Op.SAFE_WHOLE_QUOTIENT
        return cast(call(quotient, BIGINT, span, a, b), kind)
    if sign == "%":
        # As narrow as the divisor: the rest is smaller than it.
        rest = call(Op.REMAINDER, kind, span, a, b)
        return cast(rest, divisor if divisor in INTEGERS else kind)
    return call(_CHECKED[sign], kind, span, a, b)


def _decimal(sign: str, left: Expr, right: Expr, span: Span) -> Expr:
    a, b = as_decimal(left.type), as_decimal(right.type)
    match sign:
        case "*":
            kind = bound_decimal(a.precision + b.precision + 1, a.scale + b.scale)
        case "/":
            scale = max(6, a.scale + b.precision + 1)
            kind = bound_decimal(a.precision - a.scale + b.scale + scale, scale)
        case "%":
            scale = max(a.scale, b.scale)
            kind = bound_decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
        case _:
            scale = max(a.scale, b.scale)
            kind = bound_decimal(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)
    checked = call(_CHECKED[sign], kind, span, cast(left, a), cast(right, b))
    # Spark's own scale may differ by a digit or two: the cast makes the declared type true.
    return call(Op.CAST, kind, span, checked)


def _shift(sign: str, left: Expr, right: Expr, span: Span, report: Report) -> Expr:
    """Shift a timestamp or a date by a span of time; a date stays one if the span is whole days."""
    time, by = (right, left) if left.type == INTERVAL and sign == "+" else (left, right)
    if by.type != INTERVAL or family(time.type) not in (Family.TIMESTAMP, Family.DATE, Family.NULL):
        report.error(
            "TYPE_MISMATCH",
            time.span,
            f"A span of time is added to a timestamp or a date, not to {describe(time)}.",
        )
        return wrong(span)
    if time.type == DATE:
        if isinstance(by.value, timedelta) and not by.value % _DAY:
            return call(_DAYS[sign], DATE, span, time, by)
        time = cast(time, TIMESTAMP)
    return call(_PLAIN[sign], TIMESTAMP, span, time, by)


def negate(value: Expr, span: Span, report: Report) -> Expr:
    """Minus a number."""
    if value.wrong:
        return wrong(span)
    if value.type == INTERVAL:
        return call(Op.NEGATE, INTERVAL, span, value)
    if not fits(value.type, Family.NUMBER):
        report.error("TYPE_MISMATCH", value.span, f"Minus works on a number, not on {describe(value)}.")
        return wrong(span)
    if value.is_constant and isinstance(value.value, (int, float)):
        assert value.literal is not None
        literal = replace(value.literal, minus=value.literal.minus + 1)
        return replace(value, span=span, value=-value.value, literal=literal)
    if value.type in INTEGERS:
        zero = cast(constant("0", 0, INT, span), value.type)
        return call(Op.TRY_SUBTRACT, value.type, span, zero, value)
    return call(Op.NEGATE, value.type, span, value)


def _as_text(value: Expr, report: Report) -> Suggestion:
    text = f"CAST({report.text[slice(*value.span)]} AS STRING)"
    return Rewrite(value.span, text) if family(value.type) in _WRITTEN else "CAST"


def join_text(left: Expr, right: Expr, span: Span, report: Report) -> Expr:
    """`||`."""
    for side in (left, right):
        if not side.wrong and not fits(side.type, Family.TEXT):
            report.error(
                "TYPE_MISMATCH",
                side.span,
                f"|| joins text, not {describe(side)}: use CAST(… AS STRING).",
                _as_text(side, report),
            )
    return call(Op.CONCAT, STRING, span, left, right)
