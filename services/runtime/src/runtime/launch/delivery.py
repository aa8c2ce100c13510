"""Write one partition of a batch to all sinks, inside a Python worker, and report in a few rows.

The rows are computed once for all sinks: each Arrow batch goes to every sink in turn. A sink that accepts no
rows for the moment is retried for a few seconds, then given up for this attempt; the driver gets the reason,
and tries the open sinks and partitions again.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from daggers.v1 import spec_pb2
from pyspark import TaskContext

from daggerspec.setaside import AWAY
from runtime import members
from runtime.clients.breaker import FloodBreaker
from runtime.clients.kafka import client_properties
from runtime.clients.quarantine import Quarantine
from runtime.encode import rows
from runtime.encode.rows import Refusal
from runtime.errors import FencedError, JobError, TemporaryError
from runtime.launch.refused_rows import quarantine_records
from runtime.launch.report import (
    AGES,
    JUDGED,
    PRINTED,
    RECEIPT,
    REFUSED,
    SCHEMA,
    SPOOLED,
    TROUBLE,
    WRITTEN,
    is_waitable,
    line,
)
from runtime.launch.row_ages import RowAges
from runtime.launch.unwritable import write_rows
from runtime.rules.selection import RowSelection, SelectedRule
from runtime.sinks import BatchRef, Outcome, Part, Target, Writer, open_writer
from runtime.spool.log import LogAddress
from runtime.spool.writer import SpoolWriter
from runtime.state.store.local import LocalStore

PATIENCE_S: Final = 5.0
"""Seconds for which a sink that takes no rows is waited for, and for which one may hold the others."""
_FIRST_PAUSE_S = 0.2
# rows, and the refusals of some of them
_RefusedRows = tuple[pa.RecordBatch, Sequence[Refusal]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to write a batch. Spark pickles it to workers, and calls it with one partition's rows."""

    targets: tuple[Target, ...]
    generation: int
    platform: bytes
    """A serialised `KafkaAddress`: the Kafka of the quarantine."""
    batch_id: int
    done: frozenset[tuple[int, str]]
    """(partition, sink) pairs that earlier attempts finished."""
    store: LocalStore | None = None
    """The lease's store, if workers can read it: a driver that stood still may have lost the lease."""
    paused: frozenset[str] = frozenset()
    """Sinks to leave out in this attempt."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Sinks whose rows are quarantined instead of written, with the reason."""
    checkpoint: str = ""
    """Checkpoint of the batch: that of its `BatchRef`."""
    may_refuse: bool = False
    """True if sinks may refuse any number of rows, whatever their rules say."""
    spooled: Mapping[str, LogAddress] = field(default_factory=dict)
    """Sinks whose rows are appended to a log instead of written, with its address."""
    rules: tuple[SelectedRule, ...] = ()
    """Alert rules, in the order of their columns."""
    dagger: str = ""
    run_dir: str = ""
    """Run directory of the launch, whose log has the lines of workers."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the partition; yields one Arrow batch of report rows. Raises FencedError."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        members.serve(self.run_dir)
        with members.in_step(self.dagger, self.generation, "write"):
            writing = PartWriting(self, partition)
            for batch in batches:  # read to the end even if no sink accepts rows: Spark's state depends on it
                writing.write(batch)
            lines = writing.finish()
        yield pa.RecordBatch.from_pylist([{"partition": partition, **line} for line in lines], schema=SCHEMA)

    def choose_writer(self, target: Target, partition: int) -> Writer:
        """Open what takes the rows of a sink."""
        if (log := self.spooled.get(target.name)) is not None:
            return SpoolWriter(log.open(), partition)
        if (why := self.skipped.get(target.name)) is not None:
            return SkippingWriter(why)
        part = Part(BatchRef(self.checkpoint, self.batch_id, self.generation), partition)
        return open_writer(replace(target, part=part, may_refuse=self.may_refuse))

    def raise_if_fenced(self) -> None:
        """Raise FencedError if a newer generation holds the lease; all else the driver checks."""
        with suppress(OSError, ValueError):
            if self.store is not None and (holder := self.store.read()) > self.generation:
                raise FencedError(self.generation, holder)

    def open_quarantine(self) -> Quarantine:
        """Open the platform's quarantine for one partition."""
        return Quarantine(client_properties(spec_pb2.KafkaAddress.FromString(self.platform)))

    def quarantine_rows(
        self, quarantine: Quarantine, target: Target, batch: pa.RecordBatch, refusals: Sequence[Refusal]
    ) -> int:
        """Hand refused rows to the quarantine at once, so that few are in memory; return their bytes."""
        size = 0
        for record, key in quarantine_records(target, batch, refusals):
            record.generation, record.batch_id = self.generation, self.batch_id
            identity = rows.event_id(target.name, key, self.batch_id if target.updates else None)
            size += quarantine.put(record, identity)
        return size


