"""Make the rows that a task gives Spark: one for each record, or partial aggregates of records that agree.

Pre-aggregation (`daggersql.PartialAggregation`) applies to single-stream TUMBLE and HOP aggregations that use
only COUNT, SUM, AVG, MIN and MAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daggersql import Call, Constant, Field, Part, Partial, PartialAggregation, Value, exact
from runtime import functions
from runtime.decode.decoder import follow
from runtime.source.reader.control_rows import ROWTIME, STATISTICS, TIME, RangeStatistics, with_statistics
from runtime.source.reader.marks import NO_MARKS, Marks
from runtime.values.invalid_input import invalid_rows

# Bytes that are aggregated at a time, of records as of groups: some hundred thousand of a few short keys.
_BYTES = 16 * 2**20
# The first records are aggregated by themselves, to see whether it is worth it.
_FIRST = 10_000
# Above so many groups for each record it costs more than it saves.
_WORTH = 0.9
_MOST = 2**63 - 1
_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}


class RowOutput(Protocol):
    """RowOutput of one task. `schema` is that of its rows, control rows included."""

    schema: pa.Schema

    def add(self, records: pa.RecordBatch, statistics: RangeStatistics) -> Iterator[pa.RecordBatch]:
        """Take decoded records; yield the rows that are ready."""

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that were waiting for more records."""


def output(
    records: pa.Schema,
    partial: PartialAggregation | None,
    marks: Marks = NO_MARKS,
) -> RowOutput:
    """Make the output of a task that reads records of this schema; its rows have `marks`."""
    return EachRecord(records, marks) if partial is None else PreAggregation(records, partial, marks)


