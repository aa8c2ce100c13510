"""Checks expressions: from the grammar's tree to typed ones. A node that no rule here knows is refused.

All mistakes are said, each once: what is wrong already fits everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from daggersql.analyse import callforms, literals, operators, topn, windows
from daggersql.analyse.calls import call_function, find_function
from daggersql.analyse.checks import Checks, Rule
from daggersql.analyse.scope import Scope
from daggersql.findings import Report, Suggestion
from daggersql.functions import names
from daggersql.functions.general import WITHOUT_BRACKETS
from daggersql.ir.expr import Expr, constant, null, text_constant, wrong
from daggersql.ir.relations import GroupWindow
from daggersql.ir.types import BOOLEAN, STRING
from daggersql.operators import collections
from daggersql.operators.coercion import condition
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of


class Analyser:
    """Checks the expressions of one SELECT; `window` is what it groups by, if anything."""

    def __init__(
        self,
        scope: Scope,
        report: Report,
        window: GroupWindow | None = None,
        *,
        has_group: bool = False,
        group_by: Callable[[], Suggestion] = lambda: None,
    ) -> None:
        """`has_group`: whether the SELECT has a GROUP BY; `group_by`: how it gets one, where it has none."""
        self.has_group = has_group
        self.group_by = group_by
        self.scope = scope
        self.report = report
        self.window = window

    def check(self, node: tree.Node) -> Expr:
        """Check an expression; return a `wrong` placeholder, with findings, if it has errors."""
        rule = _RULES.get(type(node))
        if rule is None:
            self.report.error("UNSUPPORTED_OPERATION", span_of(node), "This is not supported here.")
            return wrong(span_of(node))
        return rule(node, self)

    def condition(self, node: tree.Node, where: str) -> Expr:
        """Check an expression that must be true or false."""
        return condition(self.check(node), self.report, where)


# --- names ---------------------------------------------------------------------------------------------


def _name(node: tree.Node, checks: Checks) -> Expr:
    fields: list[tree.Identifier] = []
    base = node
    while isinstance(base, tree.Dot):
        field = base.expression
        if not isinstance(field, tree.Identifier):
            checks.report.error("SYNTAX_ERROR", span_of(base), "A star stands only in the SELECT list.")
            return wrong(span_of(node))
        fields.insert(0, field)
        base = base.this
    if isinstance(base, tree.Column):
        if not fields and (bare := _bare_function(base, checks)) is not None:
            return bare
        return checks.scope.column([base.this, *fields])
    value = checks.check(base)
    for field in fields:
        value = checks.scope.field(value, field)
    return value


def _bare_function(node: tree.Column, checks: Checks) -> Expr | None:
    """CURRENT_TIMESTAMP and its kin, unless a column has that name."""
    name, span = node.name, span_of(node)
    if node.this.args.get("quoted") or checks.scope.has(node.this):
        return None
    if name.upper() in WITHOUT_BRACKETS or (
        names.FORBIDDEN.fullmatch(name) and not checks.scope.may_have_more
    ):
        function = find_function(name, span, checks.report)
        return call_function(function, [], span, checks.report) if function else wrong(span)
    return None


def _element(node: tree.Node, checks: Checks) -> Expr:
    value, index = checks.check(node.this), checks.check(node.expressions[0])
    return collections.element(value, index, span_of(node), checks.report)


# --- constants, lists and maps --------------------------------------------------------------------------


def _literal(node: tree.Node, checks: Checks) -> Expr:
    if isinstance(node, tree.Literal) and node.is_string:
        return text_constant(node.name, STRING, span_of(node))
    return literals.number(node.name, span_of(node), checks.report)


def _interval(node: tree.Node, checks: Checks) -> Expr:
    length = windows.interval(node, checks.report)
    return wrong(span_of(node)) if length is None else literals.interval(length, span_of(node))


def _hexadecimal(node: tree.Node, _: Checks) -> Expr:
    return literals.hexadecimal(node.name, span_of(node))


def _boolean(node: tree.Node, _: Checks) -> Expr:
    return constant(str(node.this).upper(), bool(node.this), BOOLEAN, span_of(node))


def _null(node: tree.Node, _: Checks) -> Expr:
    return null(span_of(node))


def _list(node: tree.Node, checks: Checks) -> Expr:
    return collections.make_list([*map(checks.check, node.expressions)], span_of(node), checks.report)


def _map(node: tree.Node, checks: Checks) -> Expr:
    keys, values = ([*map(checks.check, node.args[part])] for part in ("keys", "values"))
    return collections.make_map(keys, values, span_of(node), checks.report)


# --- what stands elsewhere ------------------------------------------------------------------------------


def _star(node: tree.Node, checks: Checks) -> Expr:
    checks.report.error(
        "SYNTAX_ERROR", span_of(node), "A star stands only in the SELECT list and in COUNT(*)."
    )
    return wrong(span_of(node))


def _over(node: tree.Node, checks: Checks) -> Expr:
    return topn.refuse(span_of(node), checks.report) if "order" in node.args else wrong(span_of(node))


def _subquery(node: tree.Node, checks: Checks) -> Expr:
    checks.report.error(
        "UNSUPPORTED_SUBQUERY",
        span_of(node),
        "A query inside an expression is not supported on streams: use a join.",
    )
    return wrong(span_of(node))


def _refuse_named(node: tree.Node, checks: Checks) -> Expr:
    text = "Arguments have no names here: write the value alone, in its place."
    checks.report.error("UNSUPPORTED_OPERATION", span_of(node), text)
    return wrong(span_of(node))


_RULES: Final[Mapping[type[tree.Node], Rule]] = {
    tree.NamedArgument: _refuse_named,
    **operators.RULES,
    **callforms.RULES,
    tree.Column: _name,
    tree.Dot: _name,
    tree.Bracket: _element,
    tree.Array: _list,
    tree.Map: _map,
    tree.Literal: _literal,
    tree.HexString: _hexadecimal,
    tree.Boolean: _boolean,
    tree.Null: _null,
    tree.Interval: _interval,
    tree.Star: _star,
    tree.Window: _over,
    tree.Subquery: _subquery,
    tree.Exists: _subquery,
}
