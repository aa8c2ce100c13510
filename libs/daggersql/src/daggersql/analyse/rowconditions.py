"""Conditions on the rows of a query, which select its receivers. They read its columns, and have no state."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from daggersql.analyse import windows
from daggersql.analyse.expressions import Analyser
from daggersql.analyse.scope import Scope, Source
from daggersql.findings import Report
from daggersql.ir.expr import Expr, ExprKind, Ref, column
from daggersql.ir.relations import ROW, Projection, Result, Select
from daggersql.ir.types import Type
from daggersql.syntax import tree

_SOURCE_NAME = "the query's rows"


def check(
    node: tree.Node, query: Result, report: Report, more: Mapping[str, Type] = MappingProxyType({})
) -> Expr:
    """Check a condition; return a `wrong` placeholder, with findings, if it has errors. more: types of
    columns that the rows have beside those of the query.
    """
    condition = _analyser(query, report, more).condition(node, "`when`")
    _refuse_what_no_row_has(condition, report)
    return condition


def check_value(node: tree.Node, query: Result, report: Report) -> Expr:
    """Check a part of a condition; return a `wrong` placeholder, with findings, if it has errors."""
    value = _analyser(query, report, {}).check(node)
    _refuse_what_no_row_has(value, report)
    return value


def _analyser(query: Result, report: Report, more: Mapping[str, Type]) -> Analyser:
    columns = {
        output.name: column(Ref(ROW, (output.name,)), output.value.type, output.span, ("", output.name))
        for output in query.outputs
        if output.name
    }
    columns |= {name: column(Ref(ROW, (name,)), kind, (0, 0)) for name, kind in more.items()}
    below = query.relation if isinstance(query, Select) else query.branches[0].relation
    source = Source(_SOURCE_NAME, columns, Projection(below, ROW, columns, None))
    return Analyser(Scope([source], report, ()), report)


def _refuse_what_no_row_has(condition: Expr, report: Report) -> None:
    """Refuse aggregates, reference tables, and bounds of windows."""
    inner = next((part for part in condition.nodes() if part.kind is ExprKind.AGGREGATE), None)
    if inner is not None:
        text = "It goes by single rows that the query gives: select the aggregate, and name its column."
        report.error("AGGREGATE_NOT_ALLOWED", inner.span, text)
    if report.references:
        text = "It reads no reference tables: look values up in the query, and name their column."
        report.error("UNSUPPORTED_OPERATION", condition.span, text)
    windows.refuse_bounds([condition], report)
