"""Reads of a query: Protobuf paths that must be decoded, and our own functions that it calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from daggersql.ir.conditions import equalities, other_conditions
from daggersql.ir.expr import Expr
from daggersql.ir.relations import Result, Union
from daggersql.ir.walk import (
    METADATA,
    METADATA_KEYS,
    RECORD,
    expressions,
    identity,
    nodes,
    streams,
    tables,
)
from daggersql.plan import Read, Table


def reads(query: Result) -> tuple[Read, ...]:
    """List the Protobuf paths that must be decoded of each stream, in the order of FROM."""
    selects = query.branches if isinstance(query, Union) else (query,)
    by_table: dict[str, set[str]] = {}
    for select in selects:
        for stream in streams(select.relation):
            paths = by_table.setdefault(stream.table.name, set())
            if identity(select).window is None:
                paths.update(METADATA_KEYS)
        for expression in expressions(select):
            for table, path in _paths(expression):
                by_table.setdefault(table, set()).add(path)
    equal = tuple(equality for equality in equalities(query) if equality is not None)
    others = other_conditions(query)
    # Of a record as it is, who asks for its event time asks for more than its bytes.
    records = {table.name for select in selects for table in tables([select.relation]) if table.records}
    return tuple(
        Read(table, _least(paths if table in records else paths - {"rowtime"}), equal, others)
        for table, paths in by_table.items()
    )


def _least(paths: set[str]) -> tuple[str, ...]:
    """Drop paths below others: a path is read with all its fields."""
    return tuple(
        path for path in sorted(paths) if not any(path.startswith(f"{shorter}.") for shorter in paths)
    )


def in_order(table: Table, columns: Collection[str]) -> list[str]:
    """List columns of a stream as its readers give them: fields, event time, metadata.

    Spark's state of a join has its columns in the order in which they come.
    """
    fields = (str(field.name) for field in table.message.fields)
    return [name for name in [*fields, "rowtime", *METADATA, *RECORD] if name in columns]


def functions(query: Result) -> tuple[str, ...]:
    """List our own functions that the query calls."""
    return tuple(sorted({node.function for node in nodes(query) if node.function}))


def _paths(expression: Expr) -> Iterable[tuple[str, str]]:
    stack = [expression]
    while stack:
        node = stack.pop()
        if node.read is not None:
            yield node.read
            # What it is taken from is read by that path; an index beside it stands for itself.
            stack += node.args[1:]
        else:
            stack += node.args
