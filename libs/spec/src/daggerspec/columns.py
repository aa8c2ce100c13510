"""The columns of a query's rows: what is seen of them, and what is hidden behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from daggers.v1 import gateway_pb2

WINDOW_START: Final = "__window_start"
WINDOW_END: Final = "__window_end"
"""Of a windowed query."""
RECORD_TIME: Final = "__rowtime"
"""Of a forwarding query."""
KEY: Final = "__key_"
"""And a number: the parts of a row's key beside its window."""
SINCE: Final = "__since"
"""From when on all records must be known for the row to be whole."""
SINCE_OF_WINDOW: Final = "__since_of_window"
"""Instead of it: a row is whole if all rows of its window are."""

CONDITION: Final = "__condition_"
"""And a number: whether a condition is true of a row, of a launch some of whose sinks have one."""

RULE: Final = "__rule_"
"""And a number: whether an alert rule is true of a row, in a batch of a launch that judges rules."""
RULE_OVER: Final = "__rule_over_"
"""And a number: whether its incident is over by the row; only where the rule says when."""

PAST: Final = "__past_"
"""And a digest: a number of an earlier window, in a batch whose alert rules compare with it."""

BAND: Final = "__band_"
"""And a digest: a number, of which an alert rule judges whether it is a usual one. And a number: in which of
the answers to that a rule is true, and over."""

LIMIT: Final = "__limit_"
"""And a digest: a number of a reference table, in a batch whose alert rules read limits of it; or whether
the table has the key."""

WINDOW_TIMESTAMP: Final = "window_timestamp"
"""A row's time, where the query says it."""
TAG: Final = "tag_"
LABEL: Final = "label_"
"""The prefix of the names of tags."""

TIMES: Final = (WINDOW_TIMESTAMP, "rowtime")
"""The columns that are the time of a row, the first that there is."""


class Role(Enum):
    """The role that an output column has in a time-series store."""

    TIME = "time"
    TAG = "tag"
    FIELD = "field"


class Cell(Enum):
    """The part of a map's cell that a column's name says its values are."""

    S2 = "s2"
    GEOHASH = "geohash"


@dataclass(frozen=True, slots=True)
class Column:
    """A visible output column."""

    name: str
    role: Role
    key: str
    """Tag key or field name: `tag_x` keeps its prefix, `label_x` loses it."""
    type: str
    """Spark SQL type, as `DataType.simpleString` writes it."""
    cell: Cell | None = field(default=None, compare=False)
    """For who draws it; to sinks a column is the same with it."""


_ROLES: Final = {
    Role.TIME: gateway_pb2.OutputColumn.ROLE_TIME,
    Role.TAG: gateway_pb2.OutputColumn.ROLE_TAG,
    Role.FIELD: gateway_pb2.OutputColumn.ROLE_FIELD,
}
_CELLS: Final = {
    None: gateway_pb2.OutputColumn.CELL_UNSPECIFIED,
    Cell.S2: gateway_pb2.OutputColumn.CELL_S2,
    Cell.GEOHASH: gateway_pb2.OutputColumn.CELL_GEOHASH,
}


def to_proto(column: Column) -> gateway_pb2.OutputColumn:
    """Convert a column for an answer."""
    return gateway_pb2.OutputColumn(
        name=column.name,
        role=_ROLES[column.role],
        key=column.key,
        type=column.type,
        cell=_CELLS[column.cell],
    )


def from_proto(column: gateway_pb2.OutputColumn) -> Column:
    """Convert a column of an answer back."""
    roles = {number: role for role, number in _ROLES.items()}
    cells = {number: cell for cell, number in _CELLS.items()}
    role, cell = roles.get(column.role, Role.FIELD), cells.get(column.cell)
    return Column(column.name, role, column.key, column.type, cell)


class Output(Protocol):
    """The rows that a query gives, as `daggersql.Plan` has them."""

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that readers of a row see."""

    @property
    def hidden(self) -> Sequence[str]:
        """Further columns, in order after the visible ones."""

    @property
    def key(self) -> Sequence[str]:
        """The columns that are seen and tell a row from all others; none where some of that is not seen."""


class QueryOutput(Output, Protocol):
    """The rows of a query, and what is known of those that it leaves out."""

    @property
    def finds_late_where_read(self) -> bool:
        """True if readers of its one stream know which records are late for a window."""


def condition_column(number: int) -> str:
    """Name the hidden column that is true where condition `number` of a plan holds for a row."""
    return f"{CONDITION}{number}"


def role_of(name: str) -> Role:
    """Return the role of a column of this name."""
    if name == WINDOW_TIMESTAMP:
        return Role.TIME
    return Role.TAG if name.startswith((TAG, LABEL)) else Role.FIELD


def key_of(name: str) -> str:
    """Return the tag key or field name of a column of this name."""
    return name.removeprefix(LABEL)


# Topic, partition and offset, and two more at most: an element, a branch. Pairs have the parts of both.
_PARTS_OF_RECORDS: Final = range(3, 6)


def is_of_records(hidden: Sequence[str]) -> bool:
    """Return whether each row with these hidden columns is made of one record."""
    parts = sum(name.startswith(KEY) for name in hidden)
    return WINDOW_START not in hidden and parts in _PARTS_OF_RECORDS


def time_column(columns: Sequence[Column], hidden: Sequence[str]) -> str | None:
    """Return the column that is a row's time: window_timestamp, else rowtime; None if there is neither."""
    names = {column.name for column in columns}
    for name in TIMES:
        if name in names:
            return name
    return RECORD_TIME if RECORD_TIME in hidden else None
