"""Write rows as Parquet files: columns under numbers, in folders by the hour or the day of the row's time."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.types import is_timestamp

from daggerspec.columns import KEY, RECORD_TIME, WINDOW_END, is_of_records
from daggerspec.row import Row
from runtime.encode import json_text
from runtime.encode.readback import from_columns, from_json
from runtime.encode.rows import Layout, Refusal
from runtime.recent import cache_in_use

HOUR: Final = "__hour"
"""Column of rows on their way: the begin of their folder, in hours since the epoch, of the folders' zone."""
TIME: Final = "__time"
"""Column of rows on their way: the time that the hour is of."""
COORDINATES: Final = {"__topic": "string", "__partition": "int", "__offset": "bigint"}
"""Further columns of rows that are made of one record each, and their types in Spark SQL."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOURS: Final = (
    -int((_EPOCH - datetime(1, 1, 1, tzinfo=UTC)) / timedelta(hours=1)),
    int((datetime(9999, 12, 31, 23, tzinfo=UTC) - _EPOCH) / timedelta(hours=1)),
)
_MICROSECONDS: Final = pa.timestamp("us", "UTC")
_OF_NO_ZONE: Final = pa.timestamp("us")
_A_SECOND_US: Final = 1_000_000
_AN_HOUR_US: Final = 3_600 * _A_SECOND_US
_ZSTD: Final = "zstd"
Ints: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Folders:
    """Division of rows into folders by time."""

    by: str = ""
    """Column of the time; that of the row when empty."""
    is_of_day: bool = False
    """True for a folder a day, False for a folder an hour."""
    wall: Callable[[Ints], Ints] | None = None
    """Converts instants to wall times, both in seconds; None: UTC."""

    def of(self, times: pa.Array) -> pa.Array:
        """Return the begin of each time's folder, in hours as HOUR has it."""
        walls = times if self.wall is None else _to_wall_times(times, self.wall)
        # Without a zone, where it is a division: with one Arrow takes fifteen times as long.
        of_none = walls.cast(pa.int64()).cast(_OF_NO_ZONE)
        since = pc.floor_temporal(of_none, unit="day" if self.is_of_day else "hour")
        return pc.divide(since.cast(pa.int64()), pa.scalar(_AN_HOUR_US, pa.int64()))

    def name(self, hour: int) -> str:
        """Name the folder that begins at an hour since the epoch."""
        begins = _EPOCH + timedelta(hours=hour)
        day = f"dt={begins.year:04}-{begins.month:02}-{begins.day:02}"
        return day if self.is_of_day else f"{day}/hr={begins.hour:02}"


