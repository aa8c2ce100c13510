"""Operators, CASE and casts: what stands between values, and which type comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from daggersql.analyse import casts, literals
from daggersql.analyse.checks import Checks, Rule
from daggersql.analyse.similar import similar
from daggersql.ir.expr import Expr, call, wrong
from daggersql.ir.ops import Op
from daggersql.ir.types import BOOLEAN
from daggersql.operators import arithmetic, comparisons
from daggersql.operators.coercion import choose
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of

_SIGNS: dict[type[tree.Node], str] = {
    tree.Add: "+",
    tree.Sub: "-",
    tree.Mul: "*",
    tree.Div: "/",
    tree.Mod: "%",
}
_COMPARISONS: dict[type[tree.Node], str] = {
    tree.EQ: "=", tree.NEQ: "<>", tree.LT: "<", tree.LTE: "<=", tree.GT: ">", tree.GTE: ">=",
    tree.NullSafeEQ: "<=>", tree.NullSafeNEQ: "!<=>",
}  # fmt: skip


def _negate(node: tree.Node, checks: Checks) -> Expr:
    return arithmetic.negate(checks.check(node.this), span_of(node), checks.report)


def _arithmetic(node: tree.Node, checks: Checks) -> Expr:
    left, right = checks.check(node.this), checks.check(node.expression)
    if isinstance(node, tree.DPipe):
        return arithmetic.join_text(left, right, span_of(node), checks.report)
    if isinstance(node, tree.Div):
        arithmetic.warn_of_whole(left, right, checks.report)
    return arithmetic.arithmetic(_SIGNS[type(node)], left, right, span_of(node), checks.report)


def _comparison(node: tree.Node, checks: Checks) -> Expr:
    left, right = _sides(node.this, node.expression, checks)
    return comparisons.compare(_COMPARISONS[type(node)], left, right, span_of(node), checks.report)


def _sides(left: tree.Node, right: tree.Node, checks: Checks) -> tuple[Expr, Expr]:
    """Check both sides of a comparison, either of which may be an unquoted value of the other's enum."""
    if isinstance(left, tree.Column) and not checks.scope.has(left.this):
        value = checks.check(right)
        return _beside(value, left, checks), value
    value = checks.check(left)
    return value, _beside(value, right, checks)


def _beside(value: Expr, node: tree.Node, checks: Checks) -> Expr:
    """Check the other side of a comparison."""
    if isinstance(node, tree.Column) and checks.scope.is_value(node.this, value):
        return wrong(span_of(node))
    return checks.check(node)


def _not(node: tree.Node, checks: Checks) -> Expr:
    return call(Op.NOT, BOOLEAN, span_of(node), checks.condition(node.this, "NOT"))


def _junction(node: tree.Node, checks: Checks) -> Expr:
    op, word = (Op.AND, "AND") if isinstance(node, tree.And) else (Op.OR, "OR")
    left, right = checks.condition(node.this, word), checks.condition(node.expression, word)
    return call(op, BOOLEAN, span_of(node), left, right)


def _is(node: tree.Node, checks: Checks) -> Expr:
    right = node.expression
    if isinstance(right, tree.Null):
        return call(Op.IS_NULL, BOOLEAN, span_of(node), checks.check(node.this))
    op, word = (Op.IS_TRUE, "TRUE") if right.this else (Op.IS_FALSE, "FALSE")
    return call(op, BOOLEAN, span_of(node), checks.condition(node.this, f"IS {word}"))


def _in(node: tree.Node, checks: Checks) -> Expr:
    value = checks.check(node.this)
    if node.args.get("query") is not None:
        return checks.check(node.args["query"])
    choices = []
    for expression in node.expressions:
        choice = _beside(value, expression, checks)
        sides = (
            None
            if value.wrong or choice.wrong
            else comparisons.comparable(value, choice, span_of(node), checks.report)
        )
        if sides is not None:
            choices.append(sides[1])
    if not choices:
        return call(Op.NULL, BOOLEAN, span_of(node))
    return call(Op.IN, BOOLEAN, span_of(node), value, *choices)


def _between(node: tree.Node, checks: Checks) -> Expr:
    value = checks.check(node.this)
    low = comparisons.compare(">=", value, checks.check(node.args["low"]), span_of(node), checks.report)
    high = comparisons.compare("<=", value, checks.check(node.args["high"]), span_of(node), checks.report)
    return call(Op.AND, BOOLEAN, span_of(node), low, high)


def _like(node: tree.Node, checks: Checks) -> Expr:
    escape = checks.check(node.expression) if isinstance(node, tree.Escape) else None
    like = node.this if isinstance(node, tree.Escape) else node
    value, pattern = checks.check(like.this), checks.check(like.expression)
    compare = similar if isinstance(like, tree.SimilarTo) else comparisons.like
    return compare(value, pattern, escape, span_of(node), checks.report)


def _case(node: tree.Node, checks: Checks) -> Expr:
    operand = checks.check(node.this) if node.this is not None else None
    conditions, values = [], []
    for branch in node.args["ifs"]:
        if operand is None:
            conditions.append(checks.condition(branch.this, "WHEN"))
        else:
            other = _beside(operand, branch.this, checks)
            conditions.append(comparisons.compare("=", operand, other, other.span, checks.report))
        values.append(checks.check(branch.args["true"]))
    if node.args.get("default") is not None:
        values.append(checks.check(node.args["default"]))
    chosen = choose(values, checks.report)
    if chosen is None:
        return wrong(span_of(node))
    return call(Op.CASE, chosen[0], span_of(node), *conditions, *chosen[1])


def _cast(node: tree.Node, checks: Checks) -> Expr:
    if node.args.get("default"):
        return literals.of_type(node.args["to"].this.name, node.name, span_of(node), checks.report)
    return casts.check_cast(checks.check(node.this), node.args["to"], span_of(node), checks.report)


RULES: Final[Mapping[type[tree.Node], Rule]] = {
    tree.Neg: _negate,
    tree.Not: _not,
    tree.And: _junction,
    tree.Or: _junction,
    tree.DPipe: _arithmetic,
    tree.Is: _is,
    tree.In: _in,
    tree.Between: _between,
    tree.Like: _like,
    tree.Escape: _like,
    tree.SimilarTo: _like,
    tree.Case: _case,
    tree.Cast: _cast,
    **dict.fromkeys(_SIGNS, _arithmetic),
    **dict.fromkeys(_COMPARISONS, _comparison),
}
"""Rules by kind of node."""
