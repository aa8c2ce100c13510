"""Walks relations and queries: identities of their rows, expressions, streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from daggersql.ir.expr import Expr, Ref, call, column
from daggersql.ir.ops import Op
from daggersql.ir.relations import (
    Identity,
    Join,
    Projection,
    QueryRelation,
    Relation,
    Result,
    Select,
    Stream,
    Union,
    Unnest,
    Used,
    bound_column,
    group_column,
)
from daggersql.ir.types import BIGINT, BINARY, INT, ROWTIME, STRING, TIMESTAMP, Array, Struct, Type
from daggersql.plan import Table

METADATA: Mapping[str, Type] = {
    "__topic": STRING,
    "__partition": INT,
    "__offset": BIGINT,
    "__timestamp": TIMESTAMP,
}
"""Columns of a stream beside the fields of its message."""
RECORD: Mapping[str, Type] = {
    "__value": BINARY,
    "__key": BINARY,
    "__headers": Array(Struct((("key", STRING), ("value", BINARY)))),
}
"""Further columns where records are passed on unchanged; headers in Spark's form."""
_NOWHERE = (0, 0)
METADATA_KEYS = ("__topic", "__partition", "__offset")


def identity(of: Relation | Result) -> Identity:
    """Build the identity of a relation's rows; of a query's, over the relation that its SELECT reads."""
    match of:
        case Union(identity=found):
            return found
        case Select(relation=relation, window=None):
            return identity(relation)
        case Select(keys=by):
            groups = tuple(group_column("k", number, key) for number, key in enumerate(by))
            return Identity((_window_bound("START"), _window_bound("END")), None, groups)
        case Stream(name=name):
            columns = [column(Ref(name, (key,)), METADATA[key], _NOWHERE) for key in METADATA_KEYS]
            return Identity(None, column(Ref(name, ("rowtime",)), ROWTIME, _NOWHERE), tuple(columns))
        case Unnest(below=below, name=name):
            inner = identity(below)
            position = as_text(column(Ref(name, ("p",)), INT, _NOWHERE))
            return Identity(inner.window, inner.time, (*inner.keys, position))
        case Join(left=left, right=right):
            one, other = identity(left), identity(right)
            times = [expression for expression in (one.time, other.time) if expression]
            time = call(Op.LATEST, TIMESTAMP, _NOWHERE, *times) if len(times) > 1 else next(iter(times), None)
            bounds = [as_text(bound) for side in (one, other) for bound in (side.window or ())[1:]]
            return Identity(None, time, (*one.keys, *map(as_text, other.keys), *bounds))
        case Projection(below=below, name=name):
            return lift_identity(identity(below), name)
        case QueryRelation():
            return of.identity


def _window_bound(which: str) -> Expr:
    return Expr(Op.BOUND, TIMESTAMP, _NOWHERE, ref=bound_column(which))


def as_text(key: Expr) -> Expr:
    """Convert a part of an identity to text, as all are but the first three of a record's."""
    return call(Op.AS_TEXT, STRING, _NOWHERE, key)


def columns_of(of: Identity) -> list[tuple[Expr, str]]:
    """List the columns that carry an identity out of a sub-query, and their names."""
    window = zip(of.window or (), ("__start", "__end"), strict=False)
    time = [(of.time, "__time")] if of.time else []
    return [*window, *time, *((key, f"__id_{index}") for index, key in enumerate(of.keys))]


def lift_identity(of: Identity, name: str) -> Identity:
    """Express an identity above the sub-query `name`, by the columns that carry it out."""
    start, end = (column(Ref(name, (bound,)), TIMESTAMP, _NOWHERE) for bound in ("__start", "__end"))
    keys = (column(Ref(name, (f"__id_{index}",)), key.type, _NOWHERE) for index, key in enumerate(of.keys))
    return Identity(
        (start, end) if of.window else None,
        column(Ref(name, ("__time",)), TIMESTAMP, _NOWHERE) if of.time else None,
        tuple(keys),
    )


def used_columns(of: Projection, used: Used) -> dict[str, Expr]:
    """Select the columns that something above names, also by a field; the first one, if there is none."""
    names = {ref.path[0] for ref in used if ref.relation == of.name and ref.path}
    chosen = {name: value for name, value in of.columns.items() if name in names}
    return chosen or dict(list(of.columns.items())[:1])


def columns_in(expressions: Iterable[Expr]) -> Used:
    """Collect the columns that expressions name."""
    return frozenset(
        node.ref for expression in expressions for node in expression.nodes() if node.ref is not None
    )


def inside(of: Relation, used: Used) -> Iterator[Expr]:
    """Yield the expressions in a relation that are computed for the used columns."""
    match of:
        case Unnest(below=below, value=value):
            yield value
            yield from inside(below, used | columns_in([value]))
        case Join(left=left, right=right, on=on):
            yield on
            for side in (left, right):
                yield from inside(side, used | columns_in([on]))
        case Projection(below=below, where=where):
            chosen = used_columns(of, used).values()
            conditions = [where] if where else []
            yield from (value for value in chosen if value.read is None)
            yield from conditions
            yield from inside(below, columns_in([*chosen, *conditions]))
        case QueryRelation(inside=own, below=below_all):
            yield from own
            for query in below_all:
                yield from inside(query, columns_in(own))


def streams(of: Relation) -> Iterator[Stream]:
    """Yield the streams of a relation, from left to right."""
    match of:
        case Stream():
            yield of
        case Unnest(below=below) | Projection(below=below):
            yield from streams(below)
        case Join(left=left, right=right):
            yield from streams(left)
            yield from streams(right)
        case QueryRelation(below=below_all):
            for query in below_all:
                yield from streams(query)


def tables(relations: Sequence[Relation]) -> list[Table]:
    """List the tables that are read, each once."""
    return list(
        {stream.table.name: stream.table for relation in relations for stream in streams(relation)}.values()
    )


# --- queries --------------------------------------------------------------------------------------------


def nodes(query: Result) -> Iterator[Expr]:
    """Yield all nodes of a query's expressions."""
    for select in query.branches if isinstance(query, Union) else (query,):
        for top in (*expressions(select), *over_groups(select)):
            yield from top.nodes()


def expressions(select: Select) -> Iterator[Expr]:
    """Yield all expressions over rows, those of the relation included."""
    own = over_rows(select)
    yield from own
    yield from inside(select.relation, columns_in(own))


def all_expressions(select: Select) -> list[Expr]:
    """List a SELECT's expressions over rows and over groups."""
    return [*over_rows(select), *over_groups(select)]


def over_rows(select: Select) -> list[Expr]:
    """List a SELECT's own expressions over rows."""
    where = [select.where] if select.where else []
    if select.window is None:
        return [*(output.value for output in select.outputs), *where]
    return [select.window.time, *select.keys, *select.aggregates, *where]


def over_groups(select: Select) -> list[Expr]:
    """List a SELECT's expressions over groups."""
    return [*(output.value for output in select.outputs), *([select.having] if select.having else [])]
