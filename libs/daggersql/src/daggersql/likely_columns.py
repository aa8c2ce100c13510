"""Guesses which column of a stream is a category, a place, a person; by names and types alone. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from daggersql.described import ColumnDescription
from daggersql.ir.naming import RESERVED, identifier
from daggersql.ir.walk import METADATA

MAX_DEPTH: Final = 3
"""Fields deeper than so many messages are not what a stream is about."""
_TEXTS: Final = ("string", "google.protobuf.StringValue")
_WHOLE: Final = frozenset(["int32", "int64", "uint32", "sint32", "sint64", "fixed32", "sfixed32", "sfixed64"])
_REALS: Final = frozenset(["double", "float", "google.protobuf.DoubleValue", "google.protobuf.FloatValue"])
_CATEGORIES: Final = frozenset([
    "status", "state", "type", "kind", "category", "class", "result", "outcome", "reason", "event",
    "action", "method", "channel", "source", "platform", "service", "product", "mode", "tier",
    "segment", "level", "severity", "country", "city", "region", "zone", "area", "market", "currency",
    "language", "gender", "priority", "vehicle", "payment", "code",
])  # fmt: skip
"""Last words of the names of fields with few values."""
_PLACES: Final = frozenset([
    "city", "country", "region", "zone", "area", "market",
])  # fmt: skip
"""Things of which there are few, so that their names and ids are few as well."""
_SINGULAR: Final = frozenset([
    "id", "ids", "uuid", "guid", "number", "no", "name", "email", "mail", "phone", "msisdn", "address",
    "url", "uri", "link", "path", "token", "key", "hash", "signature", "password", "secret",
    "description", "comment", "note", "notes", "text", "message", "title", "body", "payload", "json",
    "xml", "data", "content", "user", "agent", "ip", "host", "timestamp", "time", "date", "at",
    "latitude", "longitude", "lat", "lng", "lon", "geohash", "cell", "version",
])  # fmt: skip
"""Last words of the names of texts with a value of its own in nearly every record."""
_PEOPLE: Final = frozenset([
    "customer", "user", "driver", "rider", "passenger", "client", "member", "account", "visitor",
    "device",
])  # fmt: skip
_COMPLETED: Final = re.compile(
    r"(^|_)(COMPLETED|SUCCEEDED|SUCCESS|SUCCESSFUL|DELIVERED|PAID|DONE|FINISHED)$", re.I
)
_LATITUDES: Final = ("latitude", "lat")
_LONGITUDES: Final = ("longitude", "long", "lng", "lon")
_COUNT: Final = "records"


@dataclass(frozen=True, slots=True)
class LikelyColumns:
    """The columns of a stream as a query named `table` reads them, without sensitive ones."""

    table: str
    columns: Sequence[ColumnDescription]

    def category(self) -> ColumnDescription | None:
        """Return the enum, or else the text, that most likely has few values."""
        return self._best(_is_countable, _rank_category)

    def outcome(self) -> tuple[ColumnDescription, str] | None:
        """Return an enum that says how something ended, with its value for "well"."""
        column = self._best(lambda column: _completed_value(column) is not None, _rank_category)
        return None if column is None else (column, _completed_value(column) or "")

    def coordinates(self) -> tuple[ColumnDescription, ColumnDescription] | None:
        """Return latitude and longitude of one place, in degrees."""
        for latitude in self._matching(lambda column: _is_real(column) and _last(column) in _LATITUDES):
            *above, _ = words(latitude.path)
            for longitude in self._matching(lambda column: _is_real(column) and _last(column) in _LONGITUDES):
                if words(longitude.path)[:-1] == above:
                    return latitude, longitude
        return None

    def person(self) -> ColumnDescription | None:
        """Return the id of who did something: customer_id, user, driverId."""
        return self._best(_is_person, lambda column: (len(words(column.path)),))

    def endpoint(self) -> ColumnDescription | None:
        """Return the text that says which part of an API was called."""
        names = ("endpoint", "route", "path", "uri", "url", "method", "operation")
        return self._find_named(names, lambda column: column.protobuf_type in _TEXTS)

    def status_code(self) -> ColumnDescription | None:
        """Return the number or enum that says how a call ended."""
        names = ("status_code", "http_status", "response_code", "http_code", "status", "code")
        return self._find_named(
            names, lambda column: column.protobuf_type in _WHOLE or bool(column.enum_values)
        )

    def path(self, column: ColumnDescription) -> str:
        """Write a column: the name of the table stands before one that begins with the same name."""
        return f"`{self.table}`.{column.path}" if words(column.path)[0] == self.table else column.path

    def _best(
        self,
        accepts: Callable[[ColumnDescription], bool],
        rank: Callable[[ColumnDescription], tuple[int, ...]],
    ) -> ColumnDescription | None:
        candidates = [(rank(column), number, column) for number, column in enumerate(self._matching(accepts))]
        return min(candidates, key=lambda candidate: candidate[:2])[2] if candidates else None

    def _find_named(
        self, names: Sequence[str], accepts: Callable[[ColumnDescription], bool]
    ) -> ColumnDescription | None:
        """Return the column with the first of some names: a name, or the end of one."""

        def place(column: ColumnDescription) -> int:
            name = "_".join(_split(words(column.path)[-1]))
            return next(
                (index for index, end in enumerate(names) if f"_{name}".endswith(f"_{end}")), len(names)
            )

        return self._best(
            lambda column: accepts(column) and place(column) < len(names),
            lambda column: (place(column), len(words(column.path))),
        )

    def _matching(self, accepts: Callable[[ColumnDescription], bool]) -> Iterator[ColumnDescription]:
        return (column for column in self.columns if accepts(column))


def likely_columns(
    table: str, columns: Sequence[ColumnDescription], sensitive: Collection[str] = ()
) -> LikelyColumns:
    """Return the columns that a query may name one value of.

    table: its name in FROM. columns: those of the stream, as `described.columns` gives them. sensitive:
    dotted paths of fields that are left out.
    """
    lower = [column.path.replace("`", "").lower() for column in columns]
    return LikelyColumns(
        table,
        [
            column
            for column, name in zip(columns, lower, strict=True)
            if _is_single(column)
            and lower.count(name) == 1  # Spark tells names apart by letters, not by their case
            and not _is_sensitive(column, sensitive)
        ],
    )


def words(path: str) -> list[str]:
    """Return the names of the fields on the way to a column."""
    return path.replace("`", "").split(".")


def name_output(column: ColumnDescription) -> str:
    """Return a name for a column in SELECT; the store's own names and that of the count are taken."""
    name = identifier(words(column.path)[-1]) or "value"
    is_reserved = name in RESERVED or name in (_COUNT, "window_timestamp") or name.startswith("_")
    return f"value_{name.strip('_')}".rstrip("_") if is_reserved else name


