"""Fill templates from Arrow columns: a text, or a JSON text, for each row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import repeat
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from daggerspec import template
from daggerspec.template import Part, Reference
from runtime.encode import json_text

Columns: TypeAlias = Mapping[str, pa.Array]
"""Values of rows by column."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The years 1 to 9999, which `strftime` is limited to; a TIMESTAMP reaches from -290308 to 294247."""


def texts(text: str, columns: Columns, rows: int, quoted: Callable[[str], str] = str) -> list[str | None]:
    """Fill a text template for each row; None for a row with a NULL, or with a time beyond its format.

    quoted: applied to each value. `why_missing` explains a None.
    """
    return _join([_plain(part, columns, quoted) for part in template.parts(text)], rows)


def objects(text: str, columns: Columns, rows: int) -> list[str | None]:
    """Fill a JSON template for each row; None for a row with a NULL within a string, or a time beyond its
    format.
    """
    segments = [_json(part, columns) for part in _merge(_segments(template.parse_json(text)))]
    return _join(segments, rows)


def why_missing(templates: Iterable[str], columns: Columns, row: int) -> tuple[str, str]:
    """Return reason and sentence of a row for which one of these templates has no text."""
    formatted = (
        reference for text in templates for reference in template.references(text) if reference.format
    )
    for reference in formatted:
        value = columns[reference.column].slice(row, 1)
        if not value.null_count and _times(value) == [None]:
            detail = f"{reference.format} writes the years 1 to 9999, and {reference.column} is beyond them."
            return "OUT_OF_RANGE", detail
    return "TEMPLATE_NULL", "A value of the row within a text is NULL."


@dataclass(frozen=True, slots=True)
class _TypedReference:
    """Reference that is replaced by a JSON value of its type."""

    reference: Reference


_Segment: TypeAlias = Part | _TypedReference
_Values: TypeAlias = str | Sequence[str | None]
"""A constant, or one text for each row."""


def _join(segments: Sequence[_Values], rows: int) -> list[str | None]:
    columns = [repeat(column, rows) if isinstance(column, str) else column for column in segments]
    if not columns:
        return [""] * rows
    return [None if None in row else "".join(map(str, row)) for row in zip(*columns, strict=False)]


def _plain(part: Part, columns: Columns, quoted: Callable[[str], str]) -> _Values:
    if isinstance(part, str):
        return part
    return [None if value is None else quoted(value) for value in _values(part, columns)]


def _json(segment: _Segment, columns: Columns) -> _Values:
    match segment:
        case str():
            return segment
        case _TypedReference(reference) if not reference.format:
            return json_text.texts(columns[reference.column])
        case _TypedReference(reference):
            values = _values(reference, columns)
            there = columns[reference.column].is_valid().to_pylist()
            quoted = [None if value is None else encode_basestring(value) for value in values]
            return [
                text if is_there else json_text.NULL for text, is_there in zip(quoted, there, strict=True)
            ]
        case Reference():
            return _plain(segment, columns, lambda value: encode_basestring(value)[1:-1])


def _values(reference: Reference, columns: Columns) -> list[str | None]:
    """Convert values to texts, times in the reference's format."""
    array = columns[reference.column]
    if reference.format:
        return [None if time is None else time.strftime(reference.format) for time in _times(array)]
    return plain(array)


def _times(array: pa.Array) -> list[datetime | None]:
    """Convert timestamps to Python; None for NULL, and for years beyond Python's."""
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    fits = pc.and_(pc.greater_equal(micros, _FIRST), pc.less_equal(micros, _LAST))
    if not pc.all(fits, min_count=0).as_py():
        array = pc.if_else(fits, array, pa.scalar(None, array.type))
    times: list[datetime | None] = array.to_pylist()
    return times


def plain(array: pa.Array) -> list[str | None]:
    """Convert values to texts: JSON without its outer quotes, escapes stay; None for NULL."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        values: list[str | None] = array.to_pylist()
        return values
    written = [None if text == json_text.NULL else text for text in json_text.texts(array)]
    return [text[1:-1] if text and text.startswith('"') else text for text in written]


def _segments(value: Any) -> Iterator[_Segment]:
    """Cut a JSON value at its references."""
    if isinstance(value, str):
        parts = template.parts(value)
        if len(parts) == 1 and isinstance(parts[0], Reference):
            yield _TypedReference(parts[0])
            return
        yield '"'
        for part in parts:
            yield encode_basestring(part)[1:-1] if isinstance(part, str) else part
        yield '"'
    elif isinstance(value, dict):
        for number, (key, inner) in enumerate(value.items()):
            yield f"{',' if number else '{'}{encode_basestring(key)}:"
            yield from _segments(inner)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield "," if number else "["
            yield from _segments(inner)
        yield "]" if value else "[]"
    else:
        yield json.dumps(value)


def _merge(segments: Iterator[_Segment]) -> list[_Segment]:
    """Merge neighbouring texts."""
    merged: list[_Segment] = []
    for segment in segments:
        if isinstance(segment, str) and merged and isinstance(merged[-1], str):
            merged[-1] += segment
        else:
            merged.append(segment)
    return merged
