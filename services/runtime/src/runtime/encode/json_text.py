"""Write Arrow columns as JSON text, element by element: nested values stay native.

Times are ISO 8601 UTC with `Z`, integers and decimals numbers, bytes base64, map keys sorted so that equal
maps give equal text, non-ASCII as it is. A `TextForm` chooses the text of times, and of NaN and infinity.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from runtime.errors import user

NULL = "null"
_NO_TIME = "NaT"
"""Text of the earliest time in numpy."""
_FIRST = {"us": "-290308-12-21T19:59:05.224192", "ms": "-290308-12-21T19:59:05.224"}


@dataclass(frozen=True, slots=True)
class TextForm:
    """Text of times, floats and durations in one kind of output."""

    times: Callable[[pa.Array], list[str | None]]
    floats: Callable[[float | None], str | None]
    """The JSON text of a float; None is null."""
    durations: Callable[[timedelta], str] = lambda value: f"{value.total_seconds():.6f}s"


def shortest_times(array: pa.Array) -> list[str | None]:
    """Write timestamps with 0, 3 or 6 digits of a second, as Protobuf's JSON writes them; None for NULL."""
    return [None if text is None else _shorten(text) for text in _times(array, "us")]


def millisecond_times(array: pa.Array) -> list[str | None]:
    """Write timestamps with 3 digits of a second, rounded down; None for NULL."""
    return _times(array, "ms")


def distinct_times(array: pa.Array) -> list[str | None]:
    """Write timestamps with 3 digits of a second, or 6 where 3 would be another time; None for NULL."""
    return [None if t is None else f"{t[:-4]}Z" if t.endswith("000Z") else t for t in _times(array, "us")]


def dates(array: pa.Array) -> list[str | None]:
    """Write dates as ISO text, years beyond 9999 too; None for NULL."""
    days = array.cast(pa.int32()).cast(pa.int64())
    return _iso_texts(days.fill_null(0).to_numpy().astype("datetime64[D]"), days)


def float_name(value: float) -> str:
    """Write a float as text: another for each that is a group of its own in SQL; 0.0 and -0.0 are one."""
    if math.isnan(value):
        return "NaN"
    return repr(value + 0.0) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _finite(value: float | None) -> str | None:
    return repr(value) if value is not None and math.isfinite(value) else None


def _distinct_float(value: float | None) -> str | None:
    """Write a float as Protobuf's JSON does: NaN and infinity, which JSON has no number for, are strings."""
    if value is None:
        return None
    return float_name(value) if math.isfinite(value) else f'"{float_name(value)}"'


def _exact_float(value: float | None) -> str | None:
    return _distinct_float(value) if value is None or not math.isfinite(value) else repr(value)


def _day_to_second(value: timedelta) -> str:
    seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{'-' if value < timedelta(0) else ''}{day} {hour:02}:{minute:02}:{second:02}.{micros:06}"


# Read as JSON by others, and written to a field of InfluxDB.
VALUE = TextForm(shortest_times, _finite)
FIELD = TextForm(millisecond_times, _finite)
# Spark's from_json reads it back unchanged.
SPARK = TextForm(shortest_times, _exact_float, _day_to_second)
# Tells rows apart: different values have different texts, and values that are equal in SQL the same.
KEY = TextForm(shortest_times, _distinct_float)
TAG = TextForm(distinct_times, _distinct_float)


def texts(array: pa.Array, form: TextForm = VALUE) -> list[str]:
    """Write each element as JSON; `null` for a null. Raises `JobError` (USER) for a type without a form."""
    kind = array.type
    if types.is_struct(kind):
        return _structs(array, form)
    if types.is_map(kind):
        return _maps(array, form)
    if types.is_list(kind) or types.is_large_list(kind):
        return _lists(array, form)
    if types.is_timestamp(kind):
        return _once(array, lambda times: [f'"{text}"' for text in form.times(times)])
    if types.is_date(kind):
        return [NULL if text is None else f'"{text}"' for text in dates(array)]
    if types.is_floating(kind):
        return [form.floats(value) or NULL for value in array.to_pylist()]
    if types.is_duration(kind):
        return [NULL if value is None else f'"{form.durations(value)}"' for value in array.to_pylist()]
    write, values = _scalar(kind), array.to_pylist()
    if not array.null_count:
        return list(map(write, values))
    return [NULL if value is None else write(value) for value in values]


