"""Constants: what is written out in the query, read exactly."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal as Exact

from daggersql.findings import Report, Span
from daggersql.ir.expr import Expr, bytes_constant, constant, text_constant, wrong
from daggersql.ir.types import BIGINT, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, Decimal

_MAX_DIGITS = 38


def number(text: str, span: Span, report: Report) -> Expr:
    """Check a number: INT or BIGINT if whole, DECIMAL with a point, DOUBLE with an exponent, as in Flink."""
    if "e" in text.lower():
        value = float(text)
        if not math.isinf(value):
            return constant(text, value, DOUBLE, span)
    elif "." in text:
        exact = Exact(text)
        scale = len(text.partition(".")[2])
        precision = max(len(text.replace(".", "").lstrip("0")), scale, 1)
        if precision <= _MAX_DIGITS:
            return constant(text, float(exact), Decimal(precision, scale), span)
    elif len(text) <= _MAX_DIGITS:
        whole = int(text)
        if whole < 2**31:
            return constant(str(whole), whole, INT, span)
        if whole < 2**63:
            return constant(str(whole), whole, BIGINT, span)
        return constant(str(whole), whole, Decimal(len(str(whole)), 0), span)
    report.error(
        "INVALID_ARGUMENT", span, f"This number is too large, or has more than {_MAX_DIGITS} digits."
    )
    return wrong(span)


def of_type(kind: str, text: str, span: Span, report: Report) -> Expr:
    """DATE '2024-02-29' and TIMESTAMP '2024-02-29 12:00:00', which is UTC."""
    try:
        if kind == "DATE" and len(text) == 10:
            return constant(str(date.fromisoformat(text)), text, DATE, span)
        if (
            kind == "TIMESTAMP"
            and len(text) >= 19
            and (moment := datetime.fromisoformat(text)).tzinfo is None
        ):
            return constant(str(moment), text, TIMESTAMP, span)
        # A time of day without a date is text here: no sink of ours has a type for it.
        if kind == "TIME" and len(text) >= 8:
            return text_constant(time.fromisoformat(text).isoformat(), STRING, span)
    except ValueError:
        pass
    example = {
        "DATE": "DATE '2024-02-29'", "TIMESTAMP": "TIMESTAMP '2024-02-29 12:00:00'",
        "TIME": "TIME '12:00:00'",
    }[kind]  # fmt: skip
    report.error("INVALID_ARGUMENT", span, f"This is not a {kind.lower()}: write {example}.", example)
    return wrong(span)


def interval(length: timedelta, span: Span) -> Expr:
    """Build a span of time of fixed length."""
    return constant(str(length // timedelta(microseconds=1)), length, INTERVAL, span)


def hexadecimal(text: str, span: Span) -> Expr:
    """X'4142': bytes."""
    return bytes_constant(text, span)
