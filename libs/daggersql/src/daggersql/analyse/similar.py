"""SIMILAR TO: SQL's own patterns, told to Spark as regular expressions."""

from __future__ import annotations

from daggersql.findings import Report, Span
from daggersql.functions.regexes import object_to_pattern
from daggersql.functions.similar import java_regex
from daggersql.ir.expr import Expr, call, text_constant
from daggersql.ir.families import Family, fits
from daggersql.ir.ops import Op
from daggersql.ir.types import BOOLEAN, STRING
from daggersql.operators.coercion import describe


def similar(value: Expr, pattern: Expr, escape: Expr | None, span: Span, report: Report) -> Expr:
    """`SIMILAR TO`: a pattern for the whole text."""
    answer = call(Op.NULL, BOOLEAN, span)
    if value.wrong or pattern.wrong or (escape is not None and escape.wrong):
        return answer
    if not fits(value.type, Family.TEXT):
        report.error("TYPE_MISMATCH", value.span, f"SIMILAR TO compares text, not {describe(value)}.")
        return answer
    mark = escape.value if escape is not None else None
    if not isinstance(pattern.value, str):
        report.error("INVALID_REGEX", pattern.span, "The pattern must be a text constant.")
        return answer
    if escape is not None and not (isinstance(mark, str) and len(mark) == 1):
        report.error("INVALID_ARGUMENT", escape.span, "ESCAPE is a constant of one character.")
        return answer
    try:
        regex = java_regex(pattern.value, mark if isinstance(mark, str) else None)
    except ValueError as wrong:
        report.error("INVALID_REGEX", pattern.span, str(wrong))
        return answer
    object_to_pattern(regex, pattern.span, report)
    return call(Op.MATCHES, BOOLEAN, span, value, text_constant(regex, STRING, pattern.span))