def _once(array: pa.Array, write: Callable[[pa.Array], list[str]]) -> list[str]:
    """Write each element, once where several are equal, as times of windows are."""
    coded = array.dictionary_encode()
    different = [*write(coded.dictionary), NULL]
    return [different[place] for place in coded.indices.fill_null(len(different) - 1).to_pylist()]


def _scalar(kind: pa.DataType) -> Callable[[Any], str]:
    """Return the writer of one Python value of an Arrow type, not None."""
    if types.is_string(kind) or types.is_large_string(kind):
        return encode_basestring
    if types.is_boolean(kind):
        return {True: "true", False: "false"}.__getitem__
    if types.is_integer(kind) or types.is_decimal(kind):
        return str
    if types.is_binary(kind) or types.is_large_binary(kind):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if types.is_null(kind):
        return lambda _: NULL
    raise user("UNSUPPORTED_TYPE", f"A column of type {kind} cannot be written; cast it to a string.")


def _structs(array: pa.StructArray, form: TextForm) -> list[str]:
    names = [encode_basestring(field.name) for field in array.type]
    columns = [
        [f"{name}:{text}" for text in texts(child, form)]
        for name, child in zip(names, array.flatten(), strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    valid = array.is_valid().to_pylist()
    return [f"{{{','.join(row)}}}" if there else NULL for row, there in zip(rows, valid, strict=True)]


def _lists(array: pa.ListArray, form: TextForm) -> list[str]:
    elements = iter(texts(array.flatten(), form))
    return [
        NULL if length is None else f"[{','.join(islice(elements, length))}]"
        for length in array.value_lengths().to_pylist()
    ]


def _maps(array: pa.MapArray, form: TextForm) -> list[str]:
    kind = array.type
    entries = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
    keys, values = entries.flatten().flatten()
    quoted = (text if text.startswith('"') else f'"{text}"' for text in texts(keys, form))
    pairs = iter([f"{key}:{value}" for key, value in zip(quoted, texts(values, form), strict=True)])
    return [
        NULL if length is None else f"{{{','.join(sorted(islice(pairs, length)))}}}"
        for length in entries.value_lengths().to_pylist()
    ]


def _times(array: pa.Array, unit: str) -> list[str | None]:
    """Write timestamps as ISO text with `Z`, at the unit's precision; years beyond 9999 too."""
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    stamps = micros.fill_null(0).to_numpy().astype("datetime64[us]").astype(f"datetime64[{unit}]")
    texts = _iso_texts(stamps, array)
    return [None if text is None else f"{_FIRST[unit] if text == _NO_TIME else text}Z" for text in texts]


def _iso_texts(stamps: np.ndarray, array: pa.Array) -> list[str | None]:
    """Write numpy's times as ISO text, None where the array has none."""
    isos = np.datetime_as_string(stamps).tolist()
    valid = array.is_valid().to_pylist()
    return [text if there else None for text, there in zip(isos, valid, strict=True)]


def _shorten(text: str) -> str:
    if text.endswith(".000000Z"):
        return f"{text[:-8]}Z"
    return f"{text[:-4]}Z" if text.endswith("000Z") else text


def objects(columns: Sequence[tuple[str, pa.Array]]) -> list[str]:
    """Build one JSON object for each row of named columns, nulls included."""
    return join_members([(name, texts(array)) for name, array in columns])


def quote(text: str) -> str:
    """Write a string as JSON."""
    return encode_basestring(text)


def add_member(text: str, name: str, value: str) -> str:
    """Add a key with a string value to the text of a JSON object."""
    comma = "" if text == "{}" else ","
    return f"{text[:-1]}{comma}{encode_basestring(name)}:{encode_basestring(value)}}}"


def join_members(columns: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Build one JSON object for each row of named columns of JSON texts."""
    keys = (encode_basestring(name).replace("%", "%%") for name, _ in columns)
    form = "{" + ",".join(f"{key}:%s" for key in keys) + "}"
    return [form % row for row in zip(*(values for _, values in columns), strict=True)]
