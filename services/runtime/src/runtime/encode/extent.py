"""How far rows reach: the last window, or of each partition of a topic the first and the last offset.

After an edit a query reads again what came before. Where rows cannot take their own places, what the query
before it has written is left out by this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from daggerspec.columns import WINDOW_END
from runtime.encode.parquet_file import coordinates
from runtime.encode.rows import Layout


class Extent(TypedDict):
    """As JSON has it."""

    windows_to: str | None
    """The end of the last window; None of rows that are none."""
    offsets: dict[str, dict[str, list[int]]]
    """By topic and partition; empty for rows that are not made of one record each."""


def of(layout: Layout, rows: pa.RecordBatch) -> Extent:
    """How far the rows of a batch reach, which has some."""
    windows_to, offsets = None, dict[str, dict[str, list[int]]]()
    if layout.windowed:
        windows_to = pc.max(rows.column(WINDOW_END)).as_py().isoformat()
    if names := coordinates(layout):
        for topic, part, first, last in _ranges(*map(rows.column, names)):
            offsets.setdefault(topic, {})[part] = [first, last]
    return Extent(windows_to=windows_to, offsets=offsets)


def united(extents: Iterable[Extent]) -> Extent:
    """How far several reach."""
    windows_to, offsets = None, dict[str, dict[str, list[int]]]()
    for extent in extents:
        windows_to = max(filter(None, (windows_to, extent["windows_to"])), default=None)
        for topic, parts in extent["offsets"].items():
            for part, (first, last) in parts.items():
                held = offsets.setdefault(topic, {}).setdefault(part, [first, last])
                held[:] = [min(held[0], first), max(held[1], last)]
    return Extent(windows_to=windows_to, offsets=offsets)


def covers(layout: Layout, extent: Extent, rows: pa.RecordBatch) -> pa.Array:
    """Which rows are of a window, or a record, that it reaches to."""
    if layout.windowed:
        ends, to = rows.column(WINDOW_END), extent["windows_to"]
        closed = pa.scalar(datetime.fromisoformat(to), ends.type) if to else pa.scalar(None, ends.type)
        return pc.fill_null(pc.less_equal(ends, closed), False)
    names, covered = coordinates(layout), pa.repeat(False, rows.num_rows)
    for topic, parts in extent["offsets"].items() if names else ():
        topics, numbers, offsets = map(rows.column, names)
        for part, (first, last) in parts.items():
            is_in = pc.and_(pc.greater_equal(offsets, first), pc.less_equal(offsets, last))
            is_of = pc.and_(pc.equal(topics, topic), pc.equal(numbers, int(part)))
            covered = pc.or_(covered, pc.and_(is_of, is_in))
    return pc.fill_null(covered, False)


def _ranges(topics: pa.Array, parts: pa.Array, offsets: pa.Array) -> Iterator[tuple[str, str, int, int]]:
    """The first and the last offset of each partition."""
    rows = pa.table({"topic": topics, "part": parts, "offset": offsets})
    ranges = rows.group_by(["topic", "part"]).aggregate([("offset", "min"), ("offset", "max")])
    for value in ranges.to_pylist():
        yield value["topic"], str(value["part"]), value["offset_min"], value["offset_max"]
