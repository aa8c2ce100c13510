"""Split(text, pattern)."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span
from daggersql.functions.checks import is_null
from daggersql.functions.regexes import check_regex
from daggersql.functions.signature import Doc, Function, Signature
from daggersql.ir.expr import Expr
from daggersql.ir.families import Family
from daggersql.ir.types import STRING, Array

_is_pattern = check_regex(1)
_PATTERN = "CASE WHEN {1} = '' THEN ' ' ELSE {1} END"
# Empty parts at the end go, unless nothing was split at all.
_TEMPLATE = (
    f"coalesce(transform(array(split({{0}}, {_PATTERN})), a -> CASE WHEN size(a) = 1 THEN a ELSE slice(a, 1,"
    " array_max(transform(a, (x, i) -> CASE WHEN x = '' THEN 0 ELSE i + 1 END))) END)[0],"
    " CAST(array() AS ARRAY<STRING>))"
)


def _check(arguments: Sequence[Expr], span: Span, report: Report) -> None:
    pattern = arguments[1]
    if pattern.wrong or is_null(pattern):
        return
    if not isinstance(pattern.value, str):
        report.error("INVALID_ARGUMENT", pattern.span, "The pattern is written as a constant.", "','")
        return
    _is_pattern(arguments, span, report)


FUNCTION = Function(
    "Split",
    (Signature((Family.TEXT, Family.TEXT), Array(STRING), _TEMPLATE),),
    own=True,
    check=_check,
    doc=Doc(
        "The parts of a text between the places where a pattern matches, as a list. As in Java, empty parts"
        " at the end are left out, others stay. Never NULL: an empty list for NULL.",
        (("text", "what is split"), ("pattern", "a regular expression, a constant; empty, it is a space")),
        (
            ("Split('a,b,,', ',')", "[a, b]"),
            ("Split('k1=v1;k2=v2', '[=;]')", "[k1, v1, k2, v2]"),
            ("Split('a b', '')", "[a, b]"),
            ("Split(NULL, ',')", "[]"),
        ),
    ),
)
