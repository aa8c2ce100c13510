"""CAST: which type becomes which. A value without a counterpart becomes NULL."""

from __future__ import annotations

from dataclasses import replace

from daggersql.findings import Report, Span
from daggersql.ir.expr import Expr, call, cast, constant, wrong
from daggersql.ir.families import NUMERIC, Family, family
from daggersql.ir.ops import Op
from daggersql.ir.types import (  # fmt: skip
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Decimal,
    Type,
)
from daggersql.operators.coercion import describe
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of

_DIGITS = 6
"""Of a second that a TIMESTAMP has."""
_Kind = tree.TypeName
_TYPES: dict[object, Type] = {
    _Kind.BOOLEAN: BOOLEAN, _Kind.TINYINT: TINYINT, _Kind.SMALLINT: SMALLINT, _Kind.INT: INT,
    _Kind.BIGINT: BIGINT, _Kind.FLOAT: FLOAT, _Kind.DOUBLE: DOUBLE, _Kind.STRING: STRING,
    _Kind.BINARY: BINARY, _Kind.DATE: DATE, _Kind.TIMESTAMP: TIMESTAMP,
}  # fmt: skip
_FROM: dict[Family, frozenset[Family]] = {
    Family.TEXT: NUMERIC | {Family.TEXT, Family.BOOLEAN, Family.DATE, Family.TIMESTAMP, Family.BINARY},
    Family.BOOLEAN: NUMERIC | {Family.TEXT, Family.BOOLEAN},
    Family.TIMESTAMP: frozenset({Family.TEXT, Family.DATE, Family.TIMESTAMP}),
    Family.DATE: frozenset({Family.TEXT, Family.DATE, Family.TIMESTAMP}),
    Family.BINARY: frozenset({Family.TEXT, Family.BINARY}),
    **dict.fromkeys(NUMERIC, NUMERIC | {Family.TEXT, Family.BOOLEAN}),
}


def check_cast(value: Expr, to: tree.DataType, span: Span, report: Report) -> Expr:
    """CAST(value AS to)."""
    kind = _target(to, report)
    if kind is None or value.wrong:
        return wrong(span)
    if family(value.type) is not Family.NULL and family(value.type) not in _FROM[family(kind)]:
        report.error("TYPE_MISMATCH", span, f"One cannot cast {describe(value)} to {kind.spark.upper()}.")
        return wrong(span)
    result = replace(_convert(value, kind), span=span, type=kind)
    length = _numbers(to)
    if kind == TIMESTAMP and length and length[0] < _DIGITS:
        return call(Op.CUT_TIME, TIMESTAMP, span, result, name=str(10 ** (_DIGITS - length[0])))
    if kind == STRING and length:
        return call(Op.LEFT, STRING, span, result, constant(str(length[0]), length[0], INT, span))
    return result


def _convert(value: Expr, kind: Type) -> Expr:
    before = family(value.type)
    if kind == STRING and before is Family.TIMESTAMP:
        return call(Op.TEXT_OF_TIME, STRING, value.span, value)
    if kind == STRING and before is Family.BINARY:
        return call(Op.TEXT_OF_BYTES, STRING, value.span, value)
    if before in NUMERIC - {Family.INTEGER} and kind == BOOLEAN:
        return call(Op.UNEQUAL, BOOLEAN, value.span, value, constant("0", 0, INT, value.span))
    return cast(value, kind)


def _target(to: tree.DataType, report: Report) -> Type | None:
    if to.this == _Kind.DECIMAL:
        precision, scale = (*_numbers(to), *(10, 0)[len(_numbers(to)) :])
        if 1 <= precision <= 38 and 0 <= scale <= precision:
            return Decimal(precision, scale)
        report.error(
            "INVALID_ARGUMENT",
            span_of(to),
            "DECIMAL has 1 to 38 digits, and no more of them behind the point.",
        )
        return None
    # What the grammar did not know, it has said.
    return _TYPES.get(to.this)


def _numbers(to: tree.DataType) -> tuple[int, ...]:
    """Read the numbers in brackets behind a type's name."""
    texts = (expression.name for expression in to.expressions)
    return tuple(int(text) for text in texts if text.isdigit() and len(text) < 10)
