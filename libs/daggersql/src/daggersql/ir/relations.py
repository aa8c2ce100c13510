"""Relations and queries as data: what is made of streams row by row, side by side, one after the other.

A relation has names of its own for its columns (`s0` a stream, `u0` an unfolded list, `q0` a query), whatever
the user calls them. A sub-query that only picks and filters a stream is no relation: its columns are
expressions over the stream. So the state of a query is the same however it is nested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from daggerspec.columns import WINDOW_TIMESTAMP
from daggersql.findings import Span
from daggersql.ir.expr import Expr, Ref, call, column, constant
from daggersql.ir.ops import Op
from daggersql.ir.types import BIGINT, INT
from daggersql.plan import Table, Window

Used: TypeAlias = frozenset[Ref]
"""The columns that something above names."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells the rows of a relation apart, over its columns.

    Rows that are windows have their bounds; the first three `keys` of all others are topic, partition and
    offset of the (first) record, what follows is text.
    """

    window: tuple[Expr, Expr] | None
    time: Expr | None
    """Event time of a row that is no window."""
    keys: tuple[Expr, ...]


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
class Alone:
    """A row without a partner: `partner` is NULL, and records must be known since `before` its `time`."""

    partner: Expr
    time: Expr
    before: timedelta


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
    alone: Alone
    """Since when records must be known for a row without a partner."""

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
    time: Ref | None = None
    """The column that stays event time to Spark; None: all that are."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query as a table: groups, or branches of a UNION ALL."""

    name: str
    query: Select | Union
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
    """Its columns that are made of results of sessions; see `daggersql.ir.results`."""
    mixed: bool
    """Whether rows may be partial without a word, where another one of their window says so."""


Relation: TypeAlias = Stream | Unnest | Join | Picked | Query


@dataclass(slots=True)
class Names:
    """Gives each relation a name of its own."""

    _counts: dict[str, int] = field(default_factory=dict)

    def fresh(self, letter: str) -> str:
        """`s0`, `s1`, …"""
        number = self._counts.get(letter, 0)
        self._counts[letter] = number + 1
        return f"{letter}{number}"


TIME = WINDOW_TIMESTAMP
"""The output that is the time of its row."""
GROUPS = "g"
"""The grouped rows of a SELECT."""
ROW = "row"
"""The rows that a whole query gives."""


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result."""

    name: str | None
    """None: the expression has no name of its own, and was given none."""
    value: Expr
    span: Span
    """Where the name stands, or the expression when it is the name."""
    star: bool = False
    """One of those that * stands for."""
    is_key: bool = False
    """GROUP BY names it."""


@dataclass(frozen=True, slots=True)
class GroupWindow:
    """The window that a query groups by: of which column, how long, and where it stands."""

    window: Window
    time: Expr
    span: Span
    arguments: str
    """What stands between its brackets, for suggestions."""
    table: bool = False
    """Whether it is a table-valued one, whose bounds are columns."""

    def bound(self, which: str) -> str:
        """How the query names a bound of it: START, END or ROWTIME."""
        if self.table:
            return {"START": "window_start", "END": "window_end"}.get(which, "window_time")
        return f"{self.window.kind}_{which}{self.arguments}"

    def same_as(self, other: GroupWindow) -> bool:
        """Whether both are one window."""
        return self.window == other.window and self.time.ref == other.time.ref


@dataclass(slots=True)
class Select:
    """A checked SELECT.

    Expressions over rows are as the check made them; those over groups refer to columns of the grouped rows
    (`g`): `k0 …` the keys, `a0 …` the aggregates, in their order here.
    """

    relation: Relation
    where: Expr | None
    window: GroupWindow | None
    keys: list[Expr]
    outputs: list[Output]
    having: Expr | None = None
    grouped: bool = False
    aggregates: list[Expr] = field(default_factory=list)
    table_window: GroupWindow | None = None
    """Of a table-valued window that is not grouped by yet."""
    event_time: str | None = None
    """How it names the event time of what it reads, for suggestions."""


@dataclass(frozen=True, slots=True)
class Union:
    """A checked UNION ALL."""

    name: str
    branches: tuple[Select, ...]
    values: tuple[tuple[Expr, ...], ...]
    """The columns of each branch, all of one type."""
    branch_keys: tuple[tuple[tuple[Expr, str], ...], ...]
    """The columns that carry the identity of each branch's rows, and their names."""
    identity: Identity
    """The same, above the branches."""
    outputs: tuple[Output, ...]
    """The columns above the branches, under the names that the first branch gives them."""


def bound_column(which: str) -> Ref:
    """A bound of the window of the grouped rows: START, END or ROWTIME."""
    return Ref(GROUPS, ("w", which))


def group_column(letter: str, number: int, of: Expr) -> Expr:
    """A column of the grouped rows."""
    return column(Ref(GROUPS, (f"{letter}{number}",)), of.type, of.span, of.read)


def ordinality(name: str, span: Span) -> Expr:
    """The place of an element in the list that is unfolded as `name`, from 1."""
    return call(Op.ADD, BIGINT, span, column(Ref(name, ("p",)), INT, span), constant("1", 1, INT, span))


Result: TypeAlias = Select | Union
"""A whole query."""
