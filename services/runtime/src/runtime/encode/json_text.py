"""Arrow columns to JSON text, element by element: nested values stay native.

Times are ISO 8601 UTC with `Z`, integers and decimals numbers, bytes base64, map keys sorted so that equal
maps give equal text, non-ASCII as it is. A `Form` says what becomes of times, and of NaN and infinity.
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
"""What numpy takes the earliest time for."""
_FIRST = {"us": "-290308-12-21T19:59:05.224192", "ms": "-290308-12-21T19:59:05.224"}


@dataclass(frozen=True, slots=True)
class Form:
    """How a kind of text has its times, floats and durations."""

    times: Callable[[pa.Array], list[str | None]]
    floats: Callable[[float | None], str | None]
    """The JSON text of a float; None is null."""
    durations: Callable[[timedelta], str] = lambda value: f"{value.total_seconds():.6f}s"


def shortest_times(array: pa.Array) -> list[str | None]:
    """Each timestamp with 0, 3 or 6 digits of a second, as Protobuf's JSON writes it; None for NULL."""
    return [None if text is None else _shorten(text) for text in _times(array, "us")]


def millisecond_times(array: pa.Array) -> list[str | None]:
    """Each timestamp with 3 digits of a second, rounded down; None for NULL."""
    return _times(array, "ms")


def distinct_times(array: pa.Array) -> list[str | None]:
    """Each timestamp with 3 digits of a second, or with 6 where 3 would be another time; None for NULL."""
    return [None if t is None else f"{t[:-4]}Z" if t.endswith("000Z") else t for t in _times(array, "us")]


def dates(array: pa.Array) -> list[str | None]:
    """Each date as ISO text, years beyond 9999 too; None for NULL."""
    days = array.cast(pa.int32()).cast(pa.int64())
    return _written(days.fill_null(0).to_numpy().astype("datetime64[D]"), days)


def float_name(value: float) -> str:
    """A float as text: another for each that is a group of its own in SQL; 0.0 and -0.0 are one."""
    if math.isnan(value):
        return "NaN"
    return repr(value + 0.0) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _finite(value: float | None) -> str | None:
    return repr(value) if value is not None and math.isfinite(value) else None


def _told_apart(value: float | None) -> str | None:
    """As Protobuf's JSON has it: what is no number for JSON is a string."""
    if value is None:
        return None
    return float_name(value) if math.isfinite(value) else f'"{float_name(value)}"'


def _as_it_is(value: float | None) -> str | None:
    return _told_apart(value) if value is None or not math.isfinite(value) else repr(value)


def _day_to_second(value: timedelta) -> str:
    seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{'-' if value < timedelta(0) else ''}{day} {hour:02}:{minute:02}:{second:02}.{micros:06}"


# What is read as JSON, and what stands in a field of InfluxDB.
VALUE = Form(shortest_times, _finite)
FIELD = Form(millisecond_times, _finite)
# What Spark's from_json reads back as it was.
SPARK = Form(shortest_times, _as_it_is, _day_to_second)
# What tells rows apart: different values have different texts, and what is equal to SQL has the same.
KEY = Form(shortest_times, _told_apart)
TAG = Form(distinct_times, _told_apart)


def texts(array: pa.Array, form: Form = VALUE) -> list[str]:
    """The JSON text of each element; `null` for a null. Raises `JobError` (USER) for a type without one."""
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
    written, values = _scalar(kind), array.to_pylist()
    if not array.null_count:
        return list(map(written, values))
    return [NULL if value is None else written(value) for value in values]


def _once(array: pa.Array, written: Callable[[pa.Array], list[str]]) -> list[str]:
    """The text of each element, written once where several are equal, as times of windows are."""
    coded = array.dictionary_encode()
    different = [*written(coded.dictionary), NULL]
    return [different[place] for place in coded.indices.fill_null(len(different) - 1).to_pylist()]


def _scalar(kind: pa.DataType) -> Callable[[Any], str]:
    """How one Python value of an Arrow type, not None, becomes JSON text."""
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


def _structs(array: pa.StructArray, form: Form) -> list[str]:
    names = [encode_basestring(field.name) for field in array.type]
    columns = [
        [f"{name}:{text}" for text in texts(child, form)]
        for name, child in zip(names, array.flatten(), strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else ((),) * len(array)
    valid = array.is_valid().to_pylist()
    return [f"{{{','.join(row)}}}" if there else NULL for row, there in zip(rows, valid, strict=True)]


def _lists(array: pa.ListArray, form: Form) -> list[str]:
    elements = iter(texts(array.flatten(), form))
    return [
        NULL if length is None else f"[{','.join(islice(elements, length))}]"
        for length in array.value_lengths().to_pylist()
    ]


def _maps(array: pa.MapArray, form: Form) -> list[str]:
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
    """ISO text with `Z`, at the unit's precision; years beyond 9999 are written too."""
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    stamps = micros.fill_null(0).to_numpy().astype("datetime64[us]").astype(f"datetime64[{unit}]")
    texts = _written(stamps, array)
    return [None if text is None else f"{_FIRST[unit] if text == _NO_TIME else text}Z" for text in texts]


def _written(stamps: np.ndarray, array: pa.Array) -> list[str | None]:
    """ISO text of numpy's times, None where the array has none."""
    written = np.datetime_as_string(stamps).tolist()
    valid = array.is_valid().to_pylist()
    return [text if there else None for text, there in zip(written, valid, strict=True)]


def _shorten(text: str) -> str:
    if text.endswith(".000000Z"):
        return f"{text[:-8]}Z"
    return f"{text[:-4]}Z" if text.endswith("000Z") else text


def objects(columns: Sequence[tuple[str, pa.Array]]) -> list[str]:
    """One JSON object for each row of named columns, nulls included."""
    return named([(name, texts(array)) for name, array in columns])


def quoted(text: str) -> str:
    """The JSON text of a string."""
    return encode_basestring(text)


def added(text: str, name: str, value: str) -> str:
    """A JSON object with one more key, and its text."""
    comma = "" if text == "{}" else ","
    return f"{text[:-1]}{comma}{encode_basestring(name)}:{encode_basestring(value)}}}"


def named(columns: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """One JSON object for each row of named columns of JSON texts."""
    keys = (encode_basestring(name).replace("%", "%%") for name, _ in columns)
    form = "{" + ",".join(f"{key}:%s" for key in keys) + "}"
    return [form % row for row in zip(*(values for _, values in columns), strict=True)]
