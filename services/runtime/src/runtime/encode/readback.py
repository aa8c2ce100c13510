"""A row as it is read back from a sink, whichever it was written to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from daggers.v1 import gateway_pb2

TIME: Final = "window_timestamp"
_TAG, _LABEL = "tag_", "label_"
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True)
class Row:
    """One output row: its time (None when it has none), its tags by key, its fields by name.

    key: what tells a row without a time from another: the place where it was read.
    """

    time: datetime | None
    tags: Mapping[str, str]
    fields: Mapping[str, Any]
    key: str = ""

    def to_proto(self) -> gateway_pb2.Row:
        """As it is answered."""
        row = gateway_pb2.Row(tags=self.tags, key=self.key)
        if self.time is not None:
            row.time.FromDatetime(self.time.astimezone(UTC))
        for name, value in self.fields.items():
            _set(row.fields.add(name=name), value)
        return row


def from_columns(columns: Mapping[str, Any], key: str = "") -> Row:
    """The row behind output columns: window_timestamp, tag_x, label_x, and fields; nulls are left out."""
    time = columns.get(TIME)
    tags: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for name, value in columns.items():
        if value is None or name == TIME:
            continue
        if name.startswith(_TAG):
            tags[name] = _text(value)
        elif name.startswith(_LABEL):
            tags[name.removeprefix(_LABEL)] = _text(value)
        else:
            fields[name] = value
    return Row(datetime.fromisoformat(time) if isinstance(time, str) else None, tags, fields, key)


def newest(rows: Iterable[Row], limit: int) -> list[Row]:
    """The newest rows, newest first; rows of one time by their tags, those without one last, as they come."""
    found = list(rows)
    timed = [row for row in found if row.time]
    timed.sort(key=lambda row: sorted(row.tags.items()))
    timed.sort(key=lambda row: row.time.timestamp() if row.time else 0.0, reverse=True)
    return [*timed, *(row for row in found if not row.time)][:limit]


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
            field.json = json.dumps(value, ensure_ascii=False, default=str)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
