"""Apply a person's edit, given as JSON, to columns of a row. Pure."""

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
    """Raised for an edit that does not fit the row. Its text never has the value, which may be a secret."""


def apply_edit(row: pa.RecordBatch, columns: str) -> pa.RecordBatch:
    """Return the row with the given columns replaced; all others, hidden ones too, stay.

    row: a batch of 1 row. columns: a JSON object, with values in the form of `runtime.encode.json_text`.
    Raises: BadEditError.
    """
    for name, value in _parse_object(columns).items():
        index = row.schema.get_field_index(name)
        if index < 0:
            raise BadEditError(f"The row has no column {name}.")
        field = row.schema.field(index)
        try:
            column = pa.array([_convert(field.type, value)], field.type)
        except (ValueError, TypeError, OverflowError, pa.ArrowException):
            raise BadEditError(
                f"Column {name} is {field.type}, and what is to stand there is none."
            ) from None
        row = row.set_column(index, field, column)
    return row


def _parse_object(columns: str) -> Mapping[str, Any]:
    try:
        values = json.loads(columns, parse_float=Decimal)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise BadEditError("The edit is no JSON object of columns.")
    return values


def _convert(kind: pa.DataType, value: Any) -> Any:
    """Convert a JSON value to what Arrow takes for the type.

    Raises: ValueError, TypeError, OverflowError where it does not fit.
    """
    if value is None:
        return None
    if types.is_struct(kind):
        fields = _require(dict, value)
        if fields.keys() - {field.name for field in kind}:
            raise ValueError
        return {field.name: _convert(field.type, fields.get(field.name)) for field in kind}
    if types.is_map(kind):
        pairs = _require(dict, value).items()
        return [(_convert_key(kind.key_type, key), _convert(kind.item_type, value)) for key, value in pairs]
    if types.is_list(kind) or types.is_large_list(kind):
        return [_convert(kind.value_type, item) for item in _require(list, value)]
    if types.is_boolean(kind):
        return _require(bool, value)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _convert_number(kind, value)
    return _convert_text(kind, _require(str, value))


def _convert_number(kind: pa.DataType, value: Any) -> Any:
    if isinstance(value, bool):  # which Python counts among integers
        raise TypeError
    if types.is_integer(kind):
        return _require(int, value)
    if not isinstance(value, int | Decimal):
        raise TypeError
    return float(value) if types.is_floating(kind) else Decimal(value)


def _convert_text(kind: pa.DataType, value: str) -> Any:
    if types.is_timestamp(kind):
        return datetime.fromisoformat(value).astimezone(UTC)
    if types.is_date(kind):
        return date.fromisoformat(value)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return base64.b64decode(value, validate=True)
    return value


def _convert_key(kind: pa.DataType, text: str) -> Any:
    """Convert a map's key, which JSON always has as a string."""
    if types.is_string(kind) or types.is_large_string(kind):
        return text
    is_textual = types.is_timestamp(kind) or types.is_date(kind) or types.is_binary(kind)
    return _convert(kind, text if is_textual else json.loads(text, parse_float=Decimal))


def _require(wanted: type, value: Any) -> Any:
    if not isinstance(value, wanted):
        raise TypeError
    return value
