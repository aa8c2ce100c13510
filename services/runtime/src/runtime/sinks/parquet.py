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
from functools import lru_cache
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
from runtime.sinks import BatchRef, Outcome, Source, Target, Writer
from runtime.values import zones

READ_RANK: Final = 1
_Asked: TypeAlias = spec_pb2.ParquetSink
_SUFFIX: Final = ".parquet"
_HELD_BYTES: Final = 64 * 1024 * 1024
"""Rows that are held until they are written, as Arrow has them: a file has a tenth of that, or less."""
_COUNTED: Final = 100_000
"""Files that a look at a table counts, to the end of an hour."""
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
    """A writer for one partition of one batch."""
    return ParquetWriter(target)


def commit(target: Target, batch: BatchRef, receipts: Sequence[bytes]) -> None:
    """Make the batch's manifest and have its files seen."""
    parts = (json.loads(text) for text in receipts)
    said = {"sink": target.name, **manifests.combine(parts)}
    Manifests(files.of(target.resolved), _owner(target)).commit(_batch(batch), said)


class ParquetWriter:
    """Holds the rows of a partition, and stages a file for each folder of them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._batch = _batch(target.writes.batch)
        self._attempt, self._tried = token_hex(4), 0
        self._is_decided: bool | None = None
        self._held: list[pa.Table] = []
        self._leaving: list[tuple[int, pa.Table]] = []
        self._staged: list[Manifest] = []
        self._extent = extent.unite(())

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Hold rows; those without a time are refused."""
        del batch_id
        check_texts(batch)  # one such text, and nobody can read the file
        table = _table(self._target)
        if self._is_decided is None:
            self._is_decided = table.is_decided(self._batch)
        if sum(table.nbytes for table in self._held) + batch.nbytes > _HELD_BYTES:
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
            self._held.append(rows)
        return Outcome(refused=refused)

    def finish(self) -> Outcome:
        """Stage what is held; the receipt says all that was."""
        if not self._held and not self._leaving and not self._staged:
            return Outcome()
        table = _table(self._target)
        self._stage(table)
        said = {"schema": table.version, **self._extent, "files": self._staged}
        return Outcome(receipt=json.dumps(said).encode())

    def _stage(self, table: _Table) -> None:
        """Write what is held. After an error it is asked again, and goes on where it was."""
        if self._held:
            self._leaving += parquet_file.by_hour(pa.concat_tables(self._held))
            self._held = []
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


class _Table:
    """A table as a worker knows it, for as long as it writes there."""

    def __init__(self, target: Target) -> None:
        self.files = files.of(target.resolved)
        asked = target.resolved.sink.parquet
        clock = zones.clock(asked.zone) if asked.zone != zone_names.UTC else None
        self.folders = Folders(asked.by, asked.per == _Asked.PER_DAY, clock.wall if clock else None)
        self.codec = _Asked.Codec.Name(asked.codec or _Asked.CODEC_ZSTD).removeprefix("CODEC_").lower()
        agreed = _agreed(self.files, target)
        self.version = agreed.version
        held = agreed.of(list(parquet_file.columns(target.layout)))
        own = parquet_file.types(target.layout, target.schema)
        wide = [_WIDE.get(column.type, kind) for column, kind in zip(held, own, strict=True)]
        named = pa.schema([(column.name, kind) for column, kind in zip(held, wide, strict=True)])
        self.schema = parquet_file.number_columns(named, [column.id for column in held])
        self._layout = target.layout
        self._manifests = Manifests(self.files, _owner(target))
        self._is_replay = target.is_replay
        self._before: tuple[str, list[Manifest]] = ("", [])

    def is_decided(self, batch: Batch) -> bool:
        """Whether an attempt before this one has written a batch."""
        return self._manifests.of(batch) is not None

    def is_new(self, batch: Batch, rows: pa.RecordBatch) -> pa.Array:
        """Which rows no query before this one has written."""
        if self._is_replay:
            return pa.repeat(True, rows.num_rows)
        if self._before[0] != batch.checkpoint:
            self._before = batch.checkpoint, self._manifests.last_of_others(batch)
        new = pa.repeat(True, rows.num_rows)
        for last in self._before[1]:
            before = Extent(windows_to=last["windows_to"], offsets=last["offsets"])
            new = pc.and_(new, pc.invert(extent.covers(self._layout, before, rows)))
        return new


