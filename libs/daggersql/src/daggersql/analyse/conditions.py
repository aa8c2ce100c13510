"""Conditions as they are written: their parts, and the bound that they set to a column."""

from __future__ import annotations

from collections.abc import Iterator

from daggersql.syntax import tree


def conjuncts(node: tree.Node) -> Iterator[tree.Node]:
    """Yield the conditions that AND joins, from left to right."""
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, tree.And):
            stack += [part.expression, part.this]
        else:
            yield part


def most(around: tree.Select, name: str) -> int | None:
    """Find the greatest row number that WHERE around a numbering accepts; None when it sets no bound."""
    where = around.args.get("where")
    bounds = (_upper_bound(conjunct, name) for conjunct in conjuncts(where.this)) if where else ()
    return min((bound for bound in bounds if bound is not None), default=None)


def _upper_bound(node: tree.Node, name: str) -> int | None:
    """Find the greatest row number that a condition accepts; None when it sets no bound."""
    match node:
        case tree.LTE() | tree.EQ() if _is(node.this, name):
            return _number(node.expression)
        case tree.GTE() | tree.EQ() if _is(node.expression, name):
            return _number(node.this)
        case tree.LT() if _is(node.this, name):
            return _before(_number(node.expression))
        case tree.GT() if _is(node.expression, name):
            return _before(_number(node.this))
        case tree.Between() if _is(node.this, name):
            return _number(node.args["high"])
    return None


def _is(node: tree.Node, name: str) -> bool:
    last = node.expression if isinstance(node, tree.Dot) else node.this
    return (
        isinstance(node, tree.Column | tree.Dot) and isinstance(last, tree.Identifier) and last.name == name
    )


def _number(node: tree.Node) -> int | None:
    digits = node.name if isinstance(node, tree.Literal) and not node.is_string else ""
    return int(digits) if digits.isdecimal() else None


def _before(number: int | None) -> int | None:
    return None if number is None else number - 1
