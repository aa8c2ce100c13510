"""Take the rows of a preview's batch in its workers: the first go at once, and all are counted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
from daggers.v1 import gateway_pb2
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from daggersql import Role
from runtime.encode.json_text import KEY, VALUE, join_members, texts
from runtime.encode.readback import from_columns, from_json
from runtime.encode.rows import Layout
from runtime.launch.wholeness import lacks_records
from runtime.preview.rowfiles import RowFiles
from runtime.preview.rules import NO_RULES, PartRules, SelectedRules
from runtime.source.status import Gap

PARTIAL = "__partial"
STEP_BYTES = 512 * 1024
STEP_ROWS = 500
"""Few enough that the first are shown soon."""
_SERIES = 100_000
_HASH = 8
SCHEMA = pa.schema(
    [
        ("rows", pa.int64()),
        ("whole", pa.int64()),
        ("series", pa.binary()),
        ("ruled", pa.list_(pa.binary())),
        ("nearest", pa.string()),
    ]
)
TAKEN = "rows bigint, whole bigint, series binary, ruled array<binary>, nearest string"


def mark_partial(rows: DataFrame, gaps: Sequence[Gap], lookahead: timedelta, *, closing: bool) -> DataFrame:
    """Add a column that is true for rows of partial windows.

    The range begins or ends in them, or Kafka has deleted some of their records. `closing`: no record has
    closed the windows of these rows.
    """
    lacking = None if closing else lacks_records(rows, gaps, lookahead)
    return rows.withColumn(PARTIAL, F.lit(closing) if lacking is None else lacking)


@dataclass(frozen=True, slots=True)
class Take:
    """Function that Spark calls with the rows of one partition. Picklable."""

    layout: Layout
    out: RowFiles
    """Takes rows, as many as there is room for."""
    rules: SelectedRules = NO_RULES
    """Alert rules, in the order of their columns."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one line of `SCHEMA`: the counts of all rows and of those of whole windows, series, and what
        alert rules see of whole windows.
        """
        writer, count, whole, series = self.out.writer(), 0, 0, set[bytes]()
        rules = PartRules(self.rules)
        for batch in batches:  # to the end, whatever is taken: Spark's state depends on it
            count += batch.num_rows
            if self.rules.selected:
                rules.add(batch.filter(pc.invert(batch.column(PARTIAL))))
            whole += batch.num_rows - (pc.sum(batch.column(PARTIAL)).as_py() or 0)
            self._add_series(series, batch)
            for begin in range(0, batch.num_rows, STEP_ROWS):
                if not writer.takes:
                    break
                for step in self._steps(batch.slice(begin, STEP_ROWS)):
                    writer.put(step)
        ruled, nearest = rules.finish()
        line = {
            "rows": count,
            "whole": whole,
            "series": b"".join(series),
            "ruled": ruled,
            "nearest": nearest,
        }
        yield pa.RecordBatch.from_pylist([line], schema=SCHEMA)

    def _steps(self, batch: pa.RecordBatch) -> Iterator[gateway_pb2.PreviewRows]:
        """Yield the rows in messages, each of whole windows or of partial ones."""
        columns = [
            (column.name, texts(values, KEY if column.role is Role.TAG else VALUE))
            for column, values in self.layout.visible(batch)
        ]
        flags = batch.column(batch.schema.get_field_index(PARTIAL)).to_pylist()
        step, size = gateway_pb2.PreviewRows(), 0
        for text, partial in zip(join_members(columns), flags, strict=True):
            row = from_columns(from_json(text)).to_proto()
            if step.rows and (step.partial != partial or size + row.ByteSize() > STEP_BYTES):
                yield step
                step, size = gateway_pb2.PreviewRows(), 0
            step.partial = partial
            step.rows.append(row)
            size += row.ByteSize()
        if step.rows:
            yield step

    def _add_series(self, series: set[bytes], batch: pa.RecordBatch) -> None:
        tags = [values for column, values in self.layout.visible(batch) if column.role is Role.TAG]
        if tags and len(series) < _SERIES:
            names = set(map(",".join, zip(*(texts(values, KEY) for values in tags), strict=True)))
            series.update(hashlib.blake2b(text.encode(), digest_size=_HASH).digest() for text in names)


def series_of(content: bytes) -> set[bytes]:
    """Split the hashes of series that a worker sends."""
    return {content[begin : begin + _HASH] for begin in range(0, len(content), _HASH)}
