"""Reads seconds and nanos of Timestamps and Durations as they were sent. Pure.

A Timestamp becomes a TIMESTAMP, which is NULL beyond its range (as for microseconds sent as seconds). The
sent seconds of a record's field are therefore read as a column of their own. Rows of joins and of queries
over groups have the TIMESTAMP alone, so that their state stays as older releases wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from daggerspec.protobuf import TIME_PART
from daggersql.ir.expr import Expr, ExprKind, Ref, column
from daggersql.ir.ops import Form, Op
from daggersql.ir.relations import Relation, Result, Select, Stream, Union, Unnest

_PARTS: Final[Mapping[Op | Form, str]] = {
    Op.TIME_SECONDS: "seconds",
    Op.TIME_NANOS: "nanos",
    Op.DURATION_SECONDS: "seconds",
    Op.DURATION_NANOS: "nanos",
}


def as_sent(query: Result) -> Result:
    """Replace parts of times in a query over records by columns of their own."""
    if isinstance(query, Union):
        values = tuple(
            tuple(_over(branch.relation, value) for value in branch_values)
            for branch, branch_values in zip(query.branches, query.values, strict=True)
        )
        return replace(query, branches=tuple(map(_select, query.branches)), values=values)
    return _select(query)


def _select(select: Select) -> Select:
    of = select.relation
    return replace(
        select,
        relation=_relation(of),
        where=None if select.where is None else _over(of, select.where),
        keys=[_over(of, key) for key in select.keys],
        aggregates=[_over(of, aggregate) for aggregate in select.aggregates],
        outputs=[replace(output, value=_over(of, output.value)) for output in select.outputs],
    )


def _relation(of: Relation) -> Relation:
    match of:
        case Unnest(below=below, value=value):
            return replace(of, below=_relation(below), value=_over(below, value))
    return of


def _over(of: Relation, value: Expr) -> Expr:
    """Replace parts of times in an expression over a relation, if its rows are records."""
    stream = of
    while isinstance(stream, Unnest):
        stream = stream.below
    if not isinstance(stream, Stream):
        return value
    name = stream.name

    def replace_part(node: Expr) -> Expr | None:
        part = _PARTS.get(node.op)
        time = node.args[0] if part is not None and len(node.args) == 1 else None
        if time is None or time.kind is not ExprKind.COLUMN or time.ref is None or time.read is None:
            return None
        table, path = time.read
        if time.ref.relation != name or path != ".".join(time.ref.path):
            return None
        own = f"{path}{TIME_PART}{part}"
        return column(Ref(name, (own,)), node.type, node.span, (table, own))

    return value.rebuild(replace_part)
