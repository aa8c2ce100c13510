"""Append the rows of a partition to the log of a sink, in a worker, in place of writing them to the sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import uuid4

import pyarrow as pa

from runtime.encode.rows import Layout, keys
from runtime.errors import JobError
from runtime.sinks import Outcome
from runtime.spool.log import RECORD_BYTES, Log, Record
from runtime.spool.marker import SpooledPart

_RECORDS_AT_ONCE: Final = 8


class SpoolWriter:
    """Appends all rows of one partition, under an id of this attempt."""

    def __init__(self, log: Log, number: int) -> None:
        """number: of the partition."""
        self._log, self._number = log, number
        self._attempt = uuid4().hex
        self._pending: list[Record] = []
        self._records = self._rows = self._size = 0
        self._failure: JobError | None = None

    @property
    def part(self) -> SpooledPart:
        """Rows that were appended."""
        return SpooledPart(self._number, self._attempt, self._records, self._rows, self._size)

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Append rows; none is refused. Raises: JobError."""
        del batch_id
        for piece in split(batch):
            value = to_stream(piece)
            self._pending.append(Record(value, self._attempt))
            self._records, self._rows = self._records + 1, self._rows + piece.num_rows
            self._size += len(value)
            if len(self._pending) >= _RECORDS_AT_ONCE:
                self._flush()
        return Outcome()

    def finish(self) -> Outcome:
        """Return once all rows are durable in the log. Raises: JobError."""
        self._flush()
        return Outcome()

    def _flush(self) -> None:
        """Append what is pending. A failure is final: a repetition would append some of it twice."""
        if self._failure is not None:
            raise self._failure
        if not self._pending:
            return
        try:
            self._log.append(self._pending)
        except JobError as failure:
            self._failure = failure
            raise
        self._pending = []


def split(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces that are no larger than a record may be, or of one row each."""
    if batch.num_rows > 1 and batch.nbytes > RECORD_BYTES:  # of a slice its own rows
        half = batch.num_rows // 2
        yield from split(batch.slice(0, half))
        yield from split(batch.slice(half))
    elif batch.num_rows:
        yield batch


def select_newest(
    rows: Sequence[tuple[int, pa.RecordBatch]], layout: Layout
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield of each key the last row, in order. rows: each batch with a number of the caller's."""
    seen, newest = set[str](), list[tuple[int, pa.RecordBatch]]()
    for number, batch in reversed(rows):
        last_rows = []
        for row, key in reversed(list(enumerate(keys(layout, batch)))):
            if key not in seen:
                seen.add(key)
                last_rows.append(row)
        newest.append((number, batch.take(pa.array(last_rows[::-1], pa.int64()))))
    yield from reversed(newest)


def to_stream(batch: pa.RecordBatch) -> bytes:
    """Serialise rows with their schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def from_stream(value: bytes) -> Iterator[pa.RecordBatch]:
    """Yield the rows that `to_stream` serialised. Raises: pyarrow.ArrowException."""
    with pa.ipc.open_stream(value) as reader:
        yield from reader
