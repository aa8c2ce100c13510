"""Types that go together: what values of two types become, and how a type is called in a finding."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report
from daggersql.ir.expr import Expr, ExprKind, cast
from daggersql.ir.families import NUMERIC, WORDS, Family, family, fits
from daggersql.ir.types import BINARY, DOUBLE, FLOAT, INTEGERS, NULL, STRING, TIMESTAMP, Decimal, Type


def unify(a: Type, b: Type) -> Type | None:
    """Find the common type of values of both types; None when there is none."""
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    families = {family(a), family(b)}
    if families <= NUMERIC:
        return widest(a, b)
    if a.spark == b.spark:
        return {"timestamp": TIMESTAMP, "string": STRING, "binary": BINARY}.get(a.spark, a)
    return TIMESTAMP if families == {Family.TIMESTAMP, Family.DATE} else None


def widest(a: Type, b: Type) -> Type:
    """Return the common type of two types of numbers."""
    if a in INTEGERS and b in INTEGERS:
        return max(a, b, key=INTEGERS.index)
    if isinstance(a, Decimal) or isinstance(b, Decimal):
        if DOUBLE in (a, b) or FLOAT in (a, b):
            return DOUBLE
        left, right = as_decimal(a), as_decimal(b)
        scale = max(left.scale, right.scale)
        return bound_decimal(max(left.precision - left.scale, right.precision - right.scale) + scale, scale)
    return DOUBLE if DOUBLE in (a, b) else FLOAT


def as_decimal(kind: Type) -> Decimal:
    """Return the decimal type that has all values of a whole number's type."""
    if isinstance(kind, Decimal):
        return kind
    return Decimal({"tinyint": 3, "smallint": 5, "int": 10}.get(kind.spark, 20), 0)


def bound_decimal(precision: int, scale: int) -> Decimal:
    """Cut a decimal type to 38 digits: digits behind the point go first, but not below six of them."""
    if precision <= 38:
        return Decimal(precision, scale)
    return Decimal(38, max(38 - (precision - scale), min(scale, 6)))


def condition(value: Expr, report: Report, where: str) -> Expr:
    """Check that a value is true or false, and return it. `where`: the clause, for the message."""
    if not value.wrong and not fits(value.type, Family.BOOLEAN):
        report.error("TYPE_MISMATCH", value.span, f"{where} needs a condition, not {describe(value)}.")
    return value


def choose(values: Sequence[Expr], report: Report) -> tuple[Type, tuple[Expr, ...]] | None:
    """Values of which one is taken, made one type; None, said at the odd one, when they share none."""
    kind: Type = NULL
    for value in values:
        if value.wrong:
            return None
        common = unify(kind, value.type)
        if common is None:
            report.error(
                "TYPE_MISMATCH",
                value.span,
                f"This is {describe(value)}, but the values before it are {WORDS[family(kind)]}.",
            )
            return None
        kind = common
    return kind, tuple(value if value.type == NULL else cast(value, kind) for value in values)


def describe(value: Expr) -> str:
    """Describe the family of a value in words, with its name if it has one."""
    name = f" ({value.read[1]})" if value.kind is ExprKind.COLUMN and value.read else ""
    return WORDS[family(value.type)] + name
