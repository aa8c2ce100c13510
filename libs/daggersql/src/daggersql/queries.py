"""A whole query: WITH, sub-queries in FROM, and the SELECT over them.

A sub-query that only picks and filters has no layer of its own: its columns are expressions over the stream,
and whoever names one means that expression. So the state of a query is the same however it is nested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from daggersql import scope
from daggersql.calls import find_function
from daggersql.findings import Report
from daggersql.grammar.cursor import span
from daggersql.limits import Budget
from daggersql.plan import Table
from daggersql.scope import Source
from daggersql.select import Select, SelectChecker
from daggersql.sources import find_table, refuse_join
from daggersql.tree import Expr

_STREAM = "s0"


@dataclass(slots=True)
class _Named:
    """A query under WITH."""

    node: exp.CTE
    source: Source | None
    """None: it was found to be wrong."""
    used: bool = False


class QueryChecker:
    """Checks a query against the streams of the dagger."""

    def __init__(self, tables: Sequence[Table], report: Report) -> None:
        self._tables = tables
        self._report = report
        self._budget = Budget()

    def check(self, node: exp.Expr, outer: Mapping[str, _Named] | None = None) -> Select | None:
        """The checked query; None, with findings, when there is nothing to go on with."""
        named = {**(outer or {}), **self._with(node, outer or {})}
        if not isinstance(node, exp.Select):
            self._refuse_set_operations(node)
            return None
        source = self._from(node, named)
        select = (
            SelectChecker(self._tables, self._report, self._budget).check(node, source) if source else None
        )
        for each in named.values():
            if not each.used and each.node.parent is node.args.get("with_"):
                name = each.node.args["alias"].this
                self._report.warn("UNUSED_TABLE", span(name), f"Nothing reads {name.name}.")
        return select

    # --- WITH -----------------------------------------------------------------------------------------

    def _with(self, node: exp.Expr, outer: Mapping[str, _Named]) -> dict[str, _Named]:
        clause = node.args.get("with_")
        found: dict[str, _Named] = {}
        for each in clause.expressions if clause is not None else ():
            alias = each.args["alias"]
            if alias.name in found:
                self._report.error(
                    "DUPLICATE_TABLE",
                    span(alias.this),
                    f"WITH has {alias.name} twice: choose another.",
                )
                continue
            select = self.check(each.this, {**outer, **found})
            found[alias.name] = _Named(each, self._as_source(alias.name, select, each, alias))
        return found

    def _as_source(
        self, alias: str, select: Select | None, node: exp.Expr, names: exp.Expr | None
    ) -> Source | None:
        """A query that picks and filters, as something to select from."""
        if select is None:
            return None
        if select.window is not None or select.having is not None or select.grouped:
            self._report.error(
                "UNSUPPORTED_SUBQUERY",
                span(node),
                "A sub-query that groups is not supported yet.",
            )
            return None
        renamed = names.args.get("columns") if names is not None else None
        if renamed and len(renamed) != len(select.outputs):
            given = ", ".join(output.name or "?" for output in select.outputs)
            self._report.error(
                "COLUMN_COUNT_MISMATCH",
                span(renamed[0]),
                f"The query has {len(select.outputs)} columns, here are {len(renamed)} names.",
                given,
            )
            return None
        columns: dict[str, Expr] = {}
        for number, output in enumerate(select.outputs):
            name = renamed[number].name if renamed else output.name
            if name is None:
                self._report.error(
                    "UNNAMED_COLUMN", output.span, "Give this column a name: AS value.", "AS value"
                )
            elif name in columns:
                self._report.error("DUPLICATE_COLUMN", output.span, f"Two columns are called {name}.")
            else:
                columns[name] = output.value
        source = select.source
        return Source(alias, source.table, source.name, columns, select.where)

    # --- FROM -----------------------------------------------------------------------------------------

    def _from(self, select: exp.Select, named: Mapping[str, _Named]) -> Source | None:
        clause = select.args.get("from_")
        if clause is None:
            place = span(select.expressions[0])
            self._report.error("NO_STREAM", place, "The query reads no stream: add FROM.", "FROM")
            return None
        source = self._source(clause.this, named)
        joins = select.args.get("joins") or ()
        for join in joins:
            refuse_join(join, self._tables, self._report)
        return None if joins else source

    def _source(self, node: exp.Expr, named: Mapping[str, _Named]) -> Source | None:
        place, alias, report = span(node), node.args.get("alias"), self._report
        if isinstance(node, exp.Subquery):
            inner = self.check(node.this, named)
            return self._as_source(alias.name if alias else "", inner, node, alias)
        if isinstance(node, exp.Anonymous):
            if find_function(node.name, place, report) is not None:
                report.error("UNSUPPORTED_FUNCTION", place, f"{node.name} does not give rows to read.")
            return None
        if not isinstance(node, exp.Table) or isinstance(node.this, exp.Anonymous):
            report.error("UNSUPPORTED_WINDOW", place, "Table functions are not supported yet.")
            return None
        parts = node.meta["parts"]
        if alias is not None and alias.args.get("columns"):
            report.error("UNSUPPORTED_CLAUSE", place, "Columns of a stream keep their names.")
        if len(parts) == 1 and (query := named.get(parts[0].name)) is not None:
            query.used = True
            return (
                replace(query.source, alias=alias.name if alias else parts[0].name) if query.source else None
            )
        table = find_table(parts, self._tables, report)
        return scope.stream(alias.name if alias else table.name, table, _STREAM) if table else None

    def _refuse_set_operations(self, query: exp.Expr) -> None:
        for each in query.find_all(exp.SetOperation):
            union, place = isinstance(each, exp.Union), each.meta["operator"]
            if union and each.args["distinct"]:
                self._report.error(
                    "UNBOUNDED_STATE",
                    place,
                    "UNION remembers every row for ever: use UNION ALL.",
                    "UNION ALL",
                )
            elif union:
                self._report.error("UNSUPPORTED_SET_OPERATION", place, "UNION ALL is not supported yet.")
            else:
                self._report.error(
                    "UNSUPPORTED_SET_OPERATION", place, "Only UNION ALL can be: a stream has no end."
                )
