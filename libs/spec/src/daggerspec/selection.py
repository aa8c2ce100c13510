"""Conditions and order of rows that are read: checked by the gateway, applied by the readers.

A condition compares a column with a constant of its type. As in SQL a NULL is neither equal to it, nor
unequal, nor less: no condition holds for it. In an order it comes last.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from daggers.v1 import gateway_pb2

from daggerspec.columns import TIMES, Column, Role
from daggerspec.exactjson import dumps
from daggerspec.limits import READ_ROWS
from daggerspec.nearest import hint, nearest
from daggerspec.row import Row
from daggerspec.violation import Violation

_IS = gateway_pb2.RowCondition
_HOLDS: Final[Mapping[int, Callable[[Any, Any], bool]]] = {
    _IS.COMPARISON_EQUAL: operator.eq,
    _IS.COMPARISON_NOT_EQUAL: operator.ne,
    _IS.COMPARISON_LESS: operator.lt,
    _IS.COMPARISON_AT_MOST: operator.le,
    _IS.COMPARISON_GREATER: operator.gt,
    _IS.COMPARISON_AT_LEAST: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """That a column compares so with a constant."""

    column: Column
    comparison: int
    value: Any

    def holds(self, row: Row) -> bool:
        """Return whether the condition is true of a row."""
        cell = value(row, self.column)
        return cell is not None and _HOLDS[self.comparison](cell, self.value)


@dataclass(frozen=True, slots=True)
class Order:
    """By a column."""

    column: Column
    descending: bool

    def sort(self, rows: Iterable[Row]) -> list[Row]:
        """Rows in this order: of equal ones the first stays first, and those without a value are last."""
        valued = [(value(row, self.column), row) for row in rows]
        there = [pair for pair in valued if pair[0] is not None]
        there.sort(key=operator.itemgetter(0), reverse=self.descending)
        return [row for _, row in there] + [row for cell, row in valued if cell is None]


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that are asked for: the first `limit` of those since an instant that meet all conditions."""

    limit: int
    since: datetime | None = None
    where: Sequence[Condition] = ()
    order: Order | None = None
    """None: newest first, as the sink has it."""

    def wants(self, row: Row) -> bool:
        """Return whether a row meets all conditions."""
        return all(condition.holds(row) for condition in self.where)

    def first(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows to answer, of matching ones that stand newest first."""
        return (self.order.sort(rows) if self.order else list(rows))[: self.limit]


def from_request(request: gateway_pb2.ReadRowsRequest, columns: Sequence[Column]) -> Selection:
    """Build the selection of a request without violations."""
    by_name = _names(columns)
    where = [
        Condition(
            by_name[condition.column],
            condition.comparison,
            _constant(by_name[condition.column], condition.value),
        )
        for condition in request.where
    ]
    since = request.since.ToDatetime(tzinfo=UTC) if request.HasField("since") else None
    name, _, direction = request.order_by.partition(" ")
    order = Order(by_name[name], direction == "desc") if name else None
    return Selection(request.limit or READ_ROWS, since, where, order)


def violations(
    path: str, request: gateway_pb2.ReadRowsRequest, columns: Sequence[Column]
) -> Iterator[Violation]:
    """Yield the violations of a request for rows of these columns; fields begin with `path`."""
    if request.HasField("since"):
        try:
            request.since.ToDatetime(tzinfo=UTC)
        except (ValueError, OverflowError):
            yield Violation(f"{path}since", "must be an instant of the years 1 to 9999", "OUT_OF_RANGE")
    by_name = _names(columns)
    for number, wanted in enumerate(request.where):
        condition = f"{path}where[{number}]"
        if wanted.comparison not in _HOLDS:
            yield Violation(f"{condition}.comparison", "must be one of the comparisons", "UNKNOWN_ENUM_VALUE")
        yield from _check_column(f"{condition}.column", wanted.column, by_name)
        column = by_name.get(wanted.column)
        if column and _kind(column) and _constant(column, wanted.value) is None:
            text = f"must be {_kind(column)}: the type of {column.name} is {column.type}"
            yield Violation(f"{condition}.value", text, "TYPE_MISMATCH")
    name, _, direction = request.order_by.partition(" ")
    if request.order_by:
        yield from _check_column(f"{path}order_by", name, by_name)
        if direction not in ("", "asc", "desc"):
            yield Violation(f"{path}order_by", "must be a column, and asc or desc", "INVALID_ORDER")


def value(row: Row, column: Column) -> Any:
    """Return the value of a row that a column is compared by; None if there is none."""
    if column.role is Role.TAG:
        return _of_kind(_kind(column), row.tags.get(column.key))
    time = row.time if column.name in TIMES else None  # which a store may keep in no other place
    return _of_kind(_kind(column), row.fields.get(column.key, time))


def _names(columns: Sequence[Column]) -> Mapping[str, Column]:
    """Return the columns by the names that people use: those of the query, and those that rows have."""
    return {column.key: column for column in columns} | {column.name: column for column in columns}


def _check_column(path: str, name: str, by_name: Mapping[str, Column]) -> Iterator[Violation]:
    if name not in by_name:
        near = nearest(name, by_name)
        names = ", ".join(by_name) or "none"
        text = f"there is no column {name}{hint(near, f'; there are {names}')}"
        yield Violation(path, text, "UNKNOWN_COLUMN", suggestion=near)
    elif not _kind(by_name[name]):
        text = f"cannot be compared: the type of {name} is {by_name[name].type}"
        yield Violation(path, text, "NOT_COMPARABLE")


_NUMBER, _TRUTH, _INSTANT, _TEXT = "a number", "true or false", "an instant in ISO 8601", "a text"
_KINDS: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"), _NUMBER),
    "boolean": _TRUTH,
    "timestamp": _INSTANT,
    **dict.fromkeys(("string", "date", "binary"), _TEXT),
}


def _kind(column: Column) -> str:
    """Name the type that a column is compared with; empty if it cannot be compared."""
    return _KINDS.get(column.type.partition("(")[0], "")


def _constant(column: Column, text: str) -> Any:
    """Parse the constant of a condition for a column; None if the text is none of its type."""
    return _of_kind(_kind(column), text)


def _of_kind(kind: str, cell: Any) -> Any:
    """Convert a store's value to the kind that it is compared as; None if it is none of the kind."""
    if cell is None:
        return None
    if kind == _NUMBER and not isinstance(cell, bool):
        with suppress(InvalidOperation):
            number = Decimal(str(cell))
            return number if number.is_finite() else None
    if kind == _TRUTH:
        return {"true": True, "false": False}.get(str(cell).lower())
    if kind == _INSTANT:
        with suppress(ValueError, OverflowError):
            instant = cell if isinstance(cell, datetime) else datetime.fromisoformat(str(cell))
            return instant.astimezone(UTC) if instant.tzinfo else instant.replace(tzinfo=UTC)
    if kind == _TEXT:
        return cell if isinstance(cell, str) else dumps(cell)
    return None
