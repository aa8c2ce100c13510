"""What relations and queries are made of: what tells their rows apart, their expressions, their streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from daggersql.ir.expr import Expr, Kind, quote_name
from daggersql.ir.relations import (
    Identity,
    Join,
    Picked,
    Query,
    Relation,
    Result,
    Select,
    Stream,
    Union,
    Unnest,
    Used,
)
from daggersql.ir.types import BIGINT, INT, STRING, TIMESTAMP, Type
from daggersql.plan import Table

METADATA: Mapping[str, Type] = {
    "__topic": STRING,
    "__partition": INT,
    "__offset": BIGINT,
    "__timestamp": TIMESTAMP,
}
"""The columns that a stream has beside the fields of its message."""
METADATA_KEYS = ("__topic", "__partition", "__offset")


def identity(of: Relation | Result) -> Identity:
    """What tells its rows apart; those of a query as SQL over what its SELECT reads."""
    match of:
        case Union(identity=found):
            return found
        case Select(relation=relation, window=None):
            return identity(relation)
        case Select(keys=by):
            groups = tuple(f"`g`.`k{number}`" for number in range(len(by)))
            return Identity(("`g`.`w`.`start`", "`g`.`w`.`end`"), None, groups)
        case Stream(name=name):
            columns = [f"{quote_name(name)}.{quote_name(key)}" for key in METADATA_KEYS]
            return Identity(None, f"{quote_name(name)}.`rowtime`", tuple(columns))
        case Unnest(below=below, name=name):
            inner = identity(below)
            return Identity(inner.window, inner.time, (*inner.keys, f"CAST(`{name}`.`p` AS STRING)"))
        case Join(left=left, right=right):
            one, other = identity(left), identity(right)
            times = [each for each in (one.time, other.time) if each]
            time = f"greatest({', '.join(times)})" if len(times) > 1 else times[0] if times else None
            bounds = [
                f"CAST({bound} AS STRING)" for side in (one, other) for bound in (side.window or ())[1:]
            ]
            keys = [f"CAST({key} AS STRING)" for key in other.keys]
            return Identity(None, time, (*one.keys, *keys, *bounds))
        case Picked(below=below, name=name):
            inner = identity(below)
            return Identity(
                tuple(f"`{name}`.`{column}`" for column in ("__start", "__end")) if inner.window else None,  # type: ignore[arg-type]  # two of them
                f"`{name}`.`__time`" if inner.time else None,
                tuple(f"`{name}`.`__id_{at}`" for at in range(len(inner.keys))),
            )
        case Query():
            return of.identity


def columns_of(found: Identity) -> list[tuple[str, str]]:
    """The columns that carry an identity out of a sub-query: SQL and name."""
    window = zip(found.window or (), ("__start", "__end"), strict=False)
    time = [(found.time, "__time")] if found.time else []
    return [*window, *time, *((key, f"__id_{at}") for at, key in enumerate(found.keys))]


def carried(found: Identity, name: str) -> Identity:
    """The same identity above the sub-query called `name` that carries it."""
    return Identity(
        (f"`{name}`.`__start`", f"`{name}`.`__end`") if found.window else None,
        f"`{name}`.`__time`" if found.time else None,
        tuple(f"`{name}`.`__id_{at}`" for at in range(len(found.keys))),
    )


def named(of: Picked, used: Used) -> dict[str, Expr]:
    """Those of its columns that something above names, or fields of which it names; never none."""
    found = {}
    for name, value in of.columns.items():
        text = f"`{of.name}`.{quote_name(name)}"
        if any(each == text or each.startswith(f"{text}.") for each in used):
            found[name] = value
    return found or dict(list(of.columns.items())[:1])


def texts(expressions: Iterable[Expr]) -> Used:
    """The columns that expressions name."""
    return frozenset(node.text for each in expressions for node in each.nodes() if not node.args)


def inside(of: Relation, used: Used) -> Iterator[Expr]:
    """Every expression in it that is computed for `used`."""
    match of:
        case Unnest(below=below, value=value):
            yield value
            yield from inside(below, used | texts([value]))
        case Join(left=left, right=right, on=on):
            yield on
            for side in (left, right):
                yield from inside(side, used | texts([on]))
        case Picked(below=below, where=where):
            chosen = [value for value in named(of, used).values() if value.read is None]
            picked = [*named(of, used).values(), *([where] if where else [])]
            yield from chosen
            yield from [where] if where else []
            yield from inside(below, texts(picked))
        case Query(inside=own, below=below_all):
            yield from own
            for each in below_all:
                yield from inside(each, texts(own))


def streams(of: Relation) -> Iterator[Stream]:
    """The streams at its bottom, from left to right."""
    match of:
        case Stream():
            yield of
        case Unnest(below=below) | Picked(below=below):
            yield from streams(below)
        case Join(left=left, right=right):
            yield from streams(left)
            yield from streams(right)
        case Query(below=below_all):
            for each in below_all:
                yield from streams(each)


def tables(relations: Sequence[Relation]) -> list[Table]:
    """The streams that are read, each once."""
    return list({stream.table.name: stream.table for each in relations for stream in streams(each)}.values())


# --- queries --------------------------------------------------------------------------------------------


def nodes(query: Result) -> Iterator[Expr]:
    """All that its expressions are made of."""
    for select in query.branches if isinstance(query, Union) else (query,):
        for top in (*expressions(select), *over_groups(select)):
            yield from top.nodes()


def expressions(select: Select) -> Iterator[Expr]:
    """Every expression over rows, those of its relation included."""
    own = over_rows(select)
    yield from own
    yield from inside(select.relation, texts(own))


def all_expressions(select: Select) -> list[Expr]:
    """Its expressions over rows and over groups, for who reads it as a table."""
    return [*over_rows(select), *over_groups(select)]


def over_rows(select: Select) -> list[Expr]:
    """Its own expressions over rows."""
    where = [select.where] if select.where else []
    if select.window is None:
        return [*(each.value for each in select.outputs), *where]
    return [select.window.time, *select.keys, *select.aggregates, *where]


def over_groups(select: Select) -> list[Expr]:
    """Its expressions over groups."""
    return [*(each.value for each in select.outputs), *([select.having] if select.having else [])]


def conditions(query: Result) -> list[tuple[str, str] | None]:
    """What WHERE asks for, of a query over one stream: each condition that AND joins with the others.

    Column and constant where it asks for nothing but a text, None for any other.
    """
    if isinstance(query, Union) or not isinstance(query.relation, Stream) or query.where is None:
        return []
    return [_equal(condition) for condition in _conjuncts(query.where)]


def _equal(condition: Expr) -> tuple[str, str] | None:
    match condition:
        case Expr(
            template="({0} = {1})",
            args=(Expr(kind=Kind.COLUMN, read=(_, path)), Expr(kind=Kind.CONSTANT, value=str() as value)),
        ) if "." not in path:
            return path, value
    return None


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if condition.template == "({0} AND {1})":
        for part in condition.args:
            yield from _conjuncts(part)
    else:
        yield condition
