"""Decode records of one message type into Arrow columns.

ptars decodes an array of records at once. What it reads otherwise than Protobuf's own parser is marked by a
scan before (`scanning`), and parsed by that (`reference`); so is everything where ptars cannot read the
message, and where the scan was not built. ptars fails as a whole when one record has a text that is none, so
an array that fails is halved until such records stand alone: one among 10,000 costs some 13 extra passes over
ever smaller parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from ptars import HandlerPool, PtarsConfig

from runtime.decode import json_text, scanning
from runtime.decode.columns import (
    ColumnKind,
    FieldColumn,
    TimePart,
    arrow_schema,
    message_of,
    select,
    time_part,
)
from runtime.decode.pruning import prune
from runtime.decode.reference import ParsedRecords, ReferenceDecoder
from runtime.errors import user

_TIME = pa.timestamp("us", tz="UTC")
_SECOND_US = pa.scalar(1_000_000, pa.int64())
_CONFIG = PtarsConfig(
    enum_repr="string",
    timestamp_unit="us",
    duration_unit="us",
    list_value_name="element",
    list_value_nullable=True,
    map_value_nullable=True,
)


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """Columns of the records that decode, and what is wrong with the others.

    `columns` (one row for each record that is not broken, in order) and `rowtime` (timestamp[us, UTC], null
    where the record has no event time, or one beyond the range) have the same length; `broken` maps the index
    of each other record to the parser's message. `marks` has the bits to count for each row
    (`scanning.UNNAMED_ENUM`, `BEYOND_RANGE`), None where no row has any; `beyond` has seconds and nanos of
    event times beyond the range, by row.
    """

    columns: pa.RecordBatch
    rowtime: pa.TimestampArray
    broken: dict[int, str]
    marks: scanning.Marks | None
    beyond: dict[int, tuple[int, int]]


def message_pool(files: FileDescriptorSet) -> DescriptorPool:
    """Build a descriptor pool of its own with these files, which are in dependency order."""
    pool = DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def find_message(pool: DescriptorPool, name: str) -> Descriptor:
    """Return the descriptor of the message `name`; raises `JobError` (USER) when the pool has none."""
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        raise user("UNKNOWN_MESSAGE", f"The message {name} is not among the job's descriptors.") from None


class Decoder:
    """Decodes records of `message` into the columns of `paths`, and `time_field`, if any, into rowtime.

    A path to `seconds` or `nanos` of a single Timestamp or Duration (`seen:seconds`) is a column of that
    name, behind the others (`columns.TimePart`).
    """

    def __init__(
        self,
        message: Descriptor,
        paths: Iterable[str],
        time_field: str | None,
        library: scanning.Library | None = None,
    ) -> None:
        """Select the columns; `library` scans for irregular records: the one that was built, if any, by
        default.
        """
        parts, wanted = [], []
        for path in dict.fromkeys(paths):
            part = time_part(message, path)
            if part is None:
                wanted.append(path)
            else:
                parts.append(part)
        self.columns = select(message, wanted)
        self.parts = tuple(parts)
        self.schema = pa.schema(
            [*arrow_schema(self.columns), *(pa.field(part.path, part.type) for part in parts)]
        )
        # Times may be one of the columns, part of one, or none of them: they are decoded beside them.
        times = [".".join(part.time) for part in parts]
        wire = select(message, [*wanted, *times, *([time_field] if time_field else [])])
        self._reference = ReferenceDecoder(message, wire, self.columns, self.parts, time_field)
        library = library or scanning.load()
        self._bulk = (
            _Bulk(message, wire, self.columns, self.parts, time_field, library)
            if library is not None and scanning.is_bulk(wire)
            else None
        )

    def decode(self, values: pa.BinaryArray | Sequence[bytes]) -> DecodedRecords:
        """Decode `values`, each the bytes of one record, none of them NULL. Never raises for any bytes."""
        records = values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
        if self._bulk is None:
            return self._of(self._reference.parse(records.to_pylist()))
        marks = self._bulk.marks(records)
        irregular = [] if marks is None else np.flatnonzero(marks & scanning.IRREGULAR).tolist()
        if not irregular:
            try:
                columns, rowtime = self._bulk.decode(records)
            except ValueError:
                pass
            else:
                return DecodedRecords(self._batch(columns, rowtime), rowtime, {}, marks, {})
        return self._decode_mixed(records, marks, irregular)

    def _decode_mixed(
        self, records: pa.BinaryArray, marks: scanning.Marks | None, irregular: list[int]
    ) -> DecodedRecords:
        """Decode regular records in bulk and the others one by one, and put them in order."""
        assert self._bulk is not None
        regular = np.delete(np.arange(len(records)), irregular)
        singly, bulk = np.array(irregular, np.int64), regular
        try:
            columns, rowtime = self._bulk.decode(records.take(pa.array(bulk)))
        except ValueError:
            failing = self._failing(records.take(pa.array(regular)), 0)
            singly = np.sort(np.array([*irregular, *regular[list(failing)]], np.int64))
            bulk = np.setdiff1d(np.arange(len(records)), singly, assume_unique=True)
            columns, rowtime = self._bulk.decode(records.take(pa.array(bulk)))
        parsed = self._reference.parse(records.take(pa.array(singly)).to_pylist())
        sound = np.delete(singly, list(parsed.broken))
        all_marks = np.zeros(len(records), np.uint8) if marks is None else marks
        all_marks[sound] = parsed.marks
        places = np.concatenate([bulk, sound])
        order = pa.array(np.argsort(places))
        joined = [
            pa.chunked_array([one, other], one.type).combine_chunks().take(order)
            for one, other in zip([*columns, rowtime], [*parsed.columns, parsed.rowtime], strict=True)
        ]
        sound_places = np.sort(places)
        return DecodedRecords(
            self._batch(joined[:-1], joined[-1]),
            joined[-1],
            {int(singly[index]): why for index, why in parsed.broken.items()},
            all_marks[sound_places],
            {int(np.searchsorted(sound_places, sound[index])): time for index, time in parsed.beyond.items()},
        )

    def _failing(self, values: pa.BinaryArray, start: int) -> Iterator[int]:
        """Yield the index of each record that ptars fails at; `start` is the index of the first."""
        assert self._bulk is not None
        try:
            self._bulk.decode(values)
        except ValueError:
            if len(values) == 1:
                yield start
                return
            middle = len(values) // 2
            yield from self._failing(values[:middle], start)
            yield from self._failing(values[middle:], start + middle)

    def _of(self, parsed: ParsedRecords) -> DecodedRecords:
        marks = parsed.marks if parsed.marks.any() else None
        return DecodedRecords(
            self._batch(parsed.columns, parsed.rowtime), parsed.rowtime, parsed.broken, marks, parsed.beyond
        )

    def _batch(self, columns: list[pa.Array], rowtime: pa.Array) -> pa.RecordBatch:
        if not columns:
            # Arrow takes a batch's length from its columns: one without columns needs a stand-in.
            return _lengthless(len(rowtime))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class _Bulk:
    """Decodes with ptars the columns that `scanning.is_bulk` accepts."""

    def __init__(
        self,
        message: Descriptor,
        wire: tuple[FieldColumn, ...],
        columns: tuple[FieldColumn, ...],
        parts: tuple[TimePart, ...],
        time_field: str | None,
        library: scanning.Library,
    ) -> None:
        self._columns, self._parts = columns, parts
        self._decoded = {column.name: column for column in wire}
        pruned = prune(wire)
        self._names = {column.name: pruned.fields_by_number[column.field.number].name for column in wire}
        self._time_path = _path(message, pruned, time_field.split(".")) if time_field else []
        self._part_paths = [_path(message, pruned, part.time) for part in parts]
        self._handler = HandlerPool([pruned.file], config=_CONFIG).get_for_message(pruned)
        self._pool = message.file.pool
        self._renderers: dict[str, json_text.Render] = {}
        self._scanner = scanning.Scanner(library, wire)
        self.marks = self._scanner.marks

    def decode(self, values: pa.BinaryArray) -> tuple[list[pa.Array], pa.TimestampArray]:
        """Return columns and rowtime of regular records. Raises: ValueError for a text that is no UTF-8."""
        batch: pa.RecordBatch = self._handler.array_to_record_batch(values)
        rowtime = (
            follow(batch, self._time_path).cast(_TIME) if self._time_path else pa.nulls(batch.num_rows, _TIME)
        )
        arrays = [
            self._conform(batch.column(self._names[column.name]), self._decoded[column.name], column)
            for column in self._columns
        ]
        parts = [
            _part(follow(batch, path), part) for path, part in zip(self._part_paths, self._parts, strict=True)
        ]
        return [*arrays, *parts], rowtime

    def _conform(self, array: pa.Array, decoded: FieldColumn, wanted: FieldColumn) -> pa.Array:
        """Cast `array`, decoded as `decoded`, to the type of `wanted`; copy only where the bytes differ."""
        if array.type == wanted.type and wanted.kind is not ColumnKind.JSON and not wanted.has_defaults:
            return array
        if wanted.is_map:
            keys, items = (
                self._conform(part, below, child)
                for part, below, child in zip(
                    (array.keys, array.items), decoded.children, wanted.children, strict=True
                )
            )
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted.type)
        if wanted.field.is_repeated:
            values = self._conform_single(array.values, decoded, wanted, wanted.type.value_type)
            return pa.ListArray.from_arrays(array.offsets, values, type=wanted.type)
        return self._conform_single(array, decoded, wanted, wanted.type)

    def _conform_single(
        self, array: pa.Array, decoded: FieldColumn, wanted: FieldColumn, single: pa.DataType
    ) -> pa.Array:
        """Cast the values of a column to `single`, the type of one value."""
        if wanted.kind is ColumnKind.JSON:
            return self._json(array, message_of(wanted.field).full_name)
        if wanted.kind is not ColumnKind.STRUCT or not wanted.children:
            cast = array.cast(single)
            return cast if wanted.default is None else cast.fill_null(pa.scalar(wanted.default, single))
        # ptars has the fields of a message by their numbers, whatever the order of their declaration.
        by_number = sorted(decoded.children, key=lambda child: child.field.number)
        below = {child.name: (index, child) for index, child in enumerate(by_number)}
        parts = []
        for child in wanted.children:
            index, full = below[child.name]
            parts.append(self._conform(array.field(index), full, child))
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(single), mask=mask)

    def _json(self, array: pa.Array, message: str) -> pa.Array:
        if message not in self._renderers:
            self._renderers[message] = json_text.renderer(message, self._pool)
        render = self._renderers[message]
        try:
            texts = [None if data is None else render(data) for data in array.to_pylist()]
        except (DecodeError, RecursionError, UnicodeDecodeError) as problem:
            raise ValueError(f"failed to decode {message}: {problem}") from None
        return pa.array(texts, pa.string())


def follow(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """Return the column at a path, null wherever a message on the way is null."""
    array = batch.column(path[0])
    for name in path[1:]:
        array = pc.struct_field(array, name)
    return array


def _path(message: Descriptor, pruned: Descriptor, names: Sequence[str]) -> list[str]:
    """Return the names that the fields on a path through `message` have in `pruned`."""
    path = []
    for name in names:
        field = message.fields_by_name[name]
        pruned_field = pruned.fields_by_number[field.number]
        path.append(pruned_field.name)
        if field.message_type is not None and pruned_field.message_type is not None:
            message, pruned = field.message_type, pruned_field.message_type
    return path


def _part(times: pa.Array, part: TimePart) -> pa.Array:
    """Take a part of times in microseconds. Seconds of an instant are rounded down, of a span to zero."""
    micros = times.cast(pa.int64())
    seconds = pc.divide(micros, _SECOND_US)
    if not part.of_duration:
        below = pc.and_(pc.less(micros, 0), pc.not_equal(pc.multiply(seconds, _SECOND_US), micros))
        seconds = pc.subtract(seconds, below.cast(pa.int64()))
    if part.is_seconds:
        return seconds
    rest = pc.subtract(micros, pc.multiply(seconds, _SECOND_US))
    return pc.multiply(rest, 1000).cast(pa.int32())


def _lengthless(rows: int) -> pa.RecordBatch:
    """Build a batch of `rows` rows and no columns."""
    empty = pa.StructArray.from_arrays([pa.nulls(rows)], names=["_"])
    return pa.RecordBatch.from_struct_array(empty).select([])
