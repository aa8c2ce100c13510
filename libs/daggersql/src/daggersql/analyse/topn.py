"""Top-N: the first rows of each window, as Flink writes it.

    SELECT … FROM (SELECT …, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY …) AS n FROM …)
    WHERE n <= 3

Not all rows of a window are numbered. The first N are an aggregate of its group, a list in their order, which
is unfolded again: what can be grouped and unfolded can be numbered, and N rows are all of the state (ADR 45).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from daggersql.analyse import windows
from daggersql.analyse.checks import Checks
from daggersql.analyse.results import object_to_groups
from daggersql.findings import Report, Span
from daggersql.ir.expr import Expr, ExprKind, Ref, call, cast, column, constant, text_constant, wrong
from daggersql.ir.ops import Op
from daggersql.ir.relations import (
    GroupWindow,
    OutputColumn,
    QueryRelation,
    Relation,
    Select,
    group_column,
    ordinality,
)
from daggersql.ir.types import (
    EVENT_TIMES,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    WINDOW_TIME,
    Array,
    MapOf,
    Message,
    Struct,
    Type,
)
from daggersql.limits import MAX_TOP
from daggersql.plan import Window
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of

ROWS = "top"
"""The column of the groups that is the list of their first rows."""
_TIME = "__rowtime"
_RECIPE = (
    "number the rows of a window in a sub-query, and keep the first of them around it: SELECT … FROM"
    " (SELECT …, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY …) AS n FROM …)"
    " WHERE n <= 3."
)


@dataclass(frozen=True, slots=True)
class Numbering:
    """A SELECT that numbers its rows."""

    plain: tree.Select
    """The SELECT with a constant in place of the number."""
    over: tree.Window
    name: str
    """Of the number; empty without one."""
    span: Span
    """Place of the constant."""


def numbering(node: tree.Node) -> Numbering | None:
    """Find the numbering of a SELECT's rows; None without one."""
    if not isinstance(node, tree.Select):
        return None
    for index, item in enumerate(node.expressions):
        over = item.this if isinstance(item, tree.Alias) else item
        if isinstance(over, tree.Window) and "order" in over.args:
            span = tree.Literal.number("1")
            span.meta.update(over.meta)
            alias = item.args["alias"] if isinstance(item, tree.Alias) else None
            stands = tree.Alias(this=span, alias=alias) if alias else span
            stands.meta.update(item.meta)
            plain = tree.Select(**node.args)
            plain.meta.update(node.meta)
            plain.set("expressions", [*node.expressions[:index], stands, *node.expressions[index + 1 :]])
            return Numbering(plain, over, alias.name if alias else "", span_of(over))
    return None


def refuse(span: Span, report: Report) -> Expr:
    """Say of a number that nothing bounds how it is done."""
    report.error("UNSUPPORTED_OVER", span, f"Rows are numbered for a Top-N only: {_RECIPE}")
    return wrong(span)


@dataclass(frozen=True, slots=True)
class Top:
    """The groups whose first rows are kept, and how their rows are read again."""

    groups: Select
    numbered: Sequence[tuple[OutputColumn, int | None]]
    """The columns of the SELECT, each with its place in a row of the list, or None: its own column."""
    number: int
    """Index of the number among them."""


def check(numbering: Numbering, keep: int | None, select: Select, rows: Checks, report: Report) -> Top | None:
    """Check a numbering, and build its groups; None, with findings, on errors.

    `select`: the SELECT with numbered rows. `keep`: the number of rows to keep; None: WHERE sets no bound.
    """
    span = span_of(numbering.over)
    if select.window is not None or select.grouped:
        report.error("UNSUPPORTED_OVER", span, f"Group in a sub-query of its own: {_RECIPE}")
        return None
    if not numbering.name or keep is None:
        refuse(span, report)
        return None
    if not 1 <= keep <= MAX_TOP:
        report.error(
            "UNSUPPORTED_OVER", span, f"A Top-N keeps 1 to {MAX_TOP:,} rows of each group, not {keep:,}."
        )
        return None
    partition = [rows.check(argument) for argument in numbering.over.args["partition"]]
    order = [
        (rows.check(argument.this), argument.args["descending"], argument)
        for argument in numbering.over.args["order"]
    ]
    relation, window, bounds = _window(select, numbering.over, report)
    if window is None or not _can_order(order, report) or any(expression.wrong for expression in partition):
        return None
    keys = [expression for expression in partition if not _is_bound(expression, bounds)]
    if len(keys) == len(partition):
        report.error("UNSUPPORTED_OVER", span, f"Rows are numbered window by window: {_RECIPE}")
        return None
    for key in keys:
        if not _is_ordered(key.type):
            report.error("TYPE_MISMATCH", key.span, "One cannot go by a map: take an element of it.")
            return None
    object_to_groups(window, keys, relation, report)
    return _top(replace(select, relation=relation), window, keys, order, keep, numbering, report)


