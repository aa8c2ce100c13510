"""One SELECT, checked as a whole: what it reads, keeps, groups by and gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from daggersql.analyse import grouping, windows
from daggersql.analyse.expressions import Analyser
from daggersql.analyse.results import object_to_groups
from daggersql.analyse.scope import Scope
from daggersql.analyse.sources import From
from daggersql.findings import Report, Rewrite, Span
from daggersql.ir.expr import Expr, ExprKind, Spelling, both, wrong
from daggersql.ir.families import Family, family
from daggersql.ir.relations import GroupWindow, OutputColumn, Select, group_column
from daggersql.limits import Budget
from daggersql.plan import Table
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of


class SelectChecker:
    """Checks one SELECT against the streams of the dagger."""

    def __init__(self, tables: Sequence[Table], report: Report, budget: Budget, spelling: Spelling) -> None:
        self._tables = tables
        self._report = report
        self._budget = budget
        self._spelling = spelling

    def check(self, node: tree.Select, below: From) -> Select:
        """Check a SELECT over its FROM; findings go to the report."""
        report = self._report
        given = partial(grouping.given_names, node, below.sources, report)
        scope = Scope(below.sources, report, self._tables, self._budget, given())
        rows = Analyser(scope, report)
        single = Analyser(replace(scope, given=given(single=True)), report)
        where = both(below.where, self._where(node, single))
        table_window = next((source.window for source in below.sources if source.window), None)
        lacking = grouping.window_of(node, scope, table_window)
        has_group, group_by = "group" in node.args, partial(grouping.with_group_by, node, lacking, report)
        window, keys = self._group(node, rows, table_window, lacking)
        analyser = Analyser(scope, report, window, has_group=has_group, group_by=group_by)
        outputs = self._outputs(node, analyser)
        having_node = node.args.get("having")
        having = analyser.condition(having_node.this, "HAVING") if having_node else None
        select = Select(
            below.relation, where, window, keys, outputs, having, grouped=has_group,
            table_window=None if window else table_window, event_time=scope.event_time(),
        )  # fmt: skip
        if node.args.get("distinct") is not None:
            report.error(
                "UNBOUNDED_STATE",
                span_of(node.args["distinct"]),
                "DISTINCT would remember every row for ever: group by a window instead.",
                grouping.without_distinct(node, lacking, report),
            )
        self._aggregate(node, select, group_by)
        if window is not None:
            object_to_groups(window, keys, below.relation, report)
        windows.refuse_bounds([*([where] if where else []), *keys, *select.aggregates], report)
        return select

    # --- clauses ---------------------------------------------------------------------------------------

    def _where(self, node: tree.Select, rows: Analyser) -> Expr | None:
        clause = node.args.get("where")
        if clause is None:
            return None
        where = rows.condition(clause.this, "WHERE")
        if inner := _first_aggregate(where):
            self._report.error(
                "AGGREGATE_NOT_ALLOWED",
                inner.span,
                "WHERE goes by single rows: use HAVING for aggregates.",
                "HAVING",
            )
        return where

    def _group(
        self, node: tree.Select, rows: Analyser, table_window: GroupWindow | None, lacking: grouping.Lacking
    ) -> tuple[GroupWindow | None, list[Expr]]:
        clause = node.args.get("group")
        read: list[GroupWindow] = []
        keys: list[Expr] = []
        seen_window = False
        for expression in clause.expressions if clause is not None else ():
            if isinstance(expression, tree.Anonymous) and expression.name.upper() in windows.KINDS:
                if seen_window:
                    self._report.error(
                        "MULTIPLE_WINDOWS",
                        span_of(expression),
                        "A query groups by one window: group once more around it.",
                    )
                    continue
                seen_window = True
                window = windows.read_window(expression, rows)
                read += [window] if window else []
                continue
            if grouping.is_bound(expression, node, rows):
                grouping.refuse_bound(expression, node, rows)
                continue
            key = rows.check(grouping.resolve_key(expression, node, rows))
            if key.kind is ExprKind.WINDOW and table_window is not None:
                read = [table_window]
                seen_window = True
            else:
                keys += self._key(key, keys)
        if clause is not None and not seen_window:
            change = grouping.with_window(clause, lacking, self._report)
            words = change.words if isinstance(change, Rewrite) else change
            self._report.error(
                "UNBOUNDED_STATE", span_of(clause), f"Groups without a window never end: {words}.", change
            )
        return (read[0] if read else None), keys

    def _key(self, key: Expr, before: Sequence[Expr]) -> list[Expr]:
        if key.wrong or any(self._spelling(key) == self._spelling(expression) for expression in before):
            return []
        if inner := _first_aggregate(key):
            self._report.error("AGGREGATE_NOT_ALLOWED", inner.span, "One cannot group by an aggregate.")
        elif key.is_constant:
            self._report.error(
                "UNSUPPORTED_GROUPING",
                key.span,
                "GROUP BY takes columns and expressions, not positions or constants.",
            )
        elif family(key.type) is Family.MAP:
            self._report.error("TYPE_MISMATCH", key.span, "One cannot group by a map: take an element of it.")
        else:
            return [key]
        return []

    def _outputs(self, node: tree.Select, analyser: Analyser) -> list[OutputColumn]:
        outputs: list[OutputColumn] = []
        for expression in node.expressions:
            star = expression.expression if isinstance(expression, tree.Dot) else expression
            if isinstance(star, tree.Star):
                outputs += self._star(node, expression, analyser)
                continue
            alias = expression.args["alias"] if isinstance(expression, tree.Alias) else None
            value = analyser.check(expression.this if alias else expression)
            span = span_of(alias) if alias else value.span
            is_key = alias is not None and grouping.is_key(expression, node, analyser)
            name = alias.name if alias else _own_name(expression)
            outputs.append(OutputColumn(name, value, span, is_key=is_key))
        return outputs

    def _star(self, select: tree.Select, node: tree.Node, analyser: Analyser) -> list[OutputColumn]:
        span = span_of(node)
        if select.args.get("group") is not None:
            self._report.error(
                "NOT_GROUPED", span, "With GROUP BY, list the columns to select: keys and aggregates."
            )
            return []
        alias = node.this.this if isinstance(node, tree.Dot) and isinstance(node.this, tree.Column) else None
        columns = analyser.scope.stars(alias, span)
        return [OutputColumn(name, value, span, star=True) for name, value in columns]

    # --- grouping --------------------------------------------------------------------------------------

    def _aggregate(self, node: tree.Select, select: Select, group_by: Callable[[], Rewrite | str]) -> None:
        """Turns outputs and HAVING into expressions over groups, if the query groups."""
        inner = next((a for output in select.outputs if (a := _first_aggregate(output.value))), None)
        if node.args.get("group") is None:
            if inner or select.having is not None:
                span: Span = inner.span if inner else span_of(node.args["having"])
                change = group_by()
                words = change.words if isinstance(change, Rewrite) else change
                self._report.error(
                    "UNBOUNDED_STATE", span, f"An aggregate needs a window to end: add {words}.", change
                )
            return
        groups = _Groups(select, span_of(node.args["group"])[1], self._report, self._spelling)
        select.outputs = [
            replace(output, value=groups.over(output.value, "SELECT")) for output in select.outputs
        ]
        if select.having is not None:
            select.having = groups.over(select.having, "HAVING")


class _Groups:
    """Puts expressions over rows into terms of the groups' columns."""

    def __init__(self, select: Select, end: int, report: Report, spelling: Spelling) -> None:
        """`end` is where the keys of GROUP BY end."""
        self._end = end
        self._report = report
        self._spelling = spelling
        self._keys = {spelling(key): number for number, key in enumerate(select.keys)}
        tops = [output.value for output in select.outputs] + ([select.having] if select.having else [])
        # In the order of their spelling: moving an output column about must not change the state.
        by_spelling = {spelling(node): node for top in tops for node in _aggregates(top)}
        select.aggregates = [by_spelling[spelt] for spelt in sorted(by_spelling)]
        self._aggregates = {spelt: number for number, spelt in enumerate(sorted(by_spelling))}
        self._clause = ""
        self._whole: Expr | None = None

    def over(self, value: Expr, clause: str) -> Expr:
        """Rewrite an expression for groups; report columns that are neither keys nor aggregated."""
        if value.wrong:
            return value
        self._clause, self._whole = clause, value
        return value.rebuild(self._change)

    def _change(self, value: Expr) -> Expr | None:
        spelt = self._spelling(value)
        if spelt in self._keys:
            return group_column("k", self._keys[spelt], value)
        if value.kind is ExprKind.AGGREGATE:
            return group_column("a", self._aggregates[spelt], value)
        if value.kind is ExprKind.COLUMN:
            self._not_grouped(value)
            return wrong(value.span)
        return value if value.kind in (ExprKind.CONSTANT, ExprKind.WINDOW) else None

    def _not_grouped(self, column: Expr) -> None:
        name = column.read[1] if column.read else "this"
        if self._clause == "HAVING" and self._whole is not None and not self._whole.has_aggregate:
            self._report.error(
                "NOT_GROUPED", column.span, f"HAVING goes by groups, {name} by rows: use WHERE.", "use WHERE"
            )
            return
        words = f"add {name} to GROUP BY"
        written = self._report.text[slice(*column.span)]
        key = Rewrite((self._end, self._end), f", {written}", words)
        self._report.error(
            "NOT_GROUPED",
            column.span,
            f"{name} is neither grouped by nor aggregated: {words}.",
            words if family(column.type) is Family.MAP else key,
        )


def refuse_bounds_of_rows(select: Select, report: Report) -> None:
    """Say of a SELECT without groups, which nothing around it groups, that it has no bounds of windows."""
    if select.window is None:
        windows.refuse_bounds([output.value for output in select.outputs], report)


def _own_name(node: tree.Node) -> str | None:
    """Return the name of an expression without AS: that of a column, or of the last field of a path."""
    last = (
        node.expression
        if isinstance(node, tree.Dot)
        else node.this
        if isinstance(node, tree.Column)
        else None
    )
    return last.name if isinstance(last, tree.Identifier) else None


def _aggregates(value: Expr) -> list[Expr]:
    return [node for node in value.nodes() if node.kind is ExprKind.AGGREGATE] if value.has_aggregate else []


def _first_aggregate(value: Expr) -> Expr | None:
    return next(iter(_aggregates(value)), None)
