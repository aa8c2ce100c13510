"""What WHERE asks of single columns, by which whoever reads a stream may leave rows out."""

from __future__ import annotations

from collections.abc import Iterator

from daggersql.ir.expr import Expr, Kind
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
    """What WHERE asks for, of a query over one stream: each condition that AND joins with the others.

    Column and constant where it asks for nothing but a text, None for any other.
    """
    return [_equality(condition) for condition in _conjuncts(query)]


def other_conditions(query: Result) -> tuple[Condition, ...]:
    """What else it asks for that whoever reads can judge as Spark does."""
    others = [conjunct for conjunct in _conjuncts(query) if _equality(conjunct) is None]
    return tuple(condition for expression in others if (condition := _condition(expression)) is not None)


def are_read(query: Result) -> bool:
    """Whether whoever reads can judge all that WHERE asks for."""
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
    """What a condition joins by AND, from left to right."""
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
            args=(Expr(kind=Kind.COLUMN, read=(_, path)), Expr(kind=Kind.CONSTANT, value=str() as value)),
        ) if "." not in path:
            return path, value
    return None


def _condition(asked: Expr) -> Condition | None:
    """A column of texts or whole numbers beside constants of its kind: Arrow means by it what Spark does."""
    sign = _SIGNS.get(asked.op)
    if sign is None:
        return None
    column, *others = asked.args
    if column.is_constant and sign in _MIRRORED:
        sign, column, others = _MIRRORED[sign], others[0], [column]
    if column.kind is not Kind.COLUMN or column.read is None or "." in column.read[1]:
        return None
    kind = _CONSTANTS.get(family(column.type))
    constants: list[str | int] = []
    for other in others:
        value = other.value
        if other.kind is not Kind.CONSTANT or type(value) is not kind or not isinstance(value, str | int):
            return None
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            return None
        constants.append(value)
    return Condition(column.read[1], sign, tuple(constants))
