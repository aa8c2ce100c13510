"""Fields of streams that decide which rows a query has, or what its groups contain. Pure.

If records differ only in other fields, two runs have as many rows, with equal values except in columns that
are made of these fields (`daggersql.ir.lineage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from daggersql.findings import Span
from daggersql.ir.expr import Expr
from daggersql.ir.lineage import NONE, Fields, Lineage, fields_of_records, selects, spelled_out
from daggersql.ir.ops import Op
from daggersql.ir.relations import Join, Projection, QueryRelation, Relation, Result, Select, Unnest

_TOP_N = (Op.GREATEST_ROWS, Op.LEAST_ROWS)
_Deciding: TypeAlias = Iterator[tuple[str, Expr, Select | None]]
"""Clauses and expressions that decide, each with the SELECT whose groups the expression is over."""


class Influence(NamedTuple):
    """Fields that decide which rows there are or what a group contains, and their place in the text."""

    clause: str
    """Clause, as in `daggersql.plan.Influence`."""
    span: Span
    origins: Fields


def influences(query: Result) -> tuple[Influence, ...]:
    """Find the fields that decide which rows there are, in the order of the text, once per place."""
    whole, lineage = fields_of_records(query), Lineage()
    by_place: dict[tuple[str, Span], Fields] = {}
    for clause, value, select in _of_query(query, lineage):
        for node, fields in lineage.leaves(value, select):
            if fields:
                place = clause, node.span if max(node.span) else value.span
                by_place[place] = by_place.get(place, NONE) | spelled_out(fields, whole)
    ordered = sorted(by_place.items(), key=lambda item: (item[0][1], item[0][0]))
    return tuple(Influence(clause, span, fields) for (clause, span), fields in ordered)


def _of_query(query: Result, lineage: Lineage) -> _Deciding:
    for select in selects(query):
        lineage.bind(select.relation)
        yield from _of_relation(select.relation, lineage)
        if select.where is not None:
            yield "WHERE", select.where, None
        if select.window is not None:
            yield "a window", select.window.time, None
        top = _top(select)
        for key in select.keys:
            yield "PARTITION BY" if top else "GROUP BY", key, None
        for aggregate in () if top else select.aggregates:
            yield "an aggregate", aggregate, None
        if top is not None:
            yield from _of_order(top)
        if select.having is not None:
            yield "HAVING", select.having, select


def _of_relation(relation: Relation, lineage: Lineage) -> _Deciding:
    match relation:
        case Unnest(below=below, value=value):
            yield from _of_relation(below, lineage)
            is_top = (
                isinstance(below, QueryRelation) and isinstance(below.query, Select) and _top(below.query)
            )
            if not is_top:  # the ORDER BY of a Top-N decides how many rows it has
                yield "UNNEST", value, None
        case Projection(below=below, where=where):
            yield from _of_relation(below, lineage)
            if where is not None:
                yield "WHERE", where, None
        case Join(left=left, right=right, on=on):
            yield from _of_relation(left, lineage)
            yield from _of_relation(right, lineage)
            yield "ON", on, None
        case QueryRelation(query=query):
            yield from _of_query(query, lineage)


def _top(select: Select) -> Expr | None:
    """Find the aggregate that keeps the first rows of a group; None if the SELECT is no Top-N."""
    return next((aggregate for aggregate in select.aggregates if aggregate.op in _TOP_N), None)


def _of_order(top: Expr) -> _Deciding:
    """Yield the order of a Top-N: rows that ORDER BY leaves equal are ordered by all their columns."""
    columns, order, _ = top.args
    for part in order.args:
        is_column = any(part is column for column in columns.args)
        yield "an ORDER BY whose first rows are equal" if is_column else "ORDER BY", part, None
