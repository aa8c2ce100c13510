"""Convert rows as sinks have them to one form, which `daggers rows` shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from daggerspec.columns import WINDOW_TIMESTAMP, Role, key_of, role_of
from daggerspec.exactjson import dumps, loads
from daggerspec.protobuf import map_entry
from daggerspec.row import Row

_LONG: Final = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}
_WRAPPED: Final = {"google.protobuf.Int64Value", "google.protobuf.UInt64Value"}


def from_columns(columns: Mapping[str, Any], key: str = "") -> Row:
    """Build a row of output columns: window_timestamp, tag_x, label_x, and fields; nulls are left out."""
    time = columns.get(WINDOW_TIMESTAMP)
    tags: dict[str, str] = {}
    fields: dict[str, Any] = {}
    for name, value in columns.items():
        if value is None:
            continue
        if role_of(name) is Role.TAG:
            tags[key_of(name)] = _text(value)
        elif role_of(name) is Role.FIELD:
            fields[name] = value
    return Row(datetime.fromisoformat(time) if isinstance(time, str) else None, tags, fields, key)


def newest(rows: Iterable[Row]) -> list[Row]:
    """Sort rows by time, newest first; of one time by their tags, those without one last, as they come."""
    all_rows = list(rows)
    timed = [row for row in all_rows if row.time]
    timed.sort(key=lambda row: sorted(row.tags.items()))
    timed.sort(key=lambda row: row.time.timestamp() if row.time else 0.0, reverse=True)
    return [*timed, *(row for row in all_rows if not row.time)]


def from_json(value: bytes | str) -> dict[str, Any]:
    """Parse the columns of a row that was written as JSON, with every digit. Raises: ValueError."""
    columns = loads(value)
    if not isinstance(columns, dict):
        raise ValueError("not a row")  # noqa: TRY004 - a wrong value, as json's own errors are
    return columns


def from_message(message: Message) -> dict[str, Any]:
    """Read the columns of a row that was written as a message."""
    columns: dict[str, Any] = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    _read_integers(columns, cast(Descriptor, message.DESCRIPTOR))
    return columns


def _read_integers(values: dict[str, Any], kind: Descriptor) -> None:
    """Make numbers of whole numbers of 64 bits, which Protobuf's JSON has as text."""
    for name, value in values.items():
        field = kind.fields_by_name[name]
        entry = map_entry(field)
        if entry is not None:
            of_value = entry.fields_by_name["value"]
            values[name] = {key: _integers_of(inner, of_value) for key, inner in value.items()}
        elif field.is_repeated:
            values[name] = [_integers_of(item, field) for item in value]
        else:
            values[name] = _integers_of(value, field)


def _integers_of(value: Any, field: FieldDescriptor) -> Any:
    message = field.message_type
    if message is not None and message.full_name in _WRAPPED:
        return int(value)
    if message is not None and not message.full_name.startswith("google.protobuf."):
        _read_integers(value, message)
    return int(value) if field.cpp_type in _LONG else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)