def _to_wall_times(times: pa.Array, wall: Callable[[Ints], Ints]) -> pa.Array:
    """Convert times to wall times, as if these were of UTC."""
    instants = pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    # Beyond the years of zones it wraps, and is refused.
    walls = wall(instants // _A_SECOND_US) * _A_SECOND_US
    is_null = times.is_null().to_numpy(zero_copy_only=False)
    return pa.array(walls, pa.int64(), mask=is_null).cast(_MICROSECONDS)


def time_column(layout: Layout, schema: pa.Schema, by: str = "") -> str:
    """Name the column whose time chooses the folder."""
    if by:
        return by
    time = layout.time
    if time is not None and is_timestamp(schema.field(time).type):
        return time
    return WINDOW_END if layout.windowed else RECORD_TIME


def coordinates(layout: Layout) -> tuple[str, ...]:
    """Name the hidden columns that identify a row's record; empty where a row is not made of one."""
    parts = tuple(name for name in layout.hidden if name.startswith(KEY))
    return parts[:3] if is_of_records(layout.hidden) else ()


def columns(layout: Layout) -> dict[str, str]:
    """Return the columns of a file, in order, and their types in Spark SQL."""
    visible = {column.name: column.type for column in layout.columns}
    return {**visible, **(COORDINATES if coordinates(layout) else {})}


def types(layout: Layout, schema: pa.Schema) -> list[pa.DataType]:
    """Return the Arrow types that the columns of a file have in the rows."""
    names = [*(column.name for column in layout.columns), *coordinates(layout)]
    return [schema.field(name).type for name in names]


def check_types(layout: Layout, no_rows: pa.RecordBatch) -> None:
    """Check that every column has a form. Raises: pyarrow.ArrowNotImplementedError."""
    named = zip(columns(layout), types(layout, no_rows.schema), strict=True)
    _encodings(pa.schema(list(named)))


def table(layout: Layout, batch: pa.RecordBatch, schema: pa.Schema, folders: Folders) -> pa.Table:
    """Convert the rows of a batch to the columns of this schema, and add their hour and time."""
    values = {column.name: array for column, array in layout.visible(batch)}
    values |= dict(zip(COORDINATES, map(batch.column, coordinates(layout)), strict=False))
    arrays = [values[field.name].cast(field.type) for field in schema]
    times = batch.column(time_column(layout, batch.schema, folders.by)).cast(_MICROSECONDS)
    timed = pa.Table.from_arrays(arrays, schema=schema).append_column(TIME, times)
    return timed.append_column(HOUR, folders.of(times))


def untimely(rows: pa.Table, column: str) -> list[Refusal]:
    """Refuse the rows that no folder is for."""
    least, most = _HOURS
    hour = rows[HOUR]
    is_in = pc.and_(pc.greater_equal(hour, least), pc.less_equal(hour, most))
    wrong = pc.invert(pc.fill_null(is_in, False))
    why = f"The column {column} says no time of the years 1 to 9999, by which its file is found."
    return [Refusal(row, "NO_TIME", why) for row in pc.indices_nonzero(wrong).to_pylist()]


def begin_of(folder: str) -> datetime:
    """Parse the begin of a folder's hour or day, a wall time of its zone."""
    form = "dt=%Y-%m-%d/hr=%H" if "/" in folder else "dt=%Y-%m-%d"
    return datetime.strptime(folder, form)  # noqa: DTZ007 - a wall time


def by_hour(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each hour, the earliest first."""
    hours = sorted(pc.unique(rows[HOUR]).to_pylist())
    for hour in hours:
        yield hour, rows if len(hours) == 1 else rows.filter(pc.equal(rows[HOUR], hour))


def content(rows: pa.Table, codec: str = _ZSTD) -> pa.Buffer:
    """Write a file of these rows: one row group, as small as costs little."""
    columns_ = rows.drop_columns([TIME, HOUR])
    out = pa.BufferOutputStream()
    texts, whole = _encodings(columns_.schema)
    pq.write_table(
        columns_,
        out,
        row_group_size=max(1, columns_.num_rows),
        compression=codec,
        compression_level=1 if codec == _ZSTD else None,
        use_dictionary=list(texts),
        column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
    )
    return out.getvalue()


def number_columns(schema: pa.Schema, numbers: Sequence[int]) -> pa.Schema:
    """Give each column of a schema its number, as readers of Parquet know columns by."""
    return pa.schema(
        field.with_nullable(True).with_metadata({b"PARQUET:field_id": str(number).encode()})
        for field, number in zip(schema, numbers, strict=True)
    )


def rows(content: bytes) -> Iterator[Row]:
    """Yield the rows of a file."""
    for batch in pq.read_table(pa.BufferReader(content)).combine_chunks().to_batches():
        visible = [(name, batch.column(name)) for name in batch.schema.names if name not in COORDINATES]
        yield from (from_columns(from_json(text)) for text in json_text.objects(visible))


@cache_in_use
def _encodings(schema: pa.Schema) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the leaves written by a dictionary, and those by differences: whole numbers and times."""
    empty = io.BytesIO()
    pq.write_table(schema.empty_table(), empty)
    leaves = pq.ParquetFile(io.BytesIO(empty.getvalue())).schema
    kinds = {leaves.column(index).path: leaves.column(index).physical_type for index in range(len(leaves))}
    whole = tuple(path for path, kind in kinds.items() if kind in ("INT32", "INT64"))
    return tuple(path for path, kind in kinds.items() if path not in whole and kind != "BOOLEAN"), whole
