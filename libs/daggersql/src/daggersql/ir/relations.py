"""Relations and queries as data: streams, and the rows that are made of them.

Relations have generated names (`s0` a stream, `u0` an unfolded list, `q0` a query), whatever the user calls
them. A sub-query that only projects and filters a stream is no relation: its columns are expressions over the
stream. Hence the state of a query does not depend on how it is nested.
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
"""Columns that something above names."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Expressions that identify a row of a relation, over its columns.

    Rows of windows have their bounds; the first three `keys` of all others are topic, partition and offset of
    the (first) record, the rest are texts.
    """

    window: tuple[Expr, Expr] | None
    time: Expr | None
    """Event time of a row that is not of a window."""
    keys: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """Stream of the dagger; its name is for one place in FROM."""

    table: Table
    name: str


@dataclass(frozen=True, slots=True)
class Unnest:
    """Rows of `below`, once for each element of a list: `p` its position from 0, `c` the element."""

    below: Relation
    value: Expr
    name: str
    outer: bool
    """True: rows without elements are kept, once."""


@dataclass(frozen=True, slots=True)
class Alone:
    """Row without a partner: `partner` is NULL, and it is whole if records were read since `before` its
    `time`."""

    partner: Expr
    time: Expr
    before: timedelta


@dataclass(frozen=True, slots=True)
class Join:
    """Join of two relations, bounded in time."""

    left: Relation
    right: Relation
    on: Expr
    outer: bool
    """True: rows of `left` without a partner are kept."""
    lower: timedelta
    """Minimum by which a partner's time is later."""
    upper: timedelta
    """Maximum by which it is later."""
    alone: Alone
    """Rows without a partner."""

    @property
    def reach(self) -> timedelta:
        """Maximum distance in time of two partners."""
        return max(abs(self.lower), abs(self.upper))


@dataclass(frozen=True, slots=True)
class Projection:
    """Columns of filtered rows of `below`, as a table of its own: one side of a join."""

    below: Relation
    name: str
    columns: Mapping[str, Expr]
    where: Expr | None
    time: Ref | None = None
    """Column that stays event time in Spark; None: all event times."""


@dataclass(frozen=True, slots=True)
class QueryRelation:
    """A query as a table: groups, or branches of a UNION ALL."""

    name: str
    query: Select | Union
    inside: tuple[Expr, ...]
    """All expressions in it, to find the columns that must be read."""
    below: tuple[Relation, ...]
    identity: Identity
    horizon: timedelta
    """Time for which its own state needs a record."""
    windows: tuple[Window | None, ...]
    """Window that each of `below` is grouped by."""
    lookback: timedelta
    """Maximum time by which a record of a row is older than the row's event time; of sessions, by which a
    wholly missed one is."""
    since: bool
    """True if its rows have the column `__since`: since when records must have been read."""
    sessions: bool
    """True if its rows are made of sessions: they may be partial long after the first record read."""
    results: Used
    """Columns that are made of results of sessions; see `daggersql.ir.results`."""
    mixed: bool
    """True if rows may be partial without a mark, where another row of their window is marked."""


Relation: TypeAlias = Stream | Unnest | Join | Projection | QueryRelation


@dataclass(slots=True)
class Names:
    """Generator of names of relations."""

    _counts: dict[str, int] = field(default_factory=dict)

    def fresh(self, letter: str) -> str:
        """Return the next name of a letter: `s0`, `s1`, …"""
        number = self._counts.get(letter, 0)
        self._counts[letter] = number + 1
        return f"{letter}{number}"


TIME = WINDOW_TIMESTAMP
"""Output column that is the time of its row."""
GROUPS = "g"
"""Name of the grouped rows of a SELECT."""
ROW = "row"
"""Name of the rows of a whole query."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """Column of the result."""

    name: str | None
    """None: the query gives no name, and the expression has none."""
    value: Expr
    span: Span
    """Place of the name, or of the expression if that is the name."""
    star: bool = False
    """True if it comes from a star."""
    is_key: bool = False
    """True if GROUP BY names it."""


@dataclass(frozen=True, slots=True)
class GroupWindow:
    """Window that a query groups by, its time column, and its place in the text."""

    window: Window
    time: Expr
    span: Span
    arguments: str
    """Text between its brackets, for suggestions."""
    table: bool = False
    """True for a table-valued function, whose bounds are columns."""

    def bound_text(self, which: str) -> str:
        """Return the query's name of a bound: START, END or ROWTIME."""
        if self.table:
            return {"START": "window_start", "END": "window_end"}.get(which, "window_time")
        return f"{self.window.kind}_{which}{self.arguments}"

    def same_as(self, other: GroupWindow) -> bool:
        """Tell whether both are the same window."""
        return self.window == other.window and self.time.ref == other.time.ref


@dataclass(slots=True)
class Select:
    """Checked SELECT.

    Expressions over groups refer to columns of the grouped rows (`g`): `k0 …` the keys, `a0 …` the
    aggregates, in their order here.
    """

    relation: Relation
    where: Expr | None
    window: GroupWindow | None
    keys: list[Expr]
    outputs: list[OutputColumn]
    having: Expr | None = None
    grouped: bool = False
    aggregates: list[Expr] = field(default_factory=list)
    table_window: GroupWindow | None = None
    """Table-valued window that the query does not group by yet."""
    event_time: str | None = None
    """Query's name of the event time that it reads, for suggestions."""


@dataclass(frozen=True, slots=True)
class Union:
    """Checked UNION ALL."""

    name: str
    branches: tuple[Select, ...]
    values: tuple[tuple[Expr, ...], ...]
    """Columns of each branch, cast to common types."""
    branch_keys: tuple[tuple[tuple[Expr, str], ...], ...]
    """Columns with the identity of each branch's rows, and their names."""
    identity: Identity
    """Identity above the branches."""
    outputs: tuple[OutputColumn, ...]
    """Columns above the branches, with the names of the first branch."""


def bound_column(which: str) -> Ref:
    """Refer to a bound of the window of the grouped rows: START, END or ROWTIME."""
    return Ref(GROUPS, ("w", which))


def group_column(letter: str, number: int, of: Expr) -> Expr:
    """Build a column of the grouped rows."""
    return column(Ref(GROUPS, (f"{letter}{number}",)), of.type, of.span, of.read)


def ordinality(name: str, span: Span) -> Expr:
    """Build the position, from 1, of an element in the list that is unfolded as `name`."""
    return call(Op.ADD, BIGINT, span, column(Ref(name, ("p",)), INT, span), constant("1", 1, INT, span))


Result: TypeAlias = Select | Union
"""Whole query."""
