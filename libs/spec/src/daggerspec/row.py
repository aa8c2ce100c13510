"""An output row as it is read back from a sink, whichever it was written to, and how it travels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from daggers.v1 import gateway_pb2

from daggerspec.exactjson import dumps, loads

_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Row:
    """One output row: its time (None when it has none), its tags by key, its fields by name.

    key: what tells a row without a time from another: the place where it was read.
    """

    time: datetime | None
    tags: Mapping[str, str]
    fields: Mapping[str, Any]
    key: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        """The values that make it one row: time and tags; without a time, its key."""
        return (self.time or self.key, *sorted(self.tags.items()))

    def to_proto(self) -> gateway_pb2.Row:
        """Convert the row for an answer."""
        row = gateway_pb2.Row(tags=self.tags, key=self.key)
        if self.time is not None:
            row.time.FromDatetime(self.time.astimezone(UTC))
        for name, value in self.fields.items():
            _set(row.fields.add(name=name), value)
        return row


def from_proto(row: gateway_pb2.Row) -> Row:
    """Convert a row of an answer back."""
    time = row.time.ToDatetime(tzinfo=UTC) if row.HasField("time") else None
    return Row(
        time, dict(sorted(row.tags.items())), {field_.name: _get(field_) for field_ in row.fields}, row.key
    )


def _set(field: gateway_pb2.RowField, value: Any) -> None:
    match value:
        case bool():
            field.boolean = value
        case int() if value in _INT64:
            field.integer = value
        case float():
            field.number = value
        case str():
            field.text = value
        case _:
            field.json = dumps(value)


def _get(field: gateway_pb2.RowField) -> Any:
    kind = field.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(field, kind)
    return loads(value) if kind == "json" else value
