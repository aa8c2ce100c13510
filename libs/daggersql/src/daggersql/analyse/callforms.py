"""Calls as the grammar has them: of a function, or of what only looks like one.

A window or its bound, a call that names a unit of time, an aggregate with DISTINCT or FILTER have rules of
their own; whatever is left calls a function (`analyse.calls`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from daggersql.analyse import units, windows
from daggersql.analyse.calls import call_function, find_function
from daggersql.analyse.checks import Checks, Rule
from daggersql.findings import Report, Span
from daggersql.functions import once, registry
from daggersql.functions.distinct import COUNT_DISTINCT
from daggersql.functions.times import BY_UNIT
from daggersql.ir.expr import Expr, both, call, constant, wrong
from daggersql.ir.ops import Op
from daggersql.ir.types import BOOLEAN, INT, TIMESTAMP
from daggersql.operators import arithmetic
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of

_NO_AGGREGATE: Final = "FILTER belongs to an aggregate, which {} is not."
BY_TIME: Final = {"FIRST_VALUE": Op.FIRST_VALUE, "LAST_VALUE": Op.LAST_VALUE}
"""Aggregates that go by event time, where there is a window."""


def _call(node: tree.Anonymous, checks: Checks, where: Expr | None = None) -> Expr:
    name, span = node.name.upper(), span_of(node)
    first = node.expressions[0] if node.expressions else None
    special = _special(node, first, checks)
    if special is not None:
        if where is not None:
            checks.report.object_to("TYPE_MISMATCH", span, _NO_AGGREGATE.format(node.name))
        return special
    if isinstance(first, tree.Distinct):
        return _distinct(node, first, checks, where)
    arguments = (
        [constant("1", 1, INT, span_of(first))]
        if isinstance(first, tree.Star) and name == "COUNT" and len(node.expressions) == 1
        else [checks.check(expression) for expression in node.expressions]
    )
    if name in BY_TIME and checks.window is not None and len(arguments) == 1:
        return _by_time(BY_TIME[name], arguments[0], span, checks, where)
    function = find_function(node.name, span, checks.report)
    if function is None:
        return wrong(span)
    if function.rows is not None:
        checks.report.error(
            "UNSUPPORTED_FUNCTION",
            span,
            f"{function.name} gives rows: write FROM …, LATERAL TABLE({function.name}(…)) AS t(…).",
            f"LATERAL TABLE({function.name}(…))",
        )
        return wrong(span)
    if function.aggregate and _has_aggregate(arguments, checks.report):
        return wrong(span)
    if where is not None and not function.aggregate:
        checks.report.error("TYPE_MISMATCH", span, _NO_AGGREGATE.format(node.name))
        return wrong(span)
    return call_function(function, arguments, span, checks.report, where)


def _special(node: tree.Anonymous, first: tree.Node | None, checks: Checks) -> Expr | None:
    """Check special forms that look like calls; None for a call of a function."""
    name, span = node.name.upper(), span_of(node)
    if windows.is_bound(node):
        return windows.check_bound(node, checks)
    if (rule := _BY_NAME.get(name)) is not None:
        return rule(node, checks)
    if name == "MOD" and len(node.expressions) == 2:
        left, right = (checks.check(expression) for expression in node.expressions)
        return arithmetic.arithmetic("%", left, right, span, checks.report)
    if name == "IF" and len(node.expressions) == 3:
        branch = tree.If(this=node.expressions[0], true=node.expressions[1])
        case = tree.Case(ifs=[branch], default=node.expressions[2])
        case.meta.update(node.meta)
        return checks.check(case)
    if name in BY_UNIT and isinstance(first, tree.Column | tree.Literal):
        return units.by_unit(node, first, checks)
    return None


def check_rows(node: tree.Node, checks: Checks) -> Expr:
    """Check a call in FROM, which must return rows."""
    function = find_function(node.name, span_of(node), checks.report)
    arguments = [checks.check(expression) for expression in node.expressions]
    if function is None:
        return wrong(span_of(node))
    return call_function(function, arguments, span_of(node), checks.report)


def _by_time(op: Op, value: Expr, span: Span, checks: Checks, where: Expr | None) -> Expr:
    """FIRST_VALUE and LAST_VALUE: by event time, the same whatever the order in which rows come."""
    assert checks.window is not None
    if _has_aggregate([value], checks.report):
        return wrong(span)
    has_value = call(Op.IS_NOT_NULL, BOOLEAN, span, value)
    when = both(has_value, where) or has_value
    time = call(Op.CASE, TIMESTAMP, span, when, checks.window.time)
    return Expr(op, value.type, span, (value, time), aggregate=True)


def _distinct(node: tree.Anonymous, distinct: tree.Distinct, checks: Checks, where: Expr | None) -> Expr:
    values = [checks.check(expression) for expression in distinct.expressions]
    name = node.name.upper()
    function = COUNT_DISTINCT if name == "COUNT" and len(values) == 1 else once.FORMS.get(name)
    if (
        name in ("MIN", "MAX", "DISTINCTCOUNT") or registry.find(name) is None
    ):  # the same without it, or nothing
        function = find_function(name, span_of(node), checks.report)
        if function is None:
            return wrong(span_of(node))
    if function is None:
        checks.report.error(
            "UNSUPPORTED_FUNCTION",
            span_of(node),
            f"{node.name}(DISTINCT …) is not supported on a stream: COUNT(DISTINCT x) of one value"
            " is, and so are LISTAGG, CollectArray, MIN and MAX.",
            "COUNT(DISTINCT x)",
        )
        return wrong(span_of(node))
    if _has_aggregate(values[:1], checks.report):
        return wrong(span_of(node))
    return call_function(function, values, span_of(node), checks.report, where)


def _has_aggregate(values: Sequence[Expr], report: Report) -> bool:
    """Report an aggregate of an aggregate; True if there is one."""
    inner = next((value for value in values if value.has_aggregate), None)
    if inner is not None:
        report.error("AGGREGATE_NOT_ALLOWED", inner.span, "An aggregate cannot be aggregated again.")
    return inner is not None


def _filter(node: tree.Node, checks: Checks) -> Expr:
    where = checks.condition(node.expression.this, "FILTER")
    if where.has_aggregate:
        checks.report.error("AGGREGATE_NOT_ALLOWED", where.span, "FILTER goes by single rows.")
        return wrong(span_of(node))
    return replace(_call(node.this, checks, where), span=span_of(node))


_BY_NAME: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(("EXTRACT", "FLOOR TO", "CEIL TO", "CEILING TO"), units.of_time),
    "DATE_TRUNC": units.date_trunc,
    **dict.fromkeys(windows.KINDS, windows.refuse_window),
}
RULES: Final[Mapping[type[tree.Node], Rule]] = {tree.Anonymous: _call, tree.Filter: _filter}
"""Rules by kind of node."""
