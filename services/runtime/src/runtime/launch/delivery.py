"""Writes one partition of a batch to all sinks, inside a Python worker, and reports in a few rows.

The rows pass once, whatever the number of sinks: each Arrow batch goes to every sink in turn. A sink that
does not take rows just now is tried for a few seconds here, then given up for this attempt; the driver sees
why and comes again, for the sinks and partitions that are still open.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa
from daggers.v1 import spec_pb2, telemetry_pb2
from pyspark import TaskContext

from runtime.clients.kafka import client_properties
from runtime.clients.quarantine import Quarantine
from runtime.encode import json_text, rows
from runtime.encode.rows import Refusal
from runtime.errors import FencedError, TemporaryError
from runtime.sinks import Outcome, Target, Writer, open_writer
from runtime.state.store.local import LocalStore

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
_PATIENCE_S = 5.0
_FIRST_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to write a batch. Picklable; called by Spark with the rows of one partition."""

    targets: tuple[Target, ...]
    generation: int
    platform: bytes
    """A serialised `KafkaAddress`: where refused rows are quarantined."""
    batch_id: int
    done: frozenset[tuple[int, int]]
    """(partition, sink) pairs that earlier attempts have finished."""
    store: LocalStore | None = None
    """Where the lease is, if workers can look at it: a driver that stood still may have lost it meanwhile."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the partition; yields one Arrow batch of report rows. Raises FencedError."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        open_sinks = [
            _Sink(number, target, open_writer(target))
            for number, target in enumerate(self.targets)
            if (partition, number) not in self.done
        ]
        quarantine: Quarantine | None = None
        for batch in batches:  # read to the end even when no sink takes rows: Spark's state depends on it
            for sink in open_sinks:
                self._stand()
                if refusals := sink.write(batch, self.batch_id):
                    quarantine = quarantine or _quarantine(self.platform, sink.target.dagger)
                    self._quarantine_rows(quarantine, sink.target, batch, refusals)
        if quarantine is not None:
            quarantine.flush()  # before the sinks that refused count as done
        lines = [line for sink in open_sinks for line in sink.report()]
        yield pa.RecordBatch.from_pylist([{"partition": partition, **line} for line in lines], schema=_REPORT)

    def _stand(self) -> None:
        """Return unless a newer generation is known to hold the lease: the driver looks for all else."""
        with suppress(OSError, ValueError):
            if self.store is not None and (held := self.store.read()) > self.generation:
                raise FencedError(self.generation, held)

    def _quarantine_rows(
        self, quarantine: Quarantine, target: Target, batch: pa.RecordBatch, refusals: Sequence[Refusal]
    ) -> None:
        """Hand refused rows to the quarantine at once: however many they are, few are held here."""
        sink = target.resolved.SerializeToString(deterministic=True).hex()
        for record, key in quarantined(target, batch, refusals):
            record.generation = self.generation
            quarantine.put(record, rows.event_id(sink, key, self.batch_id if target.updates else None))


@dataclass(slots=True)
class _Sink:
    """One sink while a partition is written to it."""

    number: int
    target: Target
    writer: Writer
    written: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    printed: list[str] = field(default_factory=list)
    trouble: TemporaryError | None = None

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Sequence[Refusal]:
        """Write one Arrow batch, unless this sink is in trouble already; the rows it refused."""
        if self.trouble is not None or batch.num_rows == 0:
            return ()
        try:
            outcome = _patiently(lambda: self.writer.write(batch, batch_id))
        except TemporaryError as trouble:
            self.trouble = trouble
            return ()
        self.written += batch.num_rows - len(outcome.refused)
        self.printed += outcome.printed
        self.refused.update(refusal.reason for refusal in outcome.refused)
        return outcome.refused

    def report(self) -> list[Mapping[str, Any]]:
        """The report rows of this sink: what it did, or why it must be tried again."""
        if self.trouble is not None:
            error = self.trouble.error
            trouble = {"kind": TROUBLE, "reason": error.reason, "text": error.detail, "rows": 0}
            return [{"sink": self.number, **trouble}]
        written = {"sink": self.number, "kind": WRITTEN, "reason": "", "text": "", "rows": self.written}
        refused = [
            {"sink": self.number, "kind": REFUSED, "reason": reason, "text": "", "rows": count}
            for reason, count in self.refused.items()
        ]
        printed = [
            {"sink": self.number, "kind": PRINTED, "reason": "", "text": text, "rows": 1}
            for text in self.printed
        ]
        return [written, *refused, *printed]


def quarantined(
    target: Target, batch: pa.RecordBatch, refusals: Sequence[Refusal]
) -> Iterator[tuple[telemetry_pb2.Quarantined, str]]:
    """For each row that a sink refused its record, visible columns as JSON, and its whole row key."""
    layout, sink = target.layout, target.name
    refused = batch.take(pa.array([refusal.row for refusal in refusals], pa.int64()))
    texts = json_text.objects([(column.name, values) for column, values in layout.visible(refused)])
    keys = rows.keys(layout, refused)
    places: list[tuple[int, int]] = [(0, 0)] * len(refusals)
    if not layout.windowed:  # topic, partition, offset, …
        places = [
            (partition or 0, offset or 0)
            for partition, offset in zip(
                *(refused.column(name).to_pylist() for name in layout.key_columns[1:3]), strict=True
            )
        ]
    for refusal, text, key, (partition, offset) in zip(refusals, texts, keys, places, strict=True):
        record = telemetry_pb2.Quarantined(
            dagger=target.dagger,
            topic=sink,
            partition=partition,
            offset=offset,
            stage="sink",
            reason=refusal.reason,
            detail=refusal.detail,
            value=text.encode(),
            key=key.encode(),
            decoded_prefix=text,
        )
        yield record, key


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


@lru_cache(maxsize=4)
def _quarantine(platform: bytes, dagger: str) -> Quarantine:
    """The quarantine's producer, kept by the worker between batches: one for each dagger, which alone waits
    for what it has quarantined.
    """
    del dagger
    return Quarantine(client_properties(spec_pb2.KafkaAddress.FromString(platform)))
