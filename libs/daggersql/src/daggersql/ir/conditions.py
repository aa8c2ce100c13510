"""Conditions of WHERE on single columns, by which the reader of a stream may drop rows."""

from __future__ import annotations

from collections.abc import Iterator

from daggersql.ir.expr import Expr, ExprKind
from daggersql.ir.families import Family, family
from daggersql.ir.ops import Form, Op
from daggersql.ir.relations import Result, Stream, Union
from daggersql.plan import Condition

_SIGNS: dict[Op | Form, str] = {
    Op.EQUAL: "=", Op.UNEQUAL: "<>", Op.LESS: "<", Op.AT_MOST: "<=", Op.GREATER: ">", Op.AT_LEAST: ">=",
    Op.IN: "IN",
}  # fmt: skip
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CONSTANTS = {Family.INTEGER: int, Family.TEXT: str}


def equalities(query: Result) -> list[tuple[str, str] | None]:
    """List the conditions that AND joins in WHERE, of a query over one stream.

    Column and constant of one that compares a column with a text for equality; None of any other.
    """
    return [_equality(condition) for condition in _conjuncts(query)]


def other_conditions(query: Result) -> tuple[Condition, ...]:
    """List the further conditions that the reader can evaluate as Spark does."""
    others = [conjunct for conjunct in _conjuncts(query) if _equality(conjunct) is None]
    return tuple(condition for expression in others if (condition := _condition(expression)) is not None)


def are_read(query: Result) -> bool:
    """Tell whether the reader can evaluate the whole WHERE."""
    if isinstance(query, Union) or query.where is None:
        return True
    return isinstance(query.relation, Stream) and all(
        _equality(conjunct) or _condition(conjunct) for conjunct in _conjuncts(query)
    )


def _conjuncts(query: Result) -> Iterator[Expr]:
    if isinstance(query, Union) or not isinstance(query.relation, Stream) or query.where is None:
        return
    yield from conjuncts(query.where)


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """Yield the conditions that AND joins, from left to right."""
    stack = [condition]
    while stack:
        part = stack.pop()
        if part.op is Op.AND:
            stack += reversed(part.args)
        else:
            yield part


def _equality(condition: Expr) -> tuple[str, str] | None:
    match condition:
        case Expr(
            op=Op.EQUAL,
            args=(
                Expr(kind=ExprKind.COLUMN, read=(_, path)),
                Expr(kind=ExprKind.CONSTANT, value=str() as value),
            ),
        ) if "." not in path:
            return path, value
    return None


def _condition(comparison: Expr) -> Condition | None:
    """Convert the comparison of a column of texts or whole numbers with constants: there Arrow agrees with
    Spark. None for any other condition.
    """
    sign = _SIGNS.get(comparison.op)
    if sign is None:
        return None
    column, *others = comparison.args
    if column.is_constant and sign in _MIRRORED:
        sign, column, others = _MIRRORED[sign], others[0], [column]
    if column.kind is not ExprKind.COLUMN or column.read is None or "." in column.read[1]:
        return None
    kind = _CONSTANTS.get(family(column.type))
    constants: list[str | int] = []
    for other in others:
        value = other.value
        if other.kind is not ExprKind.CONSTANT or type(value) is not kind or not isinstance(value, str | int):
            return None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return None
        constants.append(value)
    return Condition(column.read[1], sign, tuple(constants))
