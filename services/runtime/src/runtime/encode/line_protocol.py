"""Encode output rows as InfluxDB line protocol.

Tags and fields are sorted by key; null tags are left out, null, NaN and infinite fields too; integers carry
`i`, whole floats lose `.0`; text is escaped as influxdb-client escapes it, and a tag that InfluxDB cannot
hold in a way that no other tag is: rows that differ in a tag are different points. A row without a field or
without a time that fits is refused, the others are written.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterable

import pyarrow as pa
from pyarrow import types

from daggerspec.columns import Role
from daggerspec.sinks import influx
from runtime.encode import json_text
from runtime.encode.rows import Layout, Refusal, identities, microseconds
from runtime.errors import user, violation_error
from runtime.recent import cache_in_use

_MEASUREMENT = str.maketrans({",": r"\,", " ": r"\ ", "\n": r"\n", "\t": r"\t", "\r": r"\r"})
_KEY = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ ", "\n": r"\n", "\t": r"\t", "\r": r"\r"})
# What would read as one of the escapes above or below, and what would escape the separator behind the tag.
_BACKSLASH = re.compile(r"\\(?=[nrt]|x5c|x22|\Z)")
_EMPTY = '""'
_TEXT = str.maketrans({'"': r"\"", "\\": r"\\"})
# What the store keeps: the extreme 64-bit values are its own sentinels.
_MIN_TIME, _MAX_TIME = -(2**63) + 2, 2**63 - 2


class LineProtocolEncoder:
    """Encodes the rows of one layout as line protocol.

    Raises `JobError` (USER) for a measurement and for columns that the rule book refuses.
    """

    def __init__(self, layout: Layout, measurement: str) -> None:
        if wrong := influx.unwritable(measurement):
            raise user("INVALID_MEASUREMENT", f"The measurement {measurement!r} {wrong}.")
        if columns := list(influx.points("The influx sink", layout)):
            raise violation_error(columns)
        self._layout = layout
        self._measurement = measurement.translate(_MEASUREMENT)
        self._time = layout.time
        # Rows that are windows may update one another; of records each is a point of its own.
        self._distinct = not layout.windowed and bool(layout.key_columns)
        self._tags = sorted(
            (column.key, index) for index, column in enumerate(layout.columns) if column.role == Role.TAG
        )
        self._fields = sorted(
            (column.name if column.role == Role.TIME else column.key, index)
            for index, column in enumerate(layout.columns)
            if column.role != Role.TAG and column.name != self._time
        )

    def encode(self, batch: pa.RecordBatch) -> tuple[list[str | None], list[Refusal]]:
        """Encode one line for each row, None where it is refused, and the refusals."""
        tags = _join([_tags(key, batch.column(index)) for key, index in self._tags], batch.num_rows)
        fields = _join([_fields(key, batch.column(index)) for key, index in self._fields], batch.num_rows)
        lines: list[str | None] = []
        refusals = []
        points: set[tuple[str, str]] = set()
        for row, (tag, field, time) in enumerate(zip(tags, fields, self._times(batch), strict=True)):
            if not field:
                refusals.append(Refusal(row, "NO_FIELDS", "Every field of the row is null."))
            elif time in _BAD_TIMES:
                refusals.append(Refusal(row, time, f"The row's {self._time} {_BAD_TIMES[time]}."))
            elif (tag, time) in points:
                refusals.append(Refusal(row, "SAME_POINT", _SAME_POINT))
            else:
                if self._distinct and time:
                    points.add((tag, time))
                lines.append(f"{self._measurement}{tag} {field[1:]}{time}")
                continue
            lines.append(None)
        return lines, refusals

    def _times(self, batch: pa.RecordBatch) -> list[str]:
        """Write the end of each line: a space and nanoseconds; "" without a time column; a key of
        `_BAD_TIMES`.
        """
        if self._time is None:
            return [""] * batch.num_rows
        micros = microseconds(batch.column(self._time))
        return [
            "NO_TIME" if micro is None else _nanoseconds(micro * 1000 + below)
            for micro, below in zip(micros, identities(self._layout, batch), strict=True)
        ]


@cache_in_use
def encoder(layout: Layout, measurement: str) -> LineProtocolEncoder:
    """Build an encoder that the worker keeps between batches, so that the rule book runs once."""
    return LineProtocolEncoder(layout, measurement)


_BAD_TIMES = {
    "NO_TIME": "is null",
    "TIME_OUT_OF_RANGE": "does not fit in 64-bit nanoseconds (years 1677 to 2262)",
}


_SAME_POINT = (
    "Another record of the batch has the same tags, time, and place among the 1,000 of a microsecond: tags "
    "that tell the records' topic, partition and thousand of offsets give each a place of its own."
)


def _nanoseconds(time: int) -> str:
    return f" {time}" if _MIN_TIME <= time <= _MAX_TIME else "TIME_OUT_OF_RANGE"


def _join(columns: list[list[str]], rows: int) -> Iterable[str]:
    """Join the pieces of each row."""
    return map("".join, zip(*columns, strict=True)) if columns else [""] * rows


def _tags(key: str, array: pa.Array) -> list[str]:
    """Write `,key=value` for each element; nothing where there is no value."""
    pieces = _Pieces(f",{key.translate(_KEY)}=", _tag_text)
    if types.is_string(array.type):
        return [pieces[value] for value in array.to_pylist()]
    return [pieces[text] for text in _plain(array, json_text.TAG)]


def _tag_text(text: str | None) -> str | None:
    """Escape a tag: a different text for every other text.

    InfluxDB has no empty tag and none that ends with a backslash, and a line has no line break. So empty text
    is two quotes, a line break is a backslash and n, and of what would read as such the first character
    is spelt out, in hexadecimal.
    """
    if text is None:
        return None
    if text in ("", _EMPTY):
        return text.replace('"', r"\x22", 1) or _EMPTY
    return _BACKSLASH.sub(r"\\x5c", text).translate(_KEY)


def _fields(key: str, array: pa.Array) -> list[str]:
    """Write `,key=value` for each element; nothing where it is null, NaN or infinite."""
    start, kind = f",{key.translate(_KEY)}=", array.type
    if types.is_integer(kind):
        return ["" if value is None else f"{start}{value}i" for value in array.to_pylist()]
    if types.is_boolean(kind):
        texts_of = {None: "", True: f"{start}true", False: f"{start}false"}
        return [texts_of[value] for value in array.to_pylist()]
    if types.is_floating(kind):
        return [
            f"{start}{repr(value).removesuffix('.0')}" if value is not None and math.isfinite(value) else ""
            for value in array.to_pylist()
        ]
    if types.is_decimal(kind):
        return ["" if v is None else f"{start}{str(v).removesuffix('.0')}" for v in array.to_pylist()]
    pieces = _Pieces(start, lambda text: None if text is None else f'"{text.translate(_TEXT)}"')
    values = array.to_pylist() if types.is_string(kind) else _plain(array, json_text.FIELD)
    return [pieces[text] for text in values]


class _Pieces(dict[str | None, str]):
    """Text to `,key=value`, each different text escaped once: most columns repeat few values."""

    def __init__(self, start: str, write: Callable[[str | None], str | None]) -> None:
        super().__init__()
        self._start, self._write = start, write

    def __missing__(self, text: str | None) -> str:
        written = self._write(text)
        piece = self[text] = "" if written is None else f"{self._start}{written}"
        return piece


def _plain(array: pa.Array, form: json_text.TextForm) -> Iterable[str | None]:
    """Convert a column of another type than text to text."""
    kind = array.type
    if types.is_timestamp(kind):
        return form.times(array)
    if types.is_date(kind):
        return json_text.dates(array)
    if types.is_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    if types.is_boolean(kind):
        return [None if value is None else str(value).lower() for value in array.to_pylist()]
    if types.is_floating(kind):
        return [None if value is None else json_text.float_name(value) for value in array.to_pylist()]
    if types.is_integer(kind) or types.is_decimal(kind):
        return [None if value is None else str(value) for value in array.to_pylist()]
    texts = json_text.texts(array, form)
    return [text if there else None for text, there in zip(texts, array.is_valid().to_pylist(), strict=True)]
