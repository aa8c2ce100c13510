"""Writes one partition of a batch to all sinks, inside a Python worker, and reports in a few rows.

The rows pass once, whatever the number of sinks: each Arrow batch goes to every sink in turn. A sink that
does not take rows just now is tried for a few seconds here, then given up for this attempt; the driver sees
why and comes again, for the sinks and partitions that are still open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
from daggers.v1 import spec_pb2, telemetry_pb2
from pyspark import TaskContext

from runtime.encode import json_text, rows
from runtime.encode.rows import Refusal
from runtime.errors import TemporaryError
from runtime.kafka import client_properties
from runtime.quarantine import Quarantine
from runtime.sinks import Outcome, Target, Writer, open_writer

# What a worker reports, as Spark and as Arrow see it.
REPORT = "partition bigint, sink bigint, kind string, reason string, text string, rows bigint"
_REPORT = pa.schema(
    [
        ("partition", pa.int64()),
        ("sink", pa.int64()),
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("text", pa.string()),
        ("rows", pa.int64()),
    ]
)
WRITTEN, REFUSED, PRINTED, TROUBLE = "written", "refused", "printed", "trouble"
_PARTITION, _OFFSET = 1, 2  # places in the key of a forwarded record
_PATIENCE_S = 5.0
_FIRST_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to write a batch. Picklable; called by Spark with the rows of one partition."""

    targets: tuple[Target, ...]
    generation: int
    platform: bytes
    """A serialised `KafkaAddress`: where refused rows are set aside."""
    batch_id: int
    done: frozenset[tuple[int, int]]
    """(partition, sink) pairs that earlier attempts have finished."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the partition; yields one Arrow batch of report rows."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        open_sinks = [
            _Sink(at, target, open_writer(target))
            for at, target in enumerate(self.targets)
            if (partition, at) not in self.done
        ]
        for batch in batches:  # read to the end even when no sink takes rows: Spark's state depends on it
            for sink in open_sinks:
                sink.write(batch, self.batch_id)
        self._set_aside(open_sinks)
        lines = [line for sink in open_sinks for line in sink.report()]
        yield pa.RecordBatch.from_pylist([{"partition": partition, **line} for line in lines], schema=_REPORT)

    def _set_aside(self, sinks: list[_Sink]) -> None:
        """Write what finished sinks refused to the quarantine topic, before it counts as done."""
        records = [record for sink in sinks if sink.trouble is None for record in sink.set_aside]
        if not records:
            return
        quarantine = _quarantine(self.platform)
        for record in records:
            record.generation = self.generation
            quarantine.put(record)
        quarantine.flush()


@dataclass(slots=True)
class _Sink:
    """One sink while a partition is written to it."""

    at: int
    target: Target
    writer: Writer
    written: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    set_aside: list[telemetry_pb2.Quarantined] = field(default_factory=list)
    trouble: TemporaryError | None = None

    def write(self, batch: pa.RecordBatch, batch_id: int) -> None:
        """Write one Arrow batch, unless this sink is in trouble already."""
        if self.trouble is not None or batch.num_rows == 0:
            return
        try:
            outcome = _patiently(lambda: self.writer.write(batch, batch_id))
        except TemporaryError as trouble:
            self.trouble = trouble
            return
        self.written += batch.num_rows - len(outcome.refused)
        self.printed += outcome.printed
        for refusal in outcome.refused:
            self.refused[refusal.reason] = self.refused.get(refusal.reason, 0) + 1
            self.set_aside.append(quarantined(self.target, batch, refusal))

    def report(self) -> list[Mapping[str, Any]]:
        """The report rows of this sink: what it did, or why it must be tried again."""
        if self.trouble is not None:
            error = self.trouble.error
            trouble = {"kind": TROUBLE, "reason": error.reason, "text": error.detail, "rows": 0}
            return [{"sink": self.at, **trouble}]
        written = {"sink": self.at, "kind": WRITTEN, "reason": "", "text": "", "rows": self.written}
        refused = [
            {"sink": self.at, "kind": REFUSED, "reason": reason, "text": "", "rows": count}
            for reason, count in self.refused.items()
        ]
        printed = [
            {"sink": self.at, "kind": PRINTED, "reason": "", "text": text, "rows": 1} for text in self.printed
        ]
        return [written, *refused, *printed]


def quarantined(target: Target, batch: pa.RecordBatch, refusal: Refusal) -> telemetry_pb2.Quarantined:
    """The record of a row that a sink refused: its visible columns as JSON, its row key as key."""
    layout, row = target.layout, batch.slice(refusal.row, 1)
    record = telemetry_pb2.Quarantined(
        dagger=target.dagger,
        topic=target.name,
        stage="sink",
        reason=refusal.reason,
        detail=refusal.detail,
    )
    columns = [(column.name, values) for column, values in layout.visible(row)]
    if not layout.windowed and len(layout.key_columns) > _OFFSET:  # topic, partition, offset, …
        record.partition = row.column(layout.key_columns[_PARTITION])[0].as_py() or 0
        record.offset = row.column(layout.key_columns[_OFFSET])[0].as_py() or 0
    record.decoded_prefix = json_text.objects(columns)[0]
    record.value = record.decoded_prefix.encode()
    record.key = "".join(rows.keys(layout, row)).encode()
    return record


def _patiently(write: Callable[[], Outcome]) -> Outcome:
    """Try a write again for a few seconds: a restart of a sink is usually over by then."""
    pause, end = _FIRST_PAUSE_S, time.monotonic() + _PATIENCE_S
    while True:
        try:
            return write()
        except TemporaryError:
            if time.monotonic() + pause > end:
                raise
            time.sleep(pause)
            pause *= 2


@lru_cache(maxsize=2)
def _quarantine(platform: bytes) -> Quarantine:
    """The quarantine's producer, kept by the worker between batches."""
    return Quarantine(client_properties(spec_pb2.KafkaAddress.FromString(platform)))