class EachRecord:
    """Makes a row of every record."""

    def __init__(self, records: pa.Schema, marks: Marks = NO_MARKS) -> None:
        self._marks = marks
        self.schema = with_statistics([*records, *marks.fields])

    def add(self, records: pa.RecordBatch, statistics: RangeStatistics) -> Iterator[pa.RecordBatch]:
        """Yield the records with empty statistics."""
        no_statistics = pa.nulls(len(records), self.schema.field(STATISTICS).type)
        columns = [*records.columns, *self._marks.of(records), no_statistics]
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield nothing: no record waits."""
        return iter(())


class PreAggregation:
    """Makes a row of all records of a pane that agree in the keys; see `daggersql.PartialAggregation`.

    Where hardly any agree, each record is a row, which means the same. Records are aggregated in pieces that
    are cut by what has come since the task began, never by how it came: Kafka hands over the same records in
    other portions each time, and a batch that is repeated has to give the same rows. Groups of several pieces
    are aggregated again, as long as that makes fewer of them.

    Keys that are text made of a number are that number (`codes` of a function) until they are handed on.
    """

    def __init__(self, records: pa.Schema, partial: PartialAggregation, marks: Marks = NO_MARKS) -> None:
        self._partial, self._marks = partial, marks
        self._pane_us = partial.pane // timedelta(microseconds=1)
        self._keys = [f"c{number}" for number in range(len(partial.keys))]
        self._partials = [f"p{number}" for number in range(len(partial.partials))]
        # More than one partial may be of one value.
        self._values = list(dict.fromkeys(aggregate.value for aggregate in partial.partials))
        self.schema = with_statistics(
            [
                pa.field(ROWTIME, TIME),
                *(
                    pa.field(name, _type(value, records))
                    for name, value in zip(self._keys, partial.keys, strict=True)
                ),
                *(
                    pa.field(name, _TYPES[aggregate.type])
                    for name, aggregate in zip(self._partials, partial.partials, strict=True)
                ),
                pa.field("n", pa.int64()),
                *marks.fields,
            ],
            partial.computed,
        )
        calls = {
            name: key for name, key in zip(self._keys, partial.keys, strict=True) if isinstance(key, Call)
        }
        self._texts = {name: text for name, key in calls.items() if (text := _text(key)) is not None}
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._groups: list[pa.RecordBatch] = []
        self._agree: bool | None = None

    def add(self, records: pa.RecordBatch, statistics: RangeStatistics) -> Iterator[pa.RecordBatch]:
        """Yield rows, once there are enough records."""
        left = self._compute_columns(records, statistics)
        while len(left):
            if self._agree is False:
                yield self._single(left)
                return
            count, full = self._room(left)
            self._waiting.append(left.slice(0, count))
            left = left.slice(count)
            if full:
                yield from self._piece()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the records since the last ones."""
        yield from self._piece()
        yield from map(self._rows, self._merge())
        self._groups = []

    def _piece(self) -> Iterator[pa.RecordBatch]:
        """Aggregate what is waiting; yield rows, where too much would wait."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not waiting:
            return
        # In one chunk: the order in which Arrow gives groups depends on where chunks begin. It costs 3 ns a
        # record, and saves more where there are many groups.
        records = pa.Table.from_batches(waiting).combine_chunks()
        if not self._fits(records, [self._name(partial) for partial in self._partial.partials]):
            yield from map(self._single, waiting)
            return
        groups = self._aggregate(records)
        self._agree = len(groups) <= _WORTH * len(records)
        self._groups.append(groups)
        if self._agree and sum(int(_sizes(group).sum()) for group in self._groups) < _BYTES:
            return
        self._groups = self._merge()
        if not self._agree or sum(int(_sizes(group).sum()) for group in self._groups) > _BYTES // 2:
            yield from map(self._rows, self._groups)
            self._groups = []

    def _merge(self) -> list[pa.RecordBatch]:
        """Merge the groups of all pieces, those that agree into one where they can be added up."""
        if len(self._groups) < 2:
            return self._groups
        groups = pa.Table.from_batches(self._groups).combine_chunks()
        if not self._fits(groups, self._partials):
            return self._groups
        again = [
            "sum" if partial.function == "count" else partial.function for partial in self._partial.partials
        ]
        functions = [*zip(self._partials, again, strict=True)]
        by_keys = pa.TableGroupBy(groups, [ROWTIME, *self._keys], use_threads=False)
        table = by_keys.aggregate([*functions, ("n", "sum")])
        return [self._to_groups(table, functions, table.column("n_sum"))]

    def _room(self, records: pa.RecordBatch) -> tuple[int, bool]:
        """Return how many of these records the waiting piece takes, and whether it is full then."""
        after = self._waiting_bytes + np.cumsum(_sizes(records))
        count = int(np.searchsorted(after, _BYTES)) + 1
        if self._agree is None:
            count = min(count, _FIRST - sum(map(len, self._waiting)))
        if count > len(records):
            self._waiting_bytes = int(after[-1])
            return len(records), False
        return count, True

    def _compute_columns(self, records: pa.RecordBatch, statistics: RangeStatistics) -> pa.RecordBatch:
        """Compute pane, keys and values of each record."""
        computed: dict[Value, pa.Array] = {}
        micros = np.asarray(records.column(ROWTIME).cast(pa.int64()))
        # The first instant of a pane may be before all that 64 bits can tell: it must not move event time.
        panes = pa.array(np.minimum(micros - micros % self._pane_us, micros)).cast(TIME)
        values = [*self._partial.keys, *self._values]
        names = [ROWTIME, *self._keys, *(f"v{number}" for number in range(len(self._values)))]
        return pa.RecordBatch.from_arrays(
            [panes, *(_compute(value, records, computed, statistics) for value in values)], names
        )

    def _fits(self, rows: pa.Table, names: Sequence[str]) -> bool:
        """Tell whether no sum of whole numbers, in the column of each partial, can be beyond 64 bits."""
        for name, partial in zip(names, self._partial.partials, strict=True):
            if (partial.function, partial.type) == ("sum", "bigint"):
                ends = pc.min_max(rows.column(name)).as_py().values()
                if max(abs(end or 0) for end in ends) * len(rows) > _MOST:
                    return False
        return True

    def _aggregate(self, records: pa.Table) -> pa.RecordBatch:
        functions = [(self._name(partial), partial.function) for partial in self._partial.partials]
        by_keys = pa.TableGroupBy(records, [ROWTIME, *self._keys], use_threads=False)
        table = by_keys.aggregate([*functions, ([], "count_all")])
        return self._to_groups(table, functions, table.column("count_all"))

    def _to_groups(
        self, table: pa.Table, functions: Sequence[tuple[str, str]], counts: pa.ChunkedArray
    ) -> pa.RecordBatch:
        """Name the columns of groups as they wait: keys, partials and the count of their records."""
        partials = [table.column(f"{name}_{function}") for name, function in functions]
        columns = [*(table.column(name) for name in (ROWTIME, *self._keys)), *partials, counts]
        return pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in columns], [ROWTIME, *self._keys, *self._partials, "n"]
        )

    def _single(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """Make a row of each record, as the sum of itself."""
        partials = []
        for partial in self._partial.partials:
            value = records.column(self._name(partial))
            partials.append(pc.is_valid(value) if partial.function == "count" else value)
        keys = [records.column(name) for name in (ROWTIME, *self._keys)]
        columns = [*keys, *partials, pa.repeat(pa.scalar(1), len(records))]
        return self._rows(pa.RecordBatch.from_arrays(columns, [ROWTIME, *self._keys, *self._partials, "n"]))

    def _rows(self, groups: pa.RecordBatch) -> pa.RecordBatch:
        """Convert groups to Spark's rows."""
        arrays = []
        for name, column in zip(groups.schema.names, groups.columns, strict=True):
            given = self._texts[name](column) if name in self._texts else column
            arrays.append(given.cast(self.schema.field(name).type))
        arrays += self._marks.of(groups)
        arrays.append(pa.nulls(len(groups), self.schema.field(STATISTICS).type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _name(self, partial: Partial) -> str:
        return f"v{self._values.index(partial.value)}"


def _compute(
    value: Value, records: pa.RecordBatch, computed: dict[Value, pa.Array], statistics: RangeStatistics
) -> pa.Array:
    """Compute the value of each record. Counts what functions could not use, once for each of them."""
    if value not in computed:
        match value:
            case Field(path=path):
                computed[value] = follow(records, path.split("."))
            case Call(function=function, arguments=arguments, takes=takes):
                given = tuple(
                    pa.repeat(pa.scalar(argument.value, _TYPES[to]), len(records))
                    if isinstance(argument, Constant)
                    else _compute(argument, records, computed, statistics).cast(_TYPES[to], safe=False)
                    for argument, to in zip(arguments, takes, strict=True)
                )
                loaded = functions.load(function)
                computed[value] = getattr(loaded, "codes", loaded.compute)(*given)
                statistics.invalid_inputs[function] += invalid_rows(given, computed[value])
            case Part(of=of):
                parts = _parts(_compute(of, records, computed, statistics).cast(pa.float64()))
                computed |= {Part(of, number): part for number, part in enumerate(parts)}
    return computed[value]


def _parts(numbers: pa.Array) -> list[pa.Array]:
    """Split numbers into all their parts, like `exact.part` in SQL."""
    rounded = [pc.subtract(pc.add(numbers, rounder), rounder) for rounder in exact.ROUNDERS]
    parts = [pc.subtract(finer, coarser) for coarser, finer in pairwise([*rounded, numbers])]
    if not pc.all(pc.is_finite(numbers)).as_py():
        parts = [pc.if_else(pc.is_nan(part), 0.0, part) for part in parts]
    return [rounded[0], *parts]


def _text(call: Call) -> Callable[[pa.Array], pa.Array] | None:
    """Return the function that makes texts of the numbers in their place; None where none are."""
    loaded = functions.load(call.function)
    return loaded.text if hasattr(loaded, "codes") else None


def _type(value: Value, records: pa.Schema) -> pa.DataType:
    if isinstance(value, Call):
        return _TYPES[value.type]
    assert isinstance(value, Field)
    first, *fields = value.path.split(".")
    kind = records.field(first).type
    for name in fields:
        kind = kind.field(name).type
    return kind


def _sizes(records: pa.RecordBatch) -> np.ndarray:
    """Return the bytes of each record, the same however the records are cut into batches."""
    sizes = np.full(len(records), 8 * records.num_columns)
    for column in records.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            sizes += np.asarray(pc.binary_length(column).fill_null(0))
    return sizes
