"""A row with some columns as a person wants them, who says them as JSON. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types


class BadEditError(ValueError):
    """A column cannot have what is said; in words without that."""


def edited(row: pa.RecordBatch, columns: str) -> pa.RecordBatch:
    """The row with these columns in place of its own; all others, hidden ones too, as they are.

    row: of 1 row. columns: a JSON object, each value as `runtime.encode.json_text` writes it. Raises:
    BadEditError.
    """
    for name, value in _object(columns).items():
        index = row.schema.get_field_index(name)
        if index < 0:
            raise BadEditError(f"The row has no column {name}.")
        field = row.schema.field(index)
        try:
            column = pa.array([_value(field.type, value)], field.type)
        except (ValueError, TypeError, OverflowError, pa.ArrowException):
            raise BadEditError(
                f"Column {name} is {field.type}, and what is to stand there is none."
            ) from None
        row = row.set_column(index, field, column)
    return row


def _object(columns: str) -> Mapping[str, Any]:
    try:
        said = json.loads(columns, parse_float=Decimal)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise BadEditError("The edit is no JSON object of columns.")
    return said


def _value(kind: pa.DataType, said: Any) -> Any:
    """A value that Arrow takes for this type. Raises: ValueError, TypeError, OverflowError."""
    if said is None:
        return None
    if types.is_struct(kind):
        fields = _of(dict, said)
        if fields.keys() - {field.name for field in kind}:
            raise ValueError
        return {field.name: _value(field.type, fields.get(field.name)) for field in kind}
    if types.is_map(kind):
        pairs = _of(dict, said).items()
        return [(_key(kind.key_type, key), _value(kind.item_type, value)) for key, value in pairs]
    if types.is_list(kind) or types.is_large_list(kind):
        return [_value(kind.value_type, item) for item in _of(list, said)]
    if types.is_boolean(kind):
        return _of(bool, said)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _number(kind, said)
    return _text(kind, _of(str, said))


def _number(kind: pa.DataType, said: Any) -> Any:
    if isinstance(said, bool):  # which Python counts among integers
        raise TypeError
    if types.is_integer(kind):
        return _of(int, said)
    if not isinstance(said, int | Decimal):
        raise TypeError
    return float(said) if types.is_floating(kind) else Decimal(said)


def _text(kind: pa.DataType, said: str) -> Any:
    if types.is_timestamp(kind):
        return datetime.fromisoformat(said).astimezone(UTC)
    if types.is_date(kind):
        return date.fromisoformat(said)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return base64.b64decode(said, validate=True)
    return said


def _key(kind: pa.DataType, text: str) -> Any:
    """A key of a map, which JSON has as a string."""
    if types.is_string(kind) or types.is_large_string(kind):
        return text
    written = types.is_timestamp(kind) or types.is_date(kind) or types.is_binary(kind)
    return _value(kind, text if written else json.loads(text, parse_float=Decimal))


def _of(wanted: type, said: Any) -> Any:
    if not isinstance(said, wanted):
        raise TypeError
    return said
