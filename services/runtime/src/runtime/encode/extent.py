"""Compute the extent of rows: the last window, or the first and last offset of each partition.

After an edit a query reads earlier records again. Where a sink cannot overwrite rows, those that the query
before has written are left out by its extent.
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
    """Extent of rows, in its JSON form."""

    windows_to: str | None
    """End of the last window; None for rows without windows."""
    offsets: dict[str, dict[str, list[int]]]
    """First and last offset by topic and partition; empty unless each row comes from one record."""


def of(layout: Layout, rows: pa.RecordBatch) -> Extent:
    """Compute the extent of a batch that is not empty."""
    windows_to, offsets = None, dict[str, dict[str, list[int]]]()
    if layout.windowed:
        windows_to = pc.max(rows.column(WINDOW_END)).as_py().isoformat()
    if names := coordinates(layout):
        for topic, part, first, last in _ranges(*map(rows.column, names)):
            offsets.setdefault(topic, {})[part] = [first, last]
    return Extent(windows_to=windows_to, offsets=offsets)


def unite(extents: Iterable[Extent]) -> Extent:
    """Unite several extents."""
    windows_to, offsets = None, dict[str, dict[str, list[int]]]()
    for extent in extents:
        windows_to = max(filter(None, (windows_to, extent["windows_to"])), default=None)
        for topic, parts in extent["offsets"].items():
            for part, (first, last) in parts.items():
                range_ = offsets.setdefault(topic, {}).setdefault(part, [first, last])
                range_[:] = [min(range_[0], first), max(range_[1], last)]
    return Extent(windows_to=windows_to, offsets=offsets)


def covers(layout: Layout, extent: Extent, rows: pa.RecordBatch) -> pa.Array:
    """Return a mask of the rows whose window or record is within the extent."""
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
    """Yield topic, partition, first and last offset."""
    rows = pa.table({"topic": topics, "part": parts, "offset": offsets})
    ranges = rows.group_by(["topic", "part"]).aggregate([("offset", "min"), ("offset", "max")])
    for value in ranges.to_pylist():
        yield value["topic"], str(value["part"]), value["offset_min"], value["offset_max"]
