"""Templates over Arrow columns: a text for each row, or a JSON text."""

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
"""The values of rows, by the names of their columns."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
"""The years 1 to 9999, of which alone `strftime` writes times; a TIMESTAMP reaches from -290308 to 294247."""


def texts(text: str, columns: Columns, rows: int, quoted: Callable[[str], str] = str) -> list[str | None]:
    """The text of each row, `quoted` around each value; None for a row that lacks one of them, or has a time
    that its format cannot write: `why_missing` says which.
    """
    return _joined([_plain(part, columns, quoted) for part in template.parts(text)], rows)


def objects(text: str, columns: Columns, rows: int) -> list[str | None]:
    """The JSON text of each row; None for a row of which a value within a string is NULL, or a time is none
    that its format can write.
    """
    made = [_json(part, columns) for part in _merged(_segments(template.parsed(text)))]
    return _joined(made, rows)


def why_missing(templates: Iterable[str], columns: Columns, row: int) -> tuple[str, str]:
    """Reason and sentence for a row of which one of these templates has no text."""
    formatted = (
        reference for text in templates for reference in template.references(text) if reference.format
    )
    for reference in formatted:
        value = columns[reference.column].slice(row, 1)
        if not value.null_count and _times(value) == [None]:
            what = f"{reference.format} writes the years 1 to 9999, and {reference.column} is beyond them."
            return "OUT_OF_RANGE", what
    return "TEMPLATE_NULL", "A value of the row within a text is NULL."


@dataclass(frozen=True, slots=True)
class _Typed:
    """A place for a value as JSON has it."""

    reference: Reference


_Segment: TypeAlias = Part | _Typed
_Values: TypeAlias = str | Sequence[str | None]
"""A constant, or one text for each row."""


def _joined(made: Sequence[_Values], rows: int) -> list[str | None]:
    columns = [repeat(column, rows) if isinstance(column, str) else column for column in made]
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
        case _Typed(reference) if not reference.format:
            return json_text.texts(columns[reference.column])
        case _Typed(reference):
            values = _values(reference, columns)
            there = columns[reference.column].is_valid().to_pylist()
            quoted = [None if value is None else encode_basestring(value) for value in values]
            return [
                text if is_there else json_text.NULL for text, is_there in zip(quoted, there, strict=True)
            ]
        case Reference():
            return _plain(segment, columns, lambda value: encode_basestring(value)[1:-1])


def _values(reference: Reference, columns: Columns) -> list[str | None]:
    """Values as texts, times in the format that is asked for."""
    array = columns[reference.column]
    if reference.format:
        return [None if time is None else time.strftime(reference.format) for time in _times(array)]
    return plain(array)


def _times(array: pa.Array) -> list[datetime | None]:
    """Timestamps as Python has them; None for NULL, and for the years that it has not."""
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    fits = pc.and_(pc.greater_equal(micros, _FIRST), pc.less_equal(micros, _LAST))
    if not pc.all(fits, min_count=0).as_py():
        array = pc.if_else(fits, array, pa.scalar(None, array.type))
    times: list[datetime | None] = array.to_pylist()
    return times


def plain(array: pa.Array) -> list[str | None]:
    """Each value as a text: of JSON what stands between its quotes, unescaped; None for NULL."""
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        values: list[str | None] = array.to_pylist()
        return values
    written = [None if text == json_text.NULL else text for text in json_text.texts(array)]
    return [text[1:-1] if text and text.startswith('"') else text for text in written]


def _segments(value: Any) -> Iterator[_Segment]:
    """A JSON value, cut at its references."""
    if isinstance(value, str):
        parts = template.parts(value)
        if len(parts) == 1 and isinstance(parts[0], Reference):
            yield _Typed(parts[0])
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


def _merged(segments: Iterator[_Segment]) -> list[_Segment]:
    """The same, texts beside each other as one."""
    merged: list[_Segment] = []
    for segment in segments:
        if isinstance(segment, str) and merged and isinstance(merged[-1], str):
            merged[-1] += segment
        else:
            merged.append(segment)
    return merged
