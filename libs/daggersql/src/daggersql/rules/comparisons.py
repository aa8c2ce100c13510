"""Comparisons of a column with a limit: which one decides a condition, and when its incident is over."""

from __future__ import annotations

from collections.abc import Container
from decimal import Decimal as Exact
from typing import Final

from daggerspec.query import quote_name
from daggersql.ir.expr import Expr
from daggersql.ir.ops import Op
from daggersql.rules.compiled import LimitComparison

_ABOVE: Final = {Op.GREATER: True, Op.AT_LEAST: True, Op.LESS: False, Op.AT_MOST: False}
_CASTS: Final = (Op.CAST, Op.STRICT_CAST)


def is_joined(condition: Expr) -> bool:
    """Tell whether a condition is made of conditions."""
    return condition.op in (Op.AND, Op.OR, Op.NOT)


def find_comparison(condition: Expr, limits: Container[str]) -> LimitComparison | None:
    """Find the comparison of a column with a number, or with one of the columns `limits`, that a condition
    is, or that it begins with.
    """
    while condition.op is Op.AND:
        condition = condition.args[0]
    if not isinstance(condition.op, Op) or condition.op not in _ABOVE:
        return None
    left, right = map(_uncast, condition.args)
    above = _ABOVE[condition.op]
    if left.is_constant or _name(left) in limits:
        left, right, above = right, left, not above
    number, column, limit = _number(right), _name(left), _name(right)
    if not column or column in limits or (number is None and limit not in limits):
        return None
    return LimitComparison(column, number, above, limit if number is None else "")


def _name(expression: Expr) -> str:
    """Return the name of the column that an expression is; empty for another one."""
    ref = expression.ref if expression.op is Op.COLUMN else None
    return ref.path[0] if ref is not None and len(ref.path) == 1 else ""


def _uncast(expression: Expr) -> Expr:
    while expression.op in _CASTS and expression.args:
        (expression,) = expression.args
    return expression


def _number(expression: Expr) -> float | None:
    """Return the number that a constant is, with its sign; None for anything else."""
    sign = 1
    while expression.op is Op.NEGATE:
        sign, expression = -sign, _uncast(expression.args[0])
    if not expression.is_constant or expression.literal is None or isinstance(expression.value, str | bool):
        return None
    try:
        number = float(expression.literal.text)
    except ValueError:
        return None
    return sign * (-number if expression.literal.minus % 2 else number)


def write_cleared(comparison: LimitComparison, share: float, limit_name: str) -> str:
    """Write the condition that a column is better than its limit by a share of that. limit_name: of the
    column that has the limit, as conditions name it, where each row has its own.
    """
    better = "<=" if comparison.above else ">="
    if comparison.limit is None:
        own, sign = quote_name(limit_name), "-" if comparison.above else "+"
        room_of_own = f"ABS({own}) * {Exact(repr(share)):f}"
        return f"{quote_name(comparison.column)} {better} {own} {sign} {room_of_own}"
    limit = Exact(repr(comparison.limit))
    room = abs(limit) * Exact(repr(share))
    end = limit - room if comparison.above else limit + room
    return f"{quote_name(comparison.column)} {better} {end:f}"
