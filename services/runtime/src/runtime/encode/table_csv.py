"""Encode rows as CSV that a database copies into a table; values without a form in CSV become text."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, types

from runtime.encode import json_text
from runtime.encode.rows import Layout, Refusal

NUMBER: Final = "daggers_row"
"""Column with the row's number in its batch; no query has a column of this name by chance."""
_FORM: Final = csv.WriteOptions(include_header=False, quoting_style="needed")
_TEXT: Final = pa.string()
_NUL: Final = "\0"
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAYS: Final = range(date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH + 1)
"""Days since 1970 of the years 1 to 9999."""
_MICROSECONDS: Final = range(_DAYS.start * 86_400_000_000, _DAYS.stop * 86_400_000_000)


def text(rows: pa.Table) -> memoryview:
    """Encode rows as CSV without a header."""
    out = io.BytesIO()
    csv.write_csv(rows, out, _FORM)
    return out.getbuffer()


def rows(layout: Layout, batch: pa.RecordBatch, *, nul_to_space: bool) -> tuple[pa.Table, list[Refusal]]:
    """Build the table of a batch's visible columns, with numbered rows; and refusals of rows with U+0000.

    nul_to_space: replace U+0000 by a space; no row is refused then.
    """
    numbers = pa.array(range(batch.num_rows), pa.int64())
    table = pa.table({NUMBER: numbers, **columns(layout, batch)})
    return (_replace_nul(table), []) if nul_to_space else _without_nul(table)


def columns(layout: Layout, batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Convert the visible columns of a batch to what CSV can have and PostgreSQL reads."""
    return {column.name: _plain(values) for column, values in layout.visible(batch)}


def _plain(values: pa.Array) -> pa.Array:
    kind = values.type
    if types.is_timestamp(kind) and _are_out_of_range(values, _MICROSECONDS):
        return pa.array(json_text.shortest_times(values), _TEXT)
    if types.is_date(kind) and _are_out_of_range(values.cast(pa.int32()), _DAYS):
        return pa.array(json_text.dates(values), _TEXT)
    if types.is_binary(kind) or types.is_large_binary(kind):
        return pa.array(
            [None if value is None else f"\\x{value.hex()}" for value in values.to_pylist()], _TEXT
        )
    if types.is_nested(kind):
        return pa.array([None if text == json_text.NULL else text for text in json_text.texts(values)], _TEXT)
    if types.is_duration(kind):
        texts = [text.strip('"') for text in json_text.texts(values)]
        return pa.array([None if text == json_text.NULL else text for text in texts], _TEXT)
    return values


def _are_out_of_range(times: pa.Array, range_: range) -> bool:
    """Tell whether some times are beyond the years 1 to 9999.

    For years beyond 32,767 Arrow would write a wrong year, which a database would accept.
    """
    counted = pc.min_max(times.cast(pa.int64())).values()
    return any(time is not None and time not in range_ for time in (stamp.as_py() for stamp in counted))


def _without_nul(rows: pa.Table) -> tuple[pa.Table, list[Refusal]]:
    """Return the rows without U+0000 in their texts, and refusals of the others."""
    column: dict[int, str] = {}
    for name, texts in _texts(rows):
        has = pc.fill_null(pc.match_substring(texts, _NUL), False)
        column |= dict.fromkeys(rows[NUMBER].filter(has).to_pylist(), name)
    refusals = [
        Refusal(row, "NUL_CHARACTER", f"The column {name} has U+0000, which PostgreSQL cannot hold.")
        for row, name in sorted(column.items())
    ]
    return rows.filter(pc.invert(pc.is_in(rows[NUMBER], pa.array(column, pa.int64())))), refusals


def _replace_nul(rows: pa.Table) -> pa.Table:
    """Replace each U+0000 by a space."""
    for name, texts in _texts(rows):
        spaced = pc.replace_substring(texts, _NUL, " ")
        rows = rows.set_column(rows.column_names.index(name), name, spaced)
    return rows


def _texts(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """Yield the text columns with their names."""
    for name in rows.column_names:
        if types.is_string(rows[name].type) or types.is_large_string(rows[name].type):
            yield name, rows[name]