class PartWriting:
    """One partition while it is written: its sinks, and the quarantine once it is needed."""

    def __init__(self, delivery: Delivery, partition: int) -> None:
        self._delivery = delivery
        self._sinks = [
            SinkPart(target, delivery.choose_writer(target, partition), may_refuse=delivery.may_refuse)
            for target in delivery.targets
            if (partition, target.name) not in delivery.done and target.name not in delivery.paused
        ]
        self._quarantine: Quarantine | None = None
        self._selection = RowSelection(delivery.rules)
        self._rule_rows: list[bytes] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows to all sinks; select those that alert rules speak of. Raises: FencedError, JobError."""
        self._rule_rows += self._selection.select(batch)
        for sink in self._sinks:
            self._delivery.raise_if_fenced()
            condition = sink.target.condition
            rows = batch.filter(batch.column(condition)) if condition else batch
            self._quarantine_rows(sink, sink.write(rows, self._delivery.batch_id))

    def finish(self) -> list[Mapping[str, Any]]:
        """End the partition in all sinks; return its report rows. Raises: FencedError, JobError."""
        for sink in self._sinks:
            self._delivery.raise_if_fenced()
            self._quarantine_rows(sink, sink.finish())
        if self._quarantine is not None:
            self._quarantine.flush()  # before sinks that refused rows count as done
        rule_lines = [line("", JUDGED, content=content) for content in self._rule_rows]
        return [*(report for sink in self._sinks for report in sink.report()), *rule_lines]

    def _quarantine_rows(self, sink: SinkPart, refused: Sequence[_RefusedRows]) -> None:
        for batch, refusals in refused:
            quarantine = self._quarantine = self._quarantine or self._delivery.open_quarantine()
            size = self._delivery.quarantine_rows(quarantine, sink.target, batch, refusals)
            sink.count_quarantined(size, refusals)


class SkippingWriter:
    """Writer that refuses all rows, so that they are quarantined."""

    def __init__(self, why: str) -> None:
        self._why = why

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Refuse all rows."""
        del batch_id
        return Outcome(refused=[Refusal(row, AWAY, self._why) for row in range(batch.num_rows)])

    def finish(self) -> Outcome:
        """Return an empty outcome: nothing was written."""
        return Outcome()


