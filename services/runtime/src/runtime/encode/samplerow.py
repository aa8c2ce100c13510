"""Make up a sample row with the columns of a query, to be written by the test of a sink."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from daggerspec.columns import KEY
from runtime.encode.parquet_file import coordinates
from runtime.encode.rows import Layout
from runtime.errors import user

TEXT: Final = "daggers-sink-test"
_INSTANT: Final = pa.timestamp("us", "UTC")
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_TYPES: Final[dict[str, tuple[pa.DataType, Any]]] = {
    "string": (pa.string(), TEXT),
    "boolean": (pa.bool_(), False),
    "tinyint": (pa.int8(), 0),
    "smallint": (pa.int16(), 0),
    "int": (pa.int32(), 0),
    "bigint": (pa.int64(), 0),
    "float": (pa.float32(), 0.0),
    "double": (pa.float64(), 0.0),
    "binary": (pa.binary(), b""),
}
_OF_RECORDS: Final = ("string", "int", "bigint")
"""Types of topic, partition and offset, where these are a row's identity."""


def sample(layout: Layout, now: datetime) -> pa.RecordBatch:
    """Build a row of the visible and hidden columns, with empty values and the time `now`.

    Raises: JobError (USER) for a column of a type without a sample value.
    """
    columns = {column.name: _type_and_value(column.name, column.type, now) for column in layout.columns}
    keys = [name for name in layout.hidden if name.startswith(KEY)]
    types_by_name = dict(zip(coordinates(layout), _OF_RECORDS, strict=False))
    for name in layout.hidden:
        columns[name] = _type_and_value(
            name, types_by_name.get(name, "string") if name in keys else "timestamp", now
        )
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    return pa.RecordBatch.from_pydict({name: [value] for name, (_, value) in columns.items()}, schema=schema)


def _type_and_value(name: str, kind: str, now: datetime) -> tuple[pa.DataType, Any]:
    """Return a column's type in Arrow, and a value."""
    if match := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(match[1]), int(match[2])), Decimal(0)
    if kind == "timestamp":
        return _INSTANT, now
    if kind == "date":
        return pa.date32(), now.astimezone(UTC).date()
    if kind not in _TYPES:
        raise user("NO_SAMPLE_ROW", f"No row is made up for the column {name} of the type {kind}.")
    return _TYPES[kind]
