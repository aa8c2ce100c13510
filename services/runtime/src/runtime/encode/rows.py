"""Describe output rows independent of their encoding: columns, time, key, identity."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from daggerspec.columns import KEY, WINDOW_END, WINDOW_START, Column, time_column
from runtime.encode import json_text

# nanoseconds in a microsecond: a forwarded record's identity is put there
_SUB_MICROSECOND = 1000
# step from one element of a record, or one partner, to the next: n offsets with k elements each have n k
# distinct places up to n k = 297, the best of all steps; k elements of one record have up to 1,000
_STEP = 297
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a row that cannot be written, with an UPPER_SNAKE reason and one sentence."""

    row: int
    """Index in the Arrow batch."""
    reason: str
    detail: str
    by_server: bool = False
    """True if a server refused it; False if it cannot be sent to any server."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Output columns of a dagger, as its plan names them."""

    columns: tuple[Column, ...]
    """Visible columns, in order."""
    hidden: tuple[str, ...]
    """Columns behind the visible ones with the row's identity, in order."""
    key: tuple[str, ...] = ()
    """Visible columns that are the row's identity, if all of it is visible; else empty."""
    fields: tuple[tuple[str, int], ...] = ()
    """Message and field number of each visible column; ("", 0) for a computed one."""
    has_records: bool = False
    """True if rows are unchanged records, with the columns `daggerspec.query.RECORD_COLUMNS`."""

    @property
    def time(self) -> str | None:
        """Column of the row's time: window_timestamp, else rowtime; None without both."""
        return time_column(self.columns, self.hidden)

    @property
    def windowed(self) -> bool:
        """True if rows are windows; False if each comes from one record."""
        return WINDOW_START in self.hidden

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of the row's key, in order."""
        window = (WINDOW_START, WINDOW_END) if self.windowed else ()
        return (*window, *(name for name in self.hidden if name.startswith(KEY)))

    def visible(self, batch: pa.RecordBatch) -> list[tuple[Column, pa.Array]]:
        """Return the visible columns with their values."""
        return [(column, batch.column(index)) for index, column in enumerate(self.columns)]


def keys(layout: Layout, batch: pa.RecordBatch) -> list[str]:
    """Return the key of each row as compact JSON: unique, and the same in every attempt."""
    parts = [json_text.texts(batch.column(name), json_text.KEY) for name in layout.key_columns]
    return [f"[{','.join(values)}]" for values in zip(*parts, strict=True)] if parts else []


def check_texts(batch: pa.RecordBatch) -> None:
    """Check that all texts of a batch are UTF-8. Raises: pyarrow.ArrowInvalid."""
    for array in batch.columns:
        if not _is_ascii(array):
            array.validate(full=True)


def _is_ascii(array: pa.Array) -> bool:
    """Tell whether an array has only ASCII texts; False where that takes more than one look at its bytes.

    Checking all bytes at once takes a sixth of the time of Arrow's check of each text.
    """
    if array.type != pa.string() or len(array) == 0:
        return False
    _, offsets, data = array.buffers()
    bounds = memoryview(offsets).cast("i")
    first, end = bounds[array.offset], bounds[array.offset + len(array)]
    return data is not None and data.slice(first, end - first).to_pybytes().isascii()


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Make rows readable for people: invalid UTF-8 becomes a replacement sign, and a nested value with such a
    text becomes NULL.
    """
    try:
        check_texts(batch)
    except pa.ArrowInvalid:
        return pa.RecordBatch.from_arrays([*map(_readable, batch.columns)], schema=batch.schema)
    return batch


def _readable(array: pa.Array) -> pa.Array:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            return pa.nulls(len(array), array.type)
        values = array.cast(pa.large_binary()).to_pylist()
        texts = [None if value is None else value.decode(errors="replace") for value in values]
        return pa.array(texts, array.type)
    return array


def record_values(batch: pa.RecordBatch) -> tuple[list[bytes | None], list[Refusal]]:
    """Return the values of unchanged records, and refusals of those without a value."""
    values: list[bytes | None] = batch.column("value").to_pylist()
    why = "The record has no value (a tombstone), and a request has to have one."
    return values, [Refusal(row, "EMPTY_VALUE", why) for row, value in enumerate(values) if value is None]


def event_id(source: str, key: str, batch_id: int | None) -> str:
    """Compute the id of a row's event, unique within its source: 128 bits in hexadecimal.

    batch_id: identifies the update of a row with early emission; a replay uses the old number. None: rows are
    written once.
    """
    part = "" if batch_id is None else f"/{batch_id}"
    return hashlib.blake2b(f"{source}{part}/{key}".encode(), digest_size=16).hexdigest()


def microseconds(array: pa.Array) -> list[int | None]:
    """Convert a time column to microseconds since 1970, UTC."""
    values: list[int | None] = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).to_pylist()
    return values


def identities(layout: Layout, batch: pa.RecordBatch) -> Sequence[int]:
    """Compute nanoseconds below the microsecond that distinguish forwarded records of one instant; 0 for
    windows.

    Consecutive offsets of a partition never meet within 1,000, nor do the elements of one record; partitions
    start at different places, and may meet.
    """
    names = [name for name in layout.hidden if name.startswith(KEY)]
    if layout.windowed or len(names) < 3:
        return [0] * batch.num_rows
    topic, partition, offset, *more = (batch.column(name) for name in names)
    starts = zip(json_text.texts(topic), json_text.texts(partition), strict=True)
    further = zip(*(column.to_pylist() for column in more), strict=True) if more else [()] * batch.num_rows
    return [
        _place(",".join(start), position or 0, others)
        for start, position, others in zip(starts, offset.to_pylist(), further, strict=True)
    ]


def _place(start: str, offset: int, others: Sequence[str | None]) -> int:
    """Compute the place of a row: texts give the start, numbers move it, each in steps of its own."""
    position, step = offset, 1
    for text in others:
        step *= _STEP
        if text is not None and _NUMBER.fullmatch(text):
            position += int(text) * step
        else:
            start = f"{start},{text}"
    return (zlib.crc32(start.encode()) + position) % _SUB_MICROSECOND
