"""Arrow columns to JSON text, element by element: nested values stay native.

Times are ISO 8601 UTC with `Z`, integers and decimals numbers, bytes base64, NaN and infinity null, map keys
sorted so that equal maps give equal text, non-ASCII as it is.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from itertools import islice
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from runtime.errors import user

NULL = "null"
Times = Callable[[pa.Array], list[str | None]]


def shortest_times(array: pa.Array) -> list[str | None]:
    """Timestamps with 0, 3 or 6 digits of a second, as Protobuf's JSON writes them."""
    return [None if text is None else _shorten(text) for text in _times(array, "us")]


def millisecond_times(array: pa.Array) -> list[str | None]:
    """Timestamps with 3 digits of a second, rounded down."""
    return _times(array, "ms")


def dates(array: pa.Array) -> list[str | None]:
    """Dates as ISO text."""
    return [None if day is None else day.isoformat() for day in array.to_pylist()]


def texts(array: pa.Array, times: Times = shortest_times) -> list[str]:
    """The JSON text of each element; `null` for a null. Raises `JobError` (USER) for a type without one."""
    kind = array.type
    if types.is_struct(kind):
        return _structs(array, times)
    if types.is_map(kind):
        return _maps(array, times)
    if types.is_list(kind) or types.is_large_list(kind):
        return _lists(array, times)
    if types.is_timestamp(kind):
        return [NULL if text is None else f'"{text}"' for text in times(array)]
    return [NULL if value is None else value for value in map(_scalar(kind), array.to_pylist())]


def _scalar(kind: pa.DataType) -> Callable[[Any], str | None]:
    """How one Python value of an Arrow type becomes JSON text; None stays None."""
    if types.is_string(kind) or types.is_large_string(kind):
        return lambda value: None if value is None else encode_basestring(value)
    if types.is_boolean(kind):
        return {True: "true", False: "false"}.get
    if types.is_integer(kind) or types.is_decimal(kind):
        return lambda value: None if value is None else str(value)
    if types.is_floating(kind):
        return lambda value: repr(value) if value is not None and math.isfinite(value) else None
    if types.is_date(kind):
        return lambda value: None if value is None else f'"{value.isoformat()}"'
    if types.is_binary(kind) or types.is_large_binary(kind):
        return lambda value: None if value is None else f'"{base64.b64encode(value).decode()}"'
    if types.is_duration(kind):
        return lambda value: None if value is None else f'"{value.total_seconds():.6f}s"'
    if types.is_null(kind):
        return lambda _: None
    raise user("UNSUPPORTED_TYPE", f"A column of type {kind} cannot be written; cast it to a string.")


def _structs(array: pa.StructArray, times: Times) -> list[str]:
    names = [encode_basestring(field.name) for field in array.type]
    columns = [
        [f"{name}:{text}" for text in texts(child, times)]
        for name, child in zip(names, array.flatten(), strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    valid = array.is_valid().to_pylist()
    return [f"{{{','.join(row)}}}" if there else NULL for row, there in zip(rows, valid, strict=True)]


def _lists(array: pa.ListArray, times: Times) -> list[str]:
    elements = iter(texts(array.flatten(), times))
    return [
        NULL if length is None else f"[{','.join(islice(elements, length))}]"
        for length in array.value_lengths().to_pylist()
    ]


def _maps(array: pa.MapArray, times: Times) -> list[str]:
    kind = array.type
    entries = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    keys, values = entries.flatten().flatten()
    quoted = (text if text.startswith('"') else f'"{text}"' for text in texts(keys, times))
    pairs = iter([f"{key}:{value}" for key, value in zip(quoted, texts(values, times), strict=True)])
    return [
        NULL if length is None else f"{{{','.join(sorted(islice(pairs, length)))}}}"
        for length in entries.value_lengths().to_pylist()
    ]


def _times(array: pa.Array, unit: str) -> list[str | None]:
    """ISO text with `Z`, at the unit's precision; years beyond 9999 are written too."""
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    stamps = micros.fill_null(0).to_numpy().astype("datetime64[us]").astype(f"datetime64[{unit}]")
    written = np.datetime_as_string(stamps).tolist()
    valid = array.is_valid().to_pylist()
    return [f"{text}Z" if there else None for text, there in zip(written, valid, strict=True)]


def _shorten(text: str) -> str:
    if text.endswith(".000000Z"):
        return f"{text[:-8]}Z"
    return f"{text[:-4]}Z" if text.endswith("000Z") else text


def objects(columns: Sequence[tuple[str, pa.Array]], times: Times = shortest_times) -> list[str]:
    """One JSON object for each row of named columns, nulls included."""
    pairs = [[f"{encode_basestring(name)}:{text}" for text in texts(array, times)] for name, array in columns]
    return [f"{{{','.join(row)}}}" for row in zip(*pairs, strict=True)]
