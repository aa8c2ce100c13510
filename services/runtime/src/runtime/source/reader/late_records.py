"""Write late records to the sink that a dagger keeps them in, from the tasks that read them.

Each is written as it was read, with the first window that it is missing from, before the task ends: a batch
that is repeated writes them again, under the same ids (`daggers_id`). What the sink refuses is quarantined.
While the sink is away the task waits, and with it the batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
from daggers.v1 import spec_pb2

from chassis.logging import logger
from daggerspec import late, query
from daggerspec.columns import KEY, RECORD_TIME, Column, Role
from runtime import sinks
from runtime.encode.rows import Layout
from runtime.errors import JobError, TemporaryError, external
from runtime.sinks import Outcome, Target
from runtime.source.offsets import Partition
from runtime.source.reader.control_rows import TIME, Reason
from runtime.source.reader.marks import times_of
from runtime.source.reader.rows import QuarantinedRecord
from runtime.source.records import HEADERS, Ints, Records
from runtime.source.watermark import Lateness

OFFSET: Final = "__offset"
"""Column by which a row is found among the records of its partition."""
PATIENCE_S: Final = 120.0
"""Time for which the sink may be away before the driver ends; its next launch repeats the batch."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_BYTES: Final = 8 * 2**20
"""Values and keys that wait to be written together."""
_TYPES: Final = {"value": pa.binary(), "key": pa.binary(), "headers": HEADERS}
_KEYS: Final = (("0", pa.string()), ("1", pa.int32()), ("2", pa.int64()))
_SCHEMA: Final = pa.schema([
    *(pa.field(name, _TYPES[name]) for name in query.RECORD_COLUMNS),
    pa.field(RECORD_TIME, TIME),
    *(pa.field(f"{KEY}{number}", type_) for number, type_ in _KEYS),
])  # fmt: skip
_LAYOUT: Final = Layout(
    tuple(Column(name, Role.FIELD, name, "") for name in query.RECORD_COLUMNS),
    (RECORD_TIME, *(f"{KEY}{number}" for number, _ in _KEYS)),
    has_records=True,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def late_target(dagger: str, sink: bytes) -> Target:
    """Build the target of a dagger's late records. sink: a serialised `ResolvedSink`."""
    return Target(dagger, sink, _LAYOUT, _SCHEMA, b"", updates=False)


def find_sink(spec: spec_pb2.JobSpec) -> bytes:
    """Return the serialised `ResolvedSink` that takes late records; empty where they are dropped."""
    takers = [sink for sink in spec.sinks if late.takes_late(spec.spec, sink.sink)]
    return takers[0].SerializeToString(deterministic=True) if takers else b""


@dataclass(slots=True)
class LateRecords:
    """The late records of one task, until they are written."""

    target: Target
    lateness: Lateness
    _waiting: list[tuple[pa.RecordBatch, Records, Partition]] = field(default_factory=list)
    _bytes: int = 0

    def add(
        self, rows: pa.RecordBatch, records: Records, partition: Partition
    ) -> Iterator[tuple[QuarantinedRecord, Partition]]:
        """Take the late ones among rows made of these records; yield the records that the sink refuses.

        rows: with the column OFFSET. Raises: JobError.
        """
        times = np.asarray(times_of(rows))
        if not len(times) or int(times.min()) >= self.lateness.first_on_time_us:
            return
        [window], [missed] = self.lateness.windows, self.lateness.count_missed(times)
        places = np.flatnonzero(missed)
        if not len(places):
            return
        offsets = np.asarray(rows.column(OFFSET))[places]
        times, missed = times[places], missed[places]
        chosen = records.take(np.searchsorted(records.offsets, offsets))
        starts = window.earliest_starts_us(times)
        ends = starts + window.size * 1000
        headers = [
            _headers(partition, *numbers)
            for numbers in zip(offsets.tolist(), starts.tolist(), ends.tolist(), missed.tolist(), strict=True)
        ]
        batch = _batch(chosen, partition, times, headers)
        self._waiting.append((batch, chosen, partition))
        self._bytes += batch.nbytes
        if self._bytes >= _BYTES:
            yield from self.flush()

    def flush(self) -> Iterator[tuple[QuarantinedRecord, Partition]]:
        """Write what waits; yield the records that the sink refuses. Raises: JobError."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        places = [(some, index, partition) for _, some, partition in waiting for index in range(len(some))]
        batch = pa.Table.from_batches([batch for batch, _, _ in waiting]).combine_chunks().to_batches()[0]
        for refusal in _write(self.target, batch).refused:
            records, index, partition = places[refusal.row]
            detail = f"It was late, and {self.target.name} refuses it: {refusal.detail}"
            yield QuarantinedRecord(records, index, Reason.LATE_REFUSED, detail), partition


def _headers(
    partition: Partition, offset: int, start_us: int, end_us: int, missed: int
) -> list[dict[str, object]]:
    """Write the headers of a late record: its place, the first window that it misses, and their number."""
    headers = {
        late.WINDOW_START: _iso(start_us),
        late.WINDOW_END: _iso(end_us),
        late.MISSED: str(missed),
        late.RECORD: f"{partition}/{offset}",
    }
    return [{"key": name, "value": text.encode()} for name, text in headers.items()]


def _iso(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


def _batch(
    records: Records, partition: Partition, times: Ints, headers: Sequence[list[dict[str, object]]]
) -> pa.RecordBatch:
    """Make the rows of late records, which have the columns of records that are passed on."""
    columns = {
        "value": records.values,
        "key": records.keys,
        "headers": pa.array(headers, HEADERS),
        RECORD_TIME: pa.array(times).cast(TIME),
        f"{KEY}0": pa.repeat(pa.scalar(partition.topic), len(records)),
        f"{KEY}1": pa.repeat(pa.scalar(partition.number, pa.int32()), len(records)),
        f"{KEY}2": pa.array(records.offsets),
    }
    return pa.RecordBatch.from_arrays([columns[column.name] for column in _SCHEMA], schema=_SCHEMA)


def _write(target: Target, batch: pa.RecordBatch) -> Outcome:
    """Write late records, retrying while their sink is away. Raises: JobError where that exceeds the
    patience, or the driver has to end.
    """
    writer, pause_s, end = sinks.open_writer(target), _FIRST_PAUSE_S, time.monotonic() + PATIENCE_S
    while True:
        try:
            return writer.write(batch, -1)
        except JobError as trouble:
            if not trouble.error.retryable:
                raise
            after = trouble.retry_after if isinstance(trouble, TemporaryError) else None
            pause_s = min(max(pause_s * 2, after or 0), _LONGEST_PAUSE_S)
            if time.monotonic() + pause_s > end:
                raise external(
                    "LATE_SINK_UNAVAILABLE",
                    f"{target.name} has not taken {batch.num_rows} late records for {PATIENCE_S:.0f} s:"
                    f" {trouble.error.detail} The batch is repeated when the driver is started again.",
                    retryable=True,
                ) from trouble
            logger().warning(
                "late.write_delayed", sink=target.name, waiting=batch.num_rows, detail=trouble.error.detail
            )
            time.sleep(pause_s)
