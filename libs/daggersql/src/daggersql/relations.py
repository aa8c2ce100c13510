"""What FROM means: streams, and what is made of them row by row, side by side, and one after the other.

A relation has names of its own for its columns (`s0` a stream, `u0` an unfolded list, `q0` a query), whatever
the user calls them. A sub-query that only picks and filters a stream is no relation: its columns are
expressions over the stream. So the state of a query is the same however it is nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from daggersql.plan import Table, Window
from daggersql.tree import Expr, quote_name

Used: TypeAlias = frozenset[str]
"""The columns that something above names, as SQL texts."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells the rows of a relation apart, as SQL over its columns.

    Rows that are windows have their bounds; the first three `keys` of all others are topic, partition and
    offset of the (first) record, what follows is text.
    """

    window: tuple[str, str] | None
    time: str | None
    """Event time of a row that is no window."""
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of the dagger; the name is for this place in FROM."""

    table: Table
    name: str


@dataclass(frozen=True, slots=True)
class Unnest:
    """Each row of `below` once for each element of a list: `p` its position from 0, `c` the element."""

    below: Relation
    value: Expr
    name: str
    outer: bool
    """A row without elements stays, once."""


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows, bounded in time."""

    left: Relation
    right: Relation
    on: Expr
    outer: bool
    """Rows of `left` without a partner stay."""
    lower: timedelta
    """The least that the time of a partner is later."""
    upper: timedelta
    """The most that it is."""
    alone: str
    """Since when records must be known for a row without a partner, as SQL; NULL for all others."""

    @property
    def reach(self) -> timedelta:
        """How far apart in time partners can be."""
        return max(abs(self.lower), abs(self.upper))


@dataclass(frozen=True, slots=True)
class Picked:
    """Some columns of some rows of `below`, as a table of its own: one side of a join."""

    below: Relation
    name: str
    columns: Mapping[str, Expr]
    where: Expr | None
    time: str | None = None
    """The column, as SQL, that stays event time to Spark; None: all that are."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query as a table: groups, or branches of a UNION ALL.

    `render` gives its SQL, with or without the columns of its identity.
    """

    name: str
    render: Callable[[bool], str]
    inside: tuple[Expr, ...]
    """Every expression in it, for what must be read."""
    below: tuple[Relation, ...]
    identity: Identity
    horizon: timedelta
    """How long its own state needs a record."""
    windows: tuple[Window | None, ...]
    """The window that each of `below` is grouped by."""
    lookback: timedelta
    """How long before the event time of a row a record may lie that is in it, or is not and should be; with
    sessions, of which records were missed altogether."""
    since: bool
    """Whether its rows say since when records must be known, in the column `__since`."""
    sessions: bool
    """Whether its rows are made of sessions: they may be partial long after the first record read."""
    results: Used
    """Its columns that are made of results of sessions; see `daggersql.results`."""
    mixed: bool
    """Whether rows may be partial without a word, where another one of their window says so."""


Relation: TypeAlias = Stream | Unnest | Join | Picked | Query

METADATA_KEYS = ("__topic", "__partition", "__offset")


def identity(of: Relation) -> Identity:
    """What tells its rows apart."""
    match of:
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


def expressions(of: Relation, used: Used) -> Iterator[Expr]:
    """Every expression in it that is computed for `used`."""
    match of:
        case Unnest(below=below, value=value):
            yield value
            yield from expressions(below, used | texts([value]))
        case Join(left=left, right=right, on=on):
            yield on
            for side in (left, right):
                yield from expressions(side, used | texts([on]))
        case Picked(below=below, where=where):
            chosen = [value for value in named(of, used).values() if value.read is None]
            inside = [*named(of, used).values(), *([where] if where else [])]
            yield from chosen
            yield from [where] if where else []
            yield from expressions(below, texts(inside))
        case Query(inside=inside, below=below_all):
            yield from inside
            for each in below_all:
                yield from expressions(each, texts(inside))


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


@dataclass(slots=True)
class Names:
    """Gives each relation a name of its own."""

    _counts: dict[str, int] = field(default_factory=dict)

    def fresh(self, letter: str) -> str:
        """`s0`, `s1`, …"""
        number = self._counts.get(letter, 0)
        self._counts[letter] = number + 1
        return f"{letter}{number}"


def tables(relations: Sequence[Relation]) -> list[Table]:
    """The streams that are read, each once."""
    return list({stream.table.name: stream.table for each in relations for stream in streams(each)}.values())
