"""The sink `parquet`: rows become Parquet files, in folders by the hour or the day of their time.

Guarantee: exactly once. Workers stage files, which nobody sees; the driver makes one manifest for each
batch, and only what that names is seen. A batch that is repeated after a crash finds its manifest and writes
nothing, or finds none and is the first. After an edit, what the last batch before it wrote is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from secrets import token_hex
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from daggers.v1 import gateway_pb2, spec_pb2

from daggerspec import zones as zone_names
from daggerspec.row import Row
from daggerspec.selection import Selection
from runtime.clients import files, manifests, tableschema
from runtime.clients.files import Files
from runtime.clients.manifests import Batch, FileName, Manifest, Manifests
from runtime.clients.tableschema import TableSchema
from runtime.encode import extent, parquet_file
from runtime.encode.extent import Extent
from runtime.encode.parquet_file import Folders
from runtime.encode.readback import newest
from runtime.encode.rows import check_texts
from runtime.errors import TemporaryError, user
from runtime.recent import cache_in_use
from runtime.sinks import BatchRef, Outcome, Source, Target, Writer
from runtime.values import zones

READ_RANK: Final = 1
_Sink: TypeAlias = spec_pb2.ParquetSink
_SUFFIX: Final = ".parquet"
_HELD_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of rows that wait to be written, as Arrow has them: a file has a tenth of that, or less."""
_COUNTED: Final = 100_000
"""Most files that a description of a table counts, to the end of an hour."""
_WIDE: Final = {"smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64()}


def check(target: Target) -> None:
    """Agree on the columns; raise `JobError` for those that the table cannot take. Silence is none."""
    try:
        parquet_file.check_types(target.layout, target.no_rows)
    except pa.ArrowNotImplementedError as error:
        raise user("SINK_SCHEMA", f"Parquet has no form for a column of the query: {error}.") from error
    try:
        place = files.of(target.resolved)
        place.probe()
        _check_folders(place, target.resolved.sink.parquet)
        _agreed(place, target)
        Manifests(place, _owner(target)).settle()
    except TemporaryError:
        return


def probe(target: Target) -> None:
    """Raise `JobError` while no file can be written."""
    files.of(target.resolved).probe()


def open(target: Target) -> Writer:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    return ParquetWriter(target)


def commit(target: Target, batch: BatchRef, receipts: Sequence[bytes]) -> None:
    """Write the batch's manifest, which makes its files part of the table."""
    parts = (json.loads(text) for text in receipts)
    manifest = {"sink": target.name, **manifests.combine(parts)}
    Manifests(files.of(target.resolved), _owner(target)).commit(_batch(batch), manifest)


class ParquetWriter:
    """Collects the rows of a partition, and stages a file for each folder of them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._batch = _batch(target.writes.batch)
        self._attempt, self._tried = token_hex(4), 0
        self._is_decided: bool | None = None
        self._waiting: list[pa.Table] = []
        self._leaving: list[tuple[int, pa.Table]] = []
        self._staged: list[Manifest] = []
        self._extent = extent.unite(())

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Collect rows; those without a time are refused."""
        del batch_id
        check_texts(batch)  # one such text, and nobody can read the file
        table = _table(self._target)
        if self._is_decided is None:
            self._is_decided = table.is_decided(self._batch)
        if sum(table.nbytes for table in self._waiting) + batch.nbytes > _HELD_BYTES:
            self._stage(table)
        layout = self._target.layout
        rows = parquet_file.table(layout, batch, table.schema, table.folders)
        refused = parquet_file.untimely(
            rows, parquet_file.time_column(layout, batch.schema, table.folders.by)
        )
        if self._is_decided:  # what the attempt before refused may not be told yet
            return Outcome(refused=refused)
        wanted = table.is_new(self._batch, batch)
        if refused:
            untimely = pa.array([refusal.row for refusal in refused], pa.int64())
            wanted = pc.and_(wanted, pc.invert(pc.is_in(pa.array(range(batch.num_rows)), untimely)))
        if not pc.all(wanted).as_py():  # as a rule they are, and a filter copies
            rows, batch = rows.filter(wanted), batch.filter(wanted)
        if rows.num_rows:
            self._extent = extent.unite((self._extent, extent.of(layout, batch)))
            self._waiting.append(rows)
        return Outcome(refused=refused)

    def finish(self) -> Outcome:
        """Stage the rows that wait; the receipt lists all staged files."""
        if not self._waiting and not self._leaving and not self._staged:
            return Outcome()
        table = _table(self._target)
        self._stage(table)
        receipt = {"schema": table.version, **self._extent, "files": self._staged}
        return Outcome(receipt=json.dumps(receipt).encode())

    def _stage(self, table: _ParquetTable) -> None:
        """Write the rows that wait. Called again after an error, it goes on where it was."""
        if self._waiting:
            self._leaving += parquet_file.by_hour(pa.concat_tables(self._waiting))
            self._waiting = []
        while self._leaving:
            hour, rows = self._leaving[-1]
            part, self._tried = self._target.writes.number, self._tried + 1  # no try has another's name
            name = FileName(_owner(self._target), self._batch, part, self._tried, self._attempt)
            path = f"{table.folders.name(hour)}/{name}"
            content = parquet_file.content(rows, table.codec)
            least, most = pc.min_max(rows[parquet_file.TIME]).values()
            self._staged.append(
                {
                    "path": path,
                    "staged": table.files.stage(path, content),
                    "rows": rows.num_rows,
                    "bytes": content.size,
                    "from": least.as_py().isoformat(),
                    "to": most.as_py().isoformat(),
                }
            )
            self._leaving.pop()


class _ParquetTable:
    """A table as a worker knows it, for as long as it writes there."""

    def __init__(self, target: Target) -> None:
        self.files = files.of(target.resolved)
        sink = target.resolved.sink.parquet
        clock = zones.clock(sink.zone) if sink.zone != zone_names.UTC else None
        self.folders = Folders(sink.by, sink.per == _Sink.PER_DAY, clock.wall if clock else None)
        self.codec = _Sink.Codec.Name(sink.codec or _Sink.CODEC_ZSTD).removeprefix("CODEC_").lower()
        agreed = _agreed(self.files, target)
        self.version = agreed.version
        columns = agreed.of(list(parquet_file.columns(target.layout)))
        own = parquet_file.types(target.layout, target.schema)
        wide = [_WIDE.get(column.type, kind) for column, kind in zip(columns, own, strict=True)]
        named = pa.schema([(column.name, kind) for column, kind in zip(columns, wide, strict=True)])
        self.schema = parquet_file.number_columns(named, [column.id for column in columns])
        self._layout = target.layout
        self._manifests = Manifests(self.files, _owner(target))
        self._is_replay = target.is_replay
        self._before: tuple[str, list[Manifest]] = ("", [])

    def is_decided(self, batch: Batch) -> bool:
        """Tell whether an attempt before this one has written a batch."""
        return self._manifests.of(batch) is not None

    def is_new(self, batch: Batch, rows: pa.RecordBatch) -> pa.Array:
        """Mark the rows that no query before this one has written."""
        if self._is_replay:
            return pa.repeat(True, rows.num_rows)
        if self._before[0] != batch.checkpoint:
            self._before = batch.checkpoint, self._manifests.last_of_others(batch)
        new = pa.repeat(True, rows.num_rows)
        for last in self._before[1]:
            before = Extent(windows_to=last["windows_to"], offsets=last["offsets"])
            new = pc.and_(new, pc.invert(extent.covers(self._layout, before, rows)))
        return new


def _table(target: Target) -> _ParquetTable:
    return _open_table(replace(target, part=None))


@cache_in_use
def _open_table(target: Target) -> _ParquetTable:
    """Open a table: a worker agrees on the columns once, not for each partition."""
    return _ParquetTable(target)


def _agreed(place: Files, target: Target) -> TableSchema:
    """Agree on a version of the table with the columns of the rows. Raises: JobError (USER) if none is."""
    columns = parquet_file.columns(target.layout)
    fields = {
        column.name: field for column, field in zip(target.layout.columns, target.layout.fields, strict=False)
    }
    return tableschema.agree(place, f"the table {target.resolved.sink.parquet.table}", columns, fields)


def _owner(target: Target) -> str:
    """Name the owner of manifests and staged files.

    A dagger and its replay write at once, and neither may settle what is the other's; no dagger's name has
    this sign.
    """
    return f"{target.dagger}~replay" if target.is_replay else target.dagger


def _batch(batch: BatchRef) -> Batch:
    return Batch.of(batch.checkpoint, batch.batch_id, batch.generation)


def _check_folders(place: Files, sink: _Sink) -> None:
    """Raise `JobError` where the table has others: readers of folders take tables of one depth alone."""
    for day in _folders(place, "", "dt=")[:1]:
        present, wanted = ("hour", "day") if sink.per == _Sink.PER_DAY else ("day", "hour")
        names = place.names(day)  # none, where a driver died that was to put the first there
        if any(name.startswith("hr=") if present == "hour" else name.endswith(_SUFFIX) for name in names):
            problem = f"has a folder for each {present}: name another table for `per: {wanted}`"
            raise user("SINK_SCHEMA", f"The table {sink.table} {problem}.")


def read(source: Source, wanted: Selection) -> list[Row]:
    """Read the newest rows: folder by folder, in each by their times."""
    place = files.of(source.resolved)
    return wanted.first(
        row for folder in _with_files(place) for row in _rows(place, folder) if wanted.wants(row)
    )


def archive(source: Source, most: int = _COUNTED) -> gateway_pb2.DescribeArchiveResponse:
    """Describe the table's files: their count, size and hours; the newest folders up to `most` files."""
    place, sink = files.of(source.resolved), source.resolved.sink.parquet
    description = gateway_pb2.DescribeArchiveResponse(path=f"{sink.location}/{sink.table}")
    zone = zones.find(sink.zone) or UTC
    for folder in _with_files(place):
        visible = [file for file in place.files(folder) if file.name.endswith(_SUFFIX)]
        if not visible:
            continue
        if description.files >= most:
            description.more = True
            break
        description.files += len(visible)
        description.bytes += sum(file.size for file in visible)
        begins = zones.first_instant(parquet_file.begin_of(folder), zone)
        if not description.HasField("last_hour"):
            description.last_hour.FromSeconds(begins)
        description.first_hour.FromSeconds(begins)
        newest_write = max(file.written for file in visible)
        if not description.HasField("last_write") or newest_write > description.last_write.ToDatetime(UTC):
            description.last_write.FromDatetime(newest_write)
    return description


def _with_files(place: Files) -> Iterator[str]:
    """Yield the folders that files are in, the newest first: those of hours, or of days."""
    for day in _folders(place, "", "dt="):
        hours = _folders(place, day, "hr=")
        yield from (f"{day}/{hour}" for hour in hours) if hours else (day,)


def _folders(place: Files, folder: str, begin: str) -> list[str]:
    return [name for name in reversed(place.names(folder)) if name.startswith(begin)]


def _rows(place: Files, hour: str) -> list[Row]:
    names = (name for name in place.names(hour) if name.endswith(_SUFFIX))
    texts = (place.get(f"{hour}/{name}") for name in names)
    return newest(row for text in texts if text for row in parquet_file.rows(text))
