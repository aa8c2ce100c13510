"""Comparisons: what may be compared with what, and what a constant becomes beside a column."""

from __future__ import annotations

import re
from dataclasses import replace

from daggersql.findings import Report, Span, instead_of_constant, unless
from daggersql.ir.expr import AS_WRITTEN, Expr, call, cast
from daggersql.ir.families import NUMERIC, Family, family, fits
from daggersql.ir.ops import Op
from daggersql.ir.types import BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, EnumText  # fmt: skip
from daggersql.limits import MOST_WILD
from daggersql.operators.coercion import describe, unify

_OPS = {
    "=": Op.EQUAL, "<>": Op.UNEQUAL, "<": Op.LESS, "<=": Op.AT_MOST, ">": Op.GREATER, ">=": Op.AT_LEAST,
    "<=>": Op.SAME, "!<=>": Op.DIFFERENT,
}  # fmt: skip
_ORDERED = NUMERIC | {Family.TEXT, Family.TIMESTAMP, Family.DATE, Family.BINARY}


def compare(sign: str, left: Expr, right: Expr, span: Span, report: Report) -> Expr:
    """Check `= <> < <= > >=` and their null-safe forms, of two values of one family."""
    if left.wrong or right.wrong:
        return call(Op.NULL, BOOLEAN, span)
    sides = comparable(left, right, span, report)
    if sides is None:
        return call(Op.NULL, BOOLEAN, span)
    left, right = sides
    for side in (left, right):
        side_family = family(side.type)
        if side_family not in _ORDERED | {Family.BOOLEAN, Family.NULL} and not (
            sign in ("=", "<>") and side_family in (Family.STRUCT, Family.ARRAY)
        ):
            report.error(
                "TYPE_MISMATCH", side.span, f"{sign} does not compare {describe(side)}: compare its parts."
            )
            return call(Op.NULL, BOOLEAN, span)
    return call(_OPS[sign], BOOLEAN, span, left, right)


def comparable(left: Expr, right: Expr, span: Span, report: Report) -> tuple[Expr, Expr] | None:
    """Convert both sides so that they can be compared; None, with a finding at `span`, when they cannot."""
    for value, other in ((left, right), (right, left)):
        _check_enum(value, other, report)
    right, left = _as_other(right, left), _as_other(left, right)
    common = unify(left.type, right.type)
    if common is not None:
        # Spark compares numbers of two types by itself, exactly.
        return left, right
    report.error("TYPE_MISMATCH", span, f"One cannot compare {describe(left)} with {describe(right)}.")
    return None


def _as_other(value: Expr, other: Expr) -> Expr:
    """Convert a text constant to the other side's number, timestamp or date, if it can be read as one."""
    if not (value.is_constant and isinstance(value.value, str)):
        return value
    wanted = family(other.type)
    if wanted in NUMERIC:
        try:
            float(value.value)
        except ValueError:
            return value
        return cast(value, DOUBLE)
    if wanted in (Family.TIMESTAMP, Family.DATE) and value.value[:4].isdigit():
        # A year alone means its first instant here, where it is written in the query.
        return replace(cast(value, TIMESTAMP if wanted is Family.TIMESTAMP else DATE), name=AS_WRITTEN)
    return value


def _check_enum(value: Expr, other: Expr, report: Report) -> None:
    """Warns of a text that no enum value is called."""
    if not (isinstance(value.type, EnumText) and other.is_constant and isinstance(other.value, str)):
        return
    values = value.type.values
    if other.value in values or other.value.lstrip("-").isdigit() or not isinstance(other.type, type(STRING)):
        return
    suggestion = report.nearest(other.value, values)
    column_name = value.read[1] if value.read else "The enum"
    report.warn(
        "UNKNOWN_ENUM_VALUE",
        other.span,
        f"{column_name} is never {other.value!r}" + unless(suggestion, f": it has {', '.join(values[:10])}"),
        instead_of_constant(other.span, suggestion),
    )


def like(value: Expr, pattern: Expr, escape: Expr | None, span: Span, report: Report) -> Expr:
    """`LIKE`. In Flink only the character named by ESCAPE escapes; in Spark the backslash does by itself."""
    for side in (value, pattern, *([escape] if escape else [])):
        if not side.wrong and not fits(side.type, Family.TEXT):
            report.error("TYPE_MISMATCH", side.span, f"LIKE compares text, not {describe(side)}.")
            return call(Op.NULL, BOOLEAN, span)
    _check_cost(pattern, escape, report)
    if escape is None:
        literal = call(Op.PLAIN_BACKSLASHES, STRING, pattern.span, pattern)
        return call(Op.LIKE, BOOLEAN, span, value, literal)
    mark, text = escape.value, pattern.value
    if not (isinstance(mark, str) and len(mark) == 1 and isinstance(text, str)):
        report.error(
            "INVALID_ARGUMENT", escape.span, "ESCAPE and its pattern are constants; ESCAPE is one character."
        )
    elif not _escapes_well(text, mark):
        report.error(
            "INVALID_ARGUMENT", pattern.span, f"{mark!r} stands only before %, _ or itself in this pattern."
        )
    return call(Op.LIKE_ESCAPE, BOOLEAN, span, value, pattern, escape)


def _check_cost(pattern: Expr, escape: Expr | None, report: Report) -> None:
    """Spark makes of LIKE a pattern of Java, whose .* compete for the same text."""
    if not isinstance(pattern.value, str):
        return
    mark = escape.value if escape is not None and isinstance(escape.value, str) else ""
    plain = re.sub(f"{re.escape(mark)}.", "_", pattern.value) if mark else pattern.value
    if len(re.findall("%+[^%]", plain)) > MOST_WILD:
        report.object_to(
            "REGEX_TOO_COSTLY",
            pattern.span,
            f"This pattern may take very long: at most {MOST_WILD} % stand before other text.",
            "one LIKE '%…%' for each text, with AND between them",
        )


def _escapes_well(pattern: str, mark: str) -> bool:
    offset = 0
    while (offset := pattern.find(mark, offset)) >= 0:
        if pattern[offset + 1 : offset + 2] not in ("%", "_", mark) or offset + 1 == len(pattern):
            return False
        offset += 2
    return True
