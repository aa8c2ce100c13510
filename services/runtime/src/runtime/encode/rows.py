"""What an output row is made of, whatever it is encoded to: its columns, its time, its key."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from daggerspec.columns import KEY, WINDOW_END, WINDOW_START, Column, time_column
from runtime.encode import json_text

# A time below the microsecond has this many values: the place where a forwarded record's identity goes.
_SUB_MICROSECOND = 1000
# From one element of a record, or one partner, to the next: n offsets of k elements each have n k places of
# their own up to n k = 297, and no other step has more; k elements of one record up to 1,000.
_STEP = 297
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """One row that cannot be written, and why: UPPER_SNAKE reason, one sentence."""

    row: int
    """Index in the Arrow batch."""
    reason: str
    detail: str
    by_server: bool = False
    """Whether a server has refused it; else it can be sent to none."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The output columns of a dagger, as its plan names them."""

    columns: tuple[Column, ...]
    """Visible columns, in order."""
    hidden: tuple[str, ...]
    """Further columns that carry the row's identity, in order, after the visible ones."""
    key: tuple[str, ...] = ()
    """The visible columns that are the row's identity, where all of it is seen."""
    fields: tuple[tuple[str, int], ...] = ()
    """Of each visible column the message and the number of the field that it is; "" and 0 where computed."""
    has_records: bool = False
    """Whether rows are records as they were read: their columns are `daggerspec.query.RECORD_COLUMNS`."""

    @property
    def time(self) -> str | None:
        """The column that is the row's time: window_timestamp, else rowtime; None when there is neither."""
        return time_column(self.columns, self.hidden)

    @property
    def windowed(self) -> bool:
        """Whether rows are windows; else each is made of one record."""
        return WINDOW_START in self.hidden

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that make up the row's key, in order."""
        window = (WINDOW_START, WINDOW_END) if self.windowed else ()
        return (*window, *(name for name in self.hidden if name.startswith(KEY)))

    def visible(self, batch: pa.RecordBatch) -> list[tuple[Column, pa.Array]]:
        """The visible columns with their values."""
        return [(column, batch.column(index)) for index, column in enumerate(self.columns)]


def keys(layout: Layout, batch: pa.RecordBatch) -> list[str]:
    """The key of each row as compact JSON text: the same in every attempt, another for every other row."""
    parts = [json_text.texts(batch.column(name), json_text.KEY) for name in layout.key_columns]
    return [f"[{','.join(values)}]" for values in zip(*parts, strict=True)] if parts else []


def checked(batch: pa.RecordBatch) -> None:
    """Raise pyarrow.ArrowInvalid for a batch that has a text which is no UTF-8."""
    for array in batch.columns:
        if not _is_ascii(array):
            array.validate(full=True)


def _is_ascii(array: pa.Array) -> bool:
    """Judge whether an array has texts of ASCII alone; False where that is not seen at once.

    All bytes at once take a sixth of the time that Arrow takes for one text after another.
    """
    if array.type != pa.string() or len(array) == 0:
        return False
    _, offsets, data = array.buffers()
    bounds = memoryview(offsets).cast("i")
    first, end = bounds[array.offset], bounds[array.offset + len(array)]
    return data is not None and data.slice(first, end - first).to_pybytes().isascii()


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, for people: in a text that is no UTF-8 a sign in place of what is wrong, and nothing in
    place of a value that has such a text within it.
    """
    try:
        checked(batch)
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
    """Of records as they were read: the value of each, and the refusals of those that have none, where a
    request has to have one.
    """
    values: list[bytes | None] = batch.column("value").to_pylist()
    why = "The record has no value (a tombstone), and a request has to have one."
    return values, [Refusal(row, "EMPTY_VALUE", why) for row, value in enumerate(values) if value is None]


def event_id(source: str, key: str, batch_id: int | None) -> str:
    """128 bits, in hexadecimal, that tell an event of a row from all others of its source.

    With early emission each update of a row is an event of its own, and `batch_id` says which: a replay has
    its old number. None where a row is written once.
    """
    part = "" if batch_id is None else f"/{batch_id}"
    return hashlib.blake2b(f"{source}{part}/{key}".encode(), digest_size=16).hexdigest()


def microseconds(array: pa.Array) -> list[int | None]:
    """A time column in microseconds after the epoch, UTC."""
    values: list[int | None] = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).to_pylist()
    return values


def identities(layout: Layout, batch: pa.RecordBatch) -> Sequence[int]:
    """Nanoseconds below the microsecond that tell forwarded records of one instant apart; 0 for windows.

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
    """Where a row goes: numbers move it from where texts begin, each in steps of its own."""
    moved, step = offset, 1
    for text in others:
        step *= _STEP
        if text is not None and _NUMBER.fullmatch(text):
            moved += int(text) * step
        else:
            start = f"{start},{text}"
    return (zlib.crc32(start.encode()) + moved) % _SUB_MICROSECOND
