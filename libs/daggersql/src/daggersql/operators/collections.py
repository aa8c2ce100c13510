"""Lists and maps, made of values and taken apart; units of time."""

from __future__ import annotations

from collections.abc import Sequence

from daggersql.findings import Report, Span, instead
from daggersql.ir.expr import Expr, call, cast, wrong
from daggersql.ir.families import Family, family, fits
from daggersql.ir.ops import Op
from daggersql.ir.types import INTEGERS, Array, MapOf, Type
from daggersql.operators.coercion import choose, describe, unify


def make_list(values: Sequence[Expr], span: Span, report: Report) -> Expr:
    """ARRAY[a, b]."""
    chosen = choose(values, report)
    if chosen is None:
        return wrong(span)
    kind, elements = chosen
    return call(Op.ARRAY, Array(kind), span, *elements)


def make_map(keys: Sequence[Expr], values: Sequence[Expr], span: Span, report: Report) -> Expr:
    """MAP[key, value, …]. Keys are constants: Spark ends a query that meets a key twice."""
    if len(keys) != len(values):
        report.error("WRONG_ARGUMENT_COUNT", span, "MAP takes a value for each key: MAP['a', 1, 'b', 2].")
        return wrong(span)
    chosen = choose(keys, report), choose(values, report)
    if chosen[0] is None or chosen[1] is None:
        return wrong(span)
    seen: set[object] = set()
    for key in keys:
        if not key.is_constant or key.value is None:
            report.error("INVALID_ARGUMENT", key.span, "The keys of MAP are constants, and not NULL.")
        elif key.value in seen:
            report.error("INVALID_ARGUMENT", key.span, "This key stands in the map twice.")
        seen.add(key.value)
    pairs = [expression for pair in zip(chosen[0][1], chosen[1][1], strict=True) for expression in pair]
    return call(Op.MAP, MapOf(chosen[0][0], chosen[1][0]), span, *pairs)


def element(value: Expr, index: Expr, span: Span, report: Report) -> Expr:
    """`list[1]`, counted from 1, and `map['key']`; NULL when there is none."""
    if value.wrong or index.wrong:
        return wrong(span)
    match value.type:
        case Array(element=kind):
            op = _position(index, report)
        case MapOf(key=key, value=kind):
            op = _key(key, index, report)
            index = _as_key(index, key) if op else index
        case _:
            report.error(
                "TYPE_MISMATCH", value.span, f"Only a list or a map has elements, not {describe(value)}."
            )
            return wrong(span)
    if op is None:
        return wrong(span)
    # Below a list the path goes on; a map is decoded as a whole.
    read = value.read if isinstance(value.type, Array) else None
    return Expr(op, kind, span, (value, index), read=read)


def _position(index: Expr, report: Report) -> Op | None:
    if not fits(index.type, Family.INTEGER):
        report.error(
            "TYPE_MISMATCH",
            index.span,
            "A list is asked for a position, counted from 1.",
            instead(index.span, "1"),
        )
        return None
    if not index.is_constant:
        return Op.SAFE_POSITION
    if isinstance(index.value, int) and index.value < 1:
        report.error(
            "INVALID_ARGUMENT", index.span, "Positions in a list count from 1.", instead(index.span, "1")
        )
        return None
    return Op.POSITION


def _as_key(index: Expr, key: Type) -> Expr:
    """Convert a value to the key that is equal to it; NULL where there is none."""
    if not fits(index.type, Family.NUMBER):
        return cast(index, key) if fits(index.type, family(key)) else index
    if index.type.spark == key.spark or index.type in INTEGERS:
        return cast(index, key)
    exact = Op.KEY_OF_DECIMAL if fits(index.type, family(key)) else Op.KEY_OF_NUMBER
    return call(exact, key, index.span, index, cast(index, key))


def _key(key: Type, index: Expr, report: Report) -> Op | None:
    if unify(key, index.type) is None:
        report.error("TYPE_MISMATCH", index.span, f"The keys of this map are not {describe(index)}.")
        return None
    return Op.KEY