def _is_single(column: ColumnDescription) -> bool:
    """Tell whether a column is one value of a field, not too deep in the message."""
    steps = words(column.path)
    single = (
        not column.unread and not column.repeated and bool(column.protobuf_type) and "[" not in column.path
    )
    return single and len(steps) <= MAX_DEPTH and steps[0] not in {"rowtime", *METADATA}


def _is_countable(column: ColumnDescription) -> bool:
    """Tell whether a column is an enum with a choice, or a text that does not look like one of many."""
    if column.enum_values:
        return len(column.enum_values) > 1
    name = words(column.path)[-1]
    return column.protobuf_type in _TEXTS and (_is_category(name) or _split(name)[-1] not in _SINGULAR)


def _rank_category(column: ColumnDescription) -> tuple[int, ...]:
    """Rank an enum before a text, a name of categories before others, the top of the message first."""
    steps = words(column.path)
    return not column.enum_values, not _is_category(steps[-1]), len(steps)


def _is_category(name: str) -> bool:
    """Tell whether a field of this name has few values: `status`, `vehicle_type`, `city_id`."""
    *before, last = _split(name)
    return last in _CATEGORIES or (last in ("id", "name") and bool(before) and before[-1] in _PLACES)


def _is_person(column: ColumnDescription) -> bool:
    *before, last = _split(words(column.path)[-1])
    named = last in _PEOPLE or (last in ("id", "uuid") and bool(before) and before[-1] in _PEOPLE)
    return named and (column.protobuf_type in _TEXTS or column.protobuf_type in _WHOLE)


def _is_real(column: ColumnDescription) -> bool:
    return column.protobuf_type in _REALS


def _completed_value(column: ColumnDescription) -> str | None:
    """Return the value of an enum that says that something ended well."""
    return next((name for name, _ in column.enum_values if _COMPLETED.search(name)), None)


def _is_sensitive(column: ColumnDescription, sensitive: Collection[str]) -> bool:
    path = column.path.replace("`", "")
    return any(path == hidden or path.startswith(f"{hidden}.") for hidden in sensitive)


def _last(column: ColumnDescription) -> str:
    return _split(words(column.path)[-1])[-1]


def _split(name: str) -> list[str]:
    """Split a name in snake or camel case into words in lower case, without numbers behind; at least one."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_0123456789").split("_")