class SinkPart:
    """One sink while a partition is written to it: its writer, its breaker, its counts."""

    def __init__(self, target: Target, writer: Writer, *, may_refuse: bool = False) -> None:
        self.target = target
        self._writer = writer
        is_off = may_refuse or isinstance(writer, SkippingWriter)
        self._breaker = FloodBreaker[_RefusedRows](target.max_refused, is_off)
        self._written = 0
        self._refused = Counter[str]()
        self._skipped = 0
        self._printed: list[str] = []
        self._receipt = b""
        self._trouble: JobError | None = None
        self._ages = RowAges(time.time(), updates=target.updates)
        self._acknowledged: float | None = None
        self._spent_s = 0.0

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Sequence[_RefusedRows]:
        """Write a batch, unless this sink has trouble already; return the rows to quarantine now.

        batch: has further columns behind those of the sink, of conditions and gates.
        """
        if batch.num_rows == 0:
            return ()
        self._ages.add(batch)  # those of a sink in trouble, too: they wait for it
        names = self.target.schema.names
        rows = batch if batch.num_columns == len(names) else batch.select(names)
        return self._record(rows, lambda: write_rows(self._writer, rows, batch_id))

    def finish(self) -> Sequence[_RefusedRows]:
        """End the partition, so that all is durable or staged; return the rows to quarantine now."""
        more = self._record(None, self._writer.finish)
        self._acknowledged = time.time()
        return [*more, *self._breaker.flush()]

    def _record(self, batch: pa.RecordBatch | None, write: Callable[[], Outcome]) -> Sequence[_RefusedRows]:
        """Run a step with the rows `batch`, and count its outcome; return the rows to quarantine now."""
        if self._trouble is not None:
            return ()
        began = time.monotonic()
        try:
            outcome = _write_patiently(write)
        except JobError as trouble:
            if not is_waitable(trouble):
                raise
            self._trouble = trouble
            return ()
        finally:
            self._spent_s += time.monotonic() - began
        row_count = batch.num_rows if batch is not None else 0
        self._written += row_count - len(outcome.refused)
        self._printed += outcome.printed
        self._receipt = outcome.receipt or self._receipt
        refused = outcome.rows if outcome.rows is not None else batch
        self._ages.remove(refused, [refusal.row for refusal in outcome.refused])
        by_server = sum(refusal.by_server for refusal in outcome.refused)
        ready = self._breaker.add(row_count, len(outcome.refused), (refused, outcome.refused), by_server)
        if self._breaker.is_open:
            self._trouble = self._breaker.flood_error(refusal.reason for refusal in outcome.refused)
        return ready

    def count_quarantined(self, size: int, refusals: Sequence[Refusal]) -> None:
        """Count quarantined rows, of `size` bytes."""
        self._refused.update(refusal.reason for refusal in refusals)
        if isinstance(self._writer, SkippingWriter):
            self._skipped += size

    def report(self) -> list[Mapping[str, Any]]:
        """Return the report rows of this sink: its counts, or its trouble."""
        name = self.target.name
        if isinstance(self._writer, SpoolWriter) and self._trouble is None:
            part = self._writer.part
            spooled = line(name, SPOOLED, content=part.encode(), rows=part.rows, bytes=part.size)
            return [spooled, *self._report_ages(None)]
        if self._trouble is not None:
            error = self._trouble.error
            after = self._trouble.retry_after if isinstance(self._trouble, TemporaryError) else None
            trouble = line(name, TROUBLE, reason=error.reason, text=error.detail, retry_after=after)
            return [trouble, *self._report_ages(None)]
        return [
            self._line_of_written(),
            *(line(name, REFUSED, reason=why, rows=count) for why, count in self._refused.items()),
            *(line(name, PRINTED, text=text, rows=1) for text in self._printed),
            *([line(name, RECEIPT, content=self._receipt)] if self._receipt else []),
            *self._report_ages(self._acknowledged),
        ]

    def _line_of_written(self) -> Mapping[str, Any]:
        return line(
            self.target.name, WRITTEN,
            rows=self._written, bytes=self._skipped, text=_worker_name(), seconds=self._spent_s,
        )  # fmt: skip

    def _report_ages(self, acknowledged: float | None) -> list[Mapping[str, Any]]:
        ages = self._ages.seal(acknowledged)
        return [line(self.target.name, AGES, content=ages.encode())] if ages.counts else []


def _worker_name() -> str:
    """Return a name of this process that no other worker has: its tasks run one after the other."""
    return f"{socket.gethostname()}/{os.getpid()}"


def _write_patiently(write: Callable[[], Outcome]) -> Outcome:
    """Retry a write for a few seconds, which covers most restarts of a sink."""
    pause, end = _FIRST_PAUSE_S, time.monotonic() + PATIENCE_S
    while True:
        try:
            return write()
        except TemporaryError as trouble:
            if time.monotonic() + max(pause, trouble.retry_after or 0) > end:
                raise
            time.sleep(max(pause, trouble.retry_after or 0))
            pause *= 2
