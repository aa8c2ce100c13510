"""A whole query: WITH, sub-queries in FROM, UNION ALL, and the SELECTs over them.

A sub-query that only picks and filters has no layer of its own: its columns are expressions over what it
reads, and whoever names one means that expression. So the state of a query is the same however it is nested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from daggersql.analyse import topn
from daggersql.analyse.conditions import most
from daggersql.analyse.expressions import Analyser
from daggersql.analyse.scope import MissingTime, Scope, Source
from daggersql.analyse.select import SelectChecker
from daggersql.analyse.sources import From, FromChecker
from daggersql.analyse.unions import unite
from daggersql.findings import Report, instead
from daggersql.ir import whole
from daggersql.ir.expr import Expr, Ref, Spelling, column
from daggersql.ir.naming import ColumnNames, add_column, rename_column, say_unnamed
from daggersql.ir.relations import Names, OutputColumn, QueryRelation, Select, Union, Unnest
from daggersql.ir.types import ROWTIME, TIMESTAMP
from daggersql.ir.walk import all_expressions, identity, lift_identity
from daggersql.limits import Budget
from daggersql.plan import Table
from daggersql.syntax import tree
from daggersql.syntax.cursor import more_names, span_of


@dataclass(slots=True)
class _WithQuery:
    """Query of WITH."""

    node: tree.CTE
    source: Source | None
    """None: it has errors, or is checked where it is used."""
    used: bool = False
    scope: Mapping[str, _WithQuery] | None = None
    """Queries that it can name, if it is checked where it is used: its user bounds the rows that it numbers.
    """


class QueryChecker:
    """Checks a query against the streams of the dagger."""

    def __init__(self, tables: Sequence[Table], report: Report, spelling: Spelling) -> None:
        self._tables = tables
        self._report = report
        self._budget = Budget()
        self._names = Names()
        self._spelling = spelling

    def check(
        self,
        node: tree.Node,
        outer: Mapping[str, _WithQuery] | None = None,
        around: tree.Select | None = None,
    ) -> Select | Union | None:
        """Check a query; None, with findings, when it cannot be used. `around`: the SELECT that reads it."""
        own = self._with(node, outer or {})
        named = {**(outer or {}), **own}
        checked = (
            self._set(node, named) if isinstance(node, tree.SetOperation) else self._one(node, named, around)
        )
        for query in own.values():
            if not query.used:
                name = query.node.args["alias"].this
                self._report.warn("UNUSED_TABLE", span_of(name), f"Nothing reads {name.name}.")
        return checked

    def _one(
        self, node: tree.Node, named: Mapping[str, _WithQuery], around: tree.Select | None
    ) -> Select | None:
        assert isinstance(node, tree.Select)
        sources = FromChecker(
            self._tables,
            self._report,
            self._budget,
            self._names,
            partial(self._source_of, named=named, around=node),
        )
        below = sources.check(node)
        if below is None:
            return None
        numbering = topn.numbering(node)
        if numbering is not None:
            return self._top(numbering, below, around)
        return self._select(node, below)

    def _select(self, node: tree.Select, below: From) -> Select:
        return SelectChecker(self._tables, self._report, self._budget, self._spelling).check(node, below)

    def _top(self, numbering: topn.Numbering, below: From, around: tree.Select | None) -> Select | None:
        """Check a Top-N: groups that keep the first rows of windows, unfolded."""
        keep = most(around, numbering.name) if around is not None else None
        rows = Analyser(Scope(below.sources, self._report, self._tables, self._budget), self._report)
        top = topn.check(numbering, keep, self._select(numbering.plain, below), rows, self._report)
        if top is None:
            return None
        groups = self._as_table("", top.groups)
        name = self._names.fresh("u")
        relation = Unnest(groups.relation, groups.columns[topn.ROWS], name, outer=False)
        outputs = topn.unfold(top, dict(groups.columns), name)
        return Select(relation, None, None, [], outputs)

    # --- UNION ALL ------------------------------------------------------------------------------------

    def _set(self, node: tree.Node, named: Mapping[str, _WithQuery]) -> Union | None:
        nodes, operators = _branches(node)
        for operator in operators:
            self._refuse_set_operation(operator)
        branches: list[Select] = []
        fine = True
        for operand in nodes:
            branch = self.check(operand, named)
            if isinstance(branch, Union):
                branches += branch.branches
            elif branch is None:
                fine = False
            else:
                branches.append(branch)
        fine = fine and not any(map(self._is_open, branches))
        if not fine or any(
            not isinstance(operator, tree.Union) or operator.args["distinct"] for operator in operators
        ):
            return None
        return unite(branches, self._names.fresh("q"), self._report)

    def _refuse_set_operation(self, node: tree.Node) -> None:
        span = node.meta["operator"]
        if isinstance(node, tree.Union) and node.args["distinct"]:
            self._report.error(
                "UNBOUNDED_STATE",
                span,
                "UNION remembers every row for ever: use UNION ALL.",
                instead(span, "UNION ALL"),
            )
        elif not isinstance(node, tree.Union):
            self._report.error(
                "UNSUPPORTED_SET_OPERATION", span, "Only UNION ALL can be: a stream has no end."
            )

    # --- WITH -----------------------------------------------------------------------------------------

    def _with(self, node: tree.Node, outer: Mapping[str, _WithQuery]) -> dict[str, _WithQuery]:
        clause = node.args.get("with_")
        named: dict[str, _WithQuery] = {}
        for expression in clause.expressions if clause is not None else ():
            alias = expression.args["alias"]
            if alias.name in named:
                self._report.error(
                    "DUPLICATE_TABLE",
                    span_of(alias.this),
                    f"WITH has {alias.name} twice: choose another.",
                )
                continue
            scope = {**outer, **named}
            if topn.numbering(expression.this) is not None:
                named[alias.name] = _WithQuery(expression, None, scope=scope)
                continue
            select = self.check(expression.this, scope)
            named[alias.name] = _WithQuery(expression, self._as_source(alias.name, select, alias))
        return named

    # --- sub-queries ----------------------------------------------------------------------------------

    def _source_of(
        self, node: tree.Node, named: Mapping[str, _WithQuery], around: tree.Select
    ) -> Source | bool | None:
        """Check a sub-query of FROM, or a query of WITH; None: it has errors; False: it is neither."""
        alias = node.args.get("alias")
        if isinstance(node, tree.Subquery):
            below = self.check(node.this, named, around)
            return self._as_source(alias.name if alias else "", below, alias)
        if not isinstance(node, tree.Table) or isinstance(node.this, tree.Anonymous):
            return False
        parts = node.meta["parts"]
        if len(parts) != 1 or (query := named.get(parts[0].name)) is None:
            return False
        # Each use is a reading of its own: a relation has one place in FROM.
        source = query.source
        if query.scope is not None or (query.used and source is not None):
            scope = {**named, parts[0].name: query} if query.scope is None else query.scope
            below = self.check(query.node.this, scope, around)
            source = self._as_source(parts[0].name, below, query.node.args["alias"])
        query.used = True
        return replace(source, alias=alias.name if alias else parts[0].name) if source else None

    def _as_source(self, alias: str, query: Select | Union | None, names: tree.Node | None) -> Source | None:
        """Convert a query to a source of FROM; None, with findings, if it has errors."""
        if query is None:
            return None
        renamed = names.args.get("columns") if names is not None else None
        if renamed and len(renamed) != len(query.outputs):
            given = ", ".join(output.name or "?" for output in query.outputs)
            self._report.error(
                "COLUMN_COUNT_MISMATCH",
                span_of(renamed[0]),
                f"The query has {len(query.outputs)} columns, here are {len(renamed)} names.",
                more_names(renamed, [output.name or "value" for output in query.outputs], given),
            )
            return None
        outputs: dict[str, OutputColumn] = {}
        in_use = ColumnNames(query.outputs)
        for number, output in enumerate(query.outputs):
            name = renamed[number].name if renamed else output.name
            if name is None:
                say_unnamed(output, in_use, self._report)
            elif name in outputs:
                self._report.error(
                    "DUPLICATE_COLUMN",
                    output.span,
                    f"Two columns are called {name}.",
                    None if renamed else rename_column(output, in_use.free(name)),
                )
            else:
                outputs[name] = replace(output, name=name)
        missing = None if renamed else _missing_time(query)
        if isinstance(query, Select) and query.window is None and not query.grouped:
            columns = {name: output.value for name, output in outputs.items()}
            window, unknown = query.table_window, self._is_open(query)
            return Source(
                alias, columns, query.relation, query.where, window=window, missing=missing, unknown=unknown
            )
        if isinstance(query, Select) and query.window is None:
            return None  # it was said that it has no window
        return replace(self._as_table(alias, replace_outputs(query, list(outputs.values()))), missing=missing)

    def _is_open(self, query: Select) -> bool:
        """Tell whether it selects all columns of a stream without a known schema."""
        unknown = self._report.environment.unknown
        stars = (output.value for output in query.outputs if output.star)
        return any(value.read is not None and value.read[0] in unknown for value in stars)

    def _as_table(self, alias: str, query: Select | Union) -> Source:
        """Convert a query that is a relation of its own to a source."""
        name = query.name if isinstance(query, Union) else self._names.fresh("q")
        selects = query.branches if isinstance(query, Union) else (query,)
        own = identity(query)
        names = [self._column(name, number, output, query).ref for number, output in enumerate(query.outputs)]
        relation = QueryRelation(
            name,
            query,
            tuple(expression for select in selects for expression in all_expressions(select)),
            tuple(select.relation for select in selects),
            own if isinstance(query, Union) else lift_identity(own, name),
            max(map(whole.size, selects)),
            tuple(select.window.window if select.window else None for select in selects),
            max(map(whole.before_row, selects)),
            whole.exposes_since(query) or not isinstance(query, Union),
            any(map(whole.has_sessions, selects)),
            frozenset(ref for index in whole.results_of(query) if (ref := names[index]) is not None),
            whole.mixed(query),
        )
        columns = {
            output.name or "": self._column(name, number, output, query)
            for number, output in enumerate(query.outputs)
        }
        return Source(alias, columns, relation)

    def _column(self, table: str, number: int, output: OutputColumn, query: Select | Union) -> Expr:
        if isinstance(query, Union):
            return output.value
        # Of the times of a group only its window's is event time to Spark: a key or the first one is none.
        kind = TIMESTAMP if output.value.type == ROWTIME else output.value.type
        return column(Ref(table, (output.name or "",)), kind, output.span)


def _missing_time(query: Select | Union) -> MissingTime | None:
    """Find the event time that a sub-query could select; None without one."""
    if isinstance(query, Union):
        return None
    given = query.window.bound_text("ROWTIME") if query.window else query.event_time
    if given is None:
        return None
    name = ColumnNames(query.outputs).free("rowtime")
    column = given if given == name else f"{given} AS {name}"
    return MissingTime(name, column, add_column(query.outputs, column))


def replace_outputs(query: Select | Union, outputs: list[OutputColumn]) -> Select | Union:
    """Replace the columns of a query, to give them other names."""
    if isinstance(query, Union):
        return replace(query, outputs=tuple(outputs))
    return replace(query, outputs=outputs)


def _branches(node: tree.Node) -> tuple[list[tree.Node], list[tree.Node]]:
    """List the SELECTs and the operators of a chain, from left to right, without recursion."""
    nodes: list[tree.Node] = []
    operators: list[tree.Node] = []
    while isinstance(node, tree.SetOperation):
        operators.append(node)
        nodes.append(node.expression)
        below = node.this
        if below.args.get("with_") is not None:
            node = below
            break
        node = below
    return [node, *reversed(nodes)], operators[::-1]
