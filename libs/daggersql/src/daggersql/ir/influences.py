"""Which fields of streams decide what rows a query gives, or what its groups hold, beside its columns. Pure.

Two runs over records that differ in other fields alone give as many rows, each with the same values but in
the columns that are made of what differs (`daggersql.ir.lineage`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from daggersql.findings import Span
from daggersql.ir.expr import Expr
from daggersql.ir.lineage import NONE, Fields, Lineage, fields_of_records, selects, spelled_out
from daggersql.ir.ops import Op
from daggersql.ir.relations import Join, Picked, Query, Relation, Result, Select, Unnest

_TOP_N = (Op.GREATEST_ROWS, Op.LEAST_ROWS)
_Deciding: TypeAlias = Iterator[tuple[str, Expr, Select | None]]
"""Expressions, each with its clause, and the SELECT whose groups it is over."""


class Influence(NamedTuple):
    """Fields that decide which rows there are or what a group holds, and where they are named for that."""

    clause: str
    """What for, as in `daggersql.plan.Influence`."""
    span: Span
    origins: Fields


def influences(query: Result) -> tuple[Influence, ...]:
    """Find what decides which rows the query gives, in the order of its text; a place once for a clause."""
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
            is_top = isinstance(below, Query) and isinstance(below.query, Select) and _top(below.query)
            if not is_top:  # how many rows a Top-N has, its order says
                yield "UNNEST", value, None
        case Picked(below=below, where=where):
            yield from _of_relation(below, lineage)
            if where is not None:
                yield "WHERE", where, None
        case Join(left=left, right=right, on=on):
            yield from _of_relation(left, lineage)
            yield from _of_relation(right, lineage)
            yield "ON", on, None
        case Query(query=query):
            yield from _of_query(query, lineage)


def _top(select: Select) -> Expr | None:
    """The aggregate that keeps the first rows of a group; None where it is no Top-N."""
    return next((aggregate for aggregate in select.aggregates if aggregate.op in _TOP_N), None)


def _of_order(top: Expr) -> _Deciding:
    """What the rows of a Top-N are ordered by; those that are equal in that, by all their columns."""
    columns, order, _ = top.args
    for part in order.args:
        is_column = any(part is column for column in columns.args)
        yield "an ORDER BY whose first rows are equal" if is_column else "ORDER BY", part, None