def _table(target: Target) -> _Table:
    return _kept(replace(target, part=None))


@lru_cache(maxsize=16)
def _kept(target: Target) -> _Table:
    """A worker agrees on the columns once, not for each partition."""
    return _Table(target)


def _agreed(place: Files, target: Target) -> TableSchema:
    """The version of the table that has the columns of the rows. Raises: JobError (USER) where none can."""
    columns = parquet_file.columns(target.layout)
    fields = {
        column.name: field for column, field in zip(target.layout.columns, target.layout.fields, strict=False)
    }
    return tableschema.agree(place, f"the table {target.resolved.sink.parquet.table}", columns, fields)


def _owner(target: Target) -> str:
    """Whose the manifests and staged files are. A dagger and its replay write at once, and neither may settle
    what is the other's; no dagger's name has this sign.
    """
    return f"{target.dagger}~replay" if target.is_replay else target.dagger


def _batch(batch: BatchRef) -> Batch:
    return Batch.of(batch.checkpoint, batch.batch_id, batch.generation)


def _check_folders(place: Files, asked: _Asked) -> None:
    """Raise `JobError` where the table has others: readers of folders take tables of one depth alone."""
    for day in _folders(place, "", "dt=")[:1]:
        held, wanted = ("hour", "day") if asked.per == _Asked.PER_DAY else ("day", "hour")
        names = place.names(day)  # none, where a driver died that was to put the first there
        if any(name.startswith("hr=") if held == "hour" else name.endswith(_SUFFIX) for name in names):
            what = f"has a folder for each {held}: name another table for `per: {wanted}`"
            raise user("SINK_SCHEMA", f"The table {asked.table} {what}.")


def read(source: Source, wanted: Selection) -> list[Row]:
    """The newest rows: folder by folder, in each by their times."""
    place = files.of(source.resolved)
    return wanted.first(
        row for folder in _with_files(place) for row in _rows(place, folder) if wanted.wants(row)
    )


def archive(source: Source, most: int = _COUNTED) -> gateway_pb2.DescribeArchiveResponse:
    """How many files the table has, how large, and of which hours; the newest folders up to so many files."""
    place, asked = files.of(source.resolved), source.resolved.sink.parquet
    told = gateway_pb2.DescribeArchiveResponse(path=f"{asked.location}/{asked.table}")
    zone = zones.find(asked.zone) or UTC
    for folder in _with_files(place):
        kept = [file for file in place.files(folder) if file.name.endswith(_SUFFIX)]
        if not kept:
            continue
        if told.files >= most:
            told.more = True
            break
        told.files += len(kept)
        told.bytes += sum(file.size for file in kept)
        begins = zones.first_instant(parquet_file.begin_of(folder), zone)
        if not told.HasField("last_hour"):
            told.last_hour.FromSeconds(begins)
        told.first_hour.FromSeconds(begins)
        newest_of = max(file.written for file in kept)
        if not told.HasField("last_write") or newest_of > told.last_write.ToDatetime(UTC):
            told.last_write.FromDatetime(newest_of)
    return told


def _with_files(place: Files) -> Iterator[str]:
    """The folders that files are in, the newest first: those of hours, or of days."""
    for day in _folders(place, "", "dt="):
        hours = _folders(place, day, "hr=")
        yield from (f"{day}/{hour}" for hour in hours) if hours else (day,)


def _folders(place: Files, folder: str, begin: str) -> list[str]:
    return [name for name in reversed(place.names(folder)) if name.startswith(begin)]


def _rows(place: Files, hour: str) -> list[Row]:
    names = (name for name in place.names(hour) if name.endswith(_SUFFIX))
    texts = (place.get(f"{hour}/{name}") for name in names)
    return newest(row for text in texts if text for row in parquet_file.rows(text))