def _window(
    select: Select, over: tree.Window, report: Report
) -> tuple[Relation, GroupWindow | None, frozenset[Ref]]:
    """Find the numbered relation, the window of its rows, and the columns that are its bounds."""
    relation, span = select.relation, span_of(over)
    if select.table_window is not None:
        return relation, select.table_window, frozenset()
    inner = relation.query if isinstance(relation, QueryRelation) else None
    if not isinstance(inner, Select) or inner.window is None or inner.window.window.kind == "SESSION":
        report.error("UNSUPPORTED_OVER", span, f"Rows are numbered in windows of TUMBLE or HOP: {_RECIPE}")
        return relation, None, frozenset()
    assert isinstance(relation, QueryRelation)
    bounds = {
        Ref(relation.name, (output.name or "",))
        for output in inner.outputs
        if output.value.kind is ExprKind.WINDOW
    }
    time = OutputColumn(_TIME, windows.bound_at("ROWTIME", span), span)
    # Windows of one length end once in each slide: by their ends, they are told apart by tumbling. These lie
    # at the end of that, and what is in them so much less before its start.
    slide = inner.window.window.slide
    numbered = replace(inner, outputs=[*inner.outputs, time])
    timed = replace(relation, query=numbered, lookback=relation.lookback - slide)
    ends = column(Ref(relation.name, (_TIME,)), WINDOW_TIME, span)
    return timed, GroupWindow(Window("TUMBLE", slide, slide), ends, span, ""), frozenset(bounds)


def _is_bound(value: Expr, bounds: frozenset[Ref]) -> bool:
    return value.kind is ExprKind.WINDOW or value.ref in bounds


def _can_order(order: Sequence[tuple[Expr, bool, tree.Node]], report: Report) -> bool:
    if any(value.wrong for value, _, _ in order):
        return False
    unordered = next((value for value, _, _ in order if not _is_ordered(value.type)), None)
    if unordered is not None:
        report.error("TYPE_MISMATCH", unordered.span, "Maps have no order: take an element of it.")
        return False
    other = next((node for _, descending, node in order if descending != order[0][1]), None)
    if other is not None:
        report.error(
            "UNSUPPORTED_OVER",
            span_of(other),
            "The keys of one ORDER BY go one way, all DESC or all ASC: of a number, order by its negative.",
        )
        return False
    return True


def _is_ordered(kind: Type) -> bool:
    """Tell whether values of a type have an order."""
    match kind:
        case MapOf():
            return False
        case Array(element=element):
            return _is_ordered(element)
        case Message() | Struct():
            return all(map(_is_ordered, kind.fields().values()))
    return True


def _top(
    select: Select,
    window: GroupWindow,
    keys: list[Expr],
    order: Sequence[tuple[Expr, bool, tree.Node]],
    keep: int,
    numbering: Numbering,
    report: Report,
) -> Top:
    span = span_of(numbering.over)
    number = next(index for index, output in enumerate(select.outputs) if output.value.span == numbering.span)
    kept_values: list[Expr] = []
    numbered: list[tuple[OutputColumn, int | None]] = []
    of_group: list[OutputColumn] = []
    for index, output in enumerate(select.outputs):
        if index == number:
            numbered.append((output, None))
        elif output.value.kind is ExprKind.WINDOW:
            numbered.append((output, None))
            of_group.append(replace(output, name=f"w{index}"))
        else:
            numbered.append((output, len(kept_values)))
            kept_values.append(_plain(output.value))
    # What is alike in all that is ordered by is told apart by all else: a replay keeps the same rows.
    first_by = [value for value, _, _ in order]
    named = {expression.ref for expression in first_by if expression.ref}
    by = [
        *first_by,
        *(
            expression
            for expression in kept_values
            if expression.ref not in named and _is_ordered(expression.type)
        ),
    ]
    row = _row("c", kept_values, span) if kept_values else _row("c", by, span)
    ways = Op.GREATEST_ROWS if order[0][1] else Op.LEAST_ROWS
    count = constant(str(keep), keep, INT, span)
    first = Expr(ways, Array(row.type), span, (row, _row("o", by, span), count), aggregate=True)
    windows.refuse_bounds([*([select.where] if select.where else []), *keys, first], report)
    groups = Select(
        select.relation, select.where, window, keys,
        [*of_group, OutputColumn(ROWS, group_column("a", 0, first), span)],
        grouped=True, aggregates=[first],
    )  # fmt: skip
    return Top(groups, numbered, number)


def _row(letter: str, parts: Sequence[Expr], span: Span) -> Expr:
    names = [f"{letter}{index}" for index in range(len(parts))]
    args = [
        expression
        for name, part in zip(names, parts, strict=True)
        for expression in (text_constant(name, STRING, span), part)
    ]
    kind = Struct(tuple((name, part.type) for name, part in zip(names, parts, strict=True)))
    return call(Op.ROW, kind, span, *args)


def _plain(value: Expr) -> Expr:
    """Convert a value for a part of a struct: a NULL gets a type, and times are no event times."""
    if value.type in EVENT_TIMES:
        return replace(value, type=TIMESTAMP)
    return cast(value, STRING) if value.type == NULL else value


def unfold(top: Top, groups: dict[str, Expr], name: str) -> list[OutputColumn]:
    """Build the columns of the numbering from its groups, whose list is unfolded as `name`."""
    columns = []
    for index, (output, span) in enumerate(top.numbered):
        if index == top.number:
            value = ordinality(name, output.span)
        elif span is None:
            value = groups[f"w{index}"]
        else:
            kind = _plain(output.value).type
            value = column(Ref(name, ("c", f"c{span}")), kind, output.span)
        columns.append(replace(output, value=value))
    return columns
