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
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa
from daggers.v1 import spec_pb2
from pyspark import TaskContext

from daggerspec.setaside import AWAY
from runtime.clients.breaker import FloodBreaker
from runtime.clients.kafka import client_properties
from runtime.clients.quarantine import Quarantine
from runtime.encode import rows
from runtime.encode.rows import Refusal
from runtime.errors import FencedError, JobError, TemporaryError
from runtime.launch.refused import quarantined
from runtime.launch.report import PRINTED, RECEIPT, REFUSED, SCHEMA, TROUBLE, WRITTEN, line, waits
from runtime.launch.unwritable import written
from runtime.sinks import BatchRef, Outcome, Part, Target, Writer, open_writer
from runtime.state.store.local import LocalStore

_PATIENCE_S = 5.0
_FIRST_PAUSE_S = 0.2
# Rows, and why they are refused.
_Refused = tuple[pa.RecordBatch, Sequence[Refusal]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to write a batch. Picklable; called by Spark with the rows of one partition."""

    targets: tuple[Target, ...]
    generation: int
    platform: bytes
    """A serialised `KafkaAddress`: where refused rows are quarantined."""
    batch_id: int
    done: frozenset[tuple[int, str]]
    """(partition, sink) pairs that earlier attempts have finished."""
    store: LocalStore | None = None
    """Where the lease is, if workers can look at it: a driver that stood still may have lost it meanwhile."""
    held: frozenset[str] = frozenset()
    """Sinks that are not to be tried now."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Sinks whose rows are set aside in place of being written, and why."""
    checkpoint: str = ""
    """As in `BatchRef`."""
    may_refuse: bool = False
    """Whether sinks may refuse as many rows as they like, whatever their rules say."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the partition; yields one Arrow batch of report rows. Raises FencedError."""
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        open_sinks = [
            _Sink(target, self._writer(target, partition), may_refuse=self.may_refuse)
            for target in self.targets
            if (partition, target.name) not in self.done and target.name not in self.held
        ]
        quarantine: Quarantine | None = None

        def set_aside(sink: _Sink, refused: Sequence[_Refused]) -> None:
            nonlocal quarantine
            for batch, refusals in refused:
                quarantine = quarantine or _quarantine(self.platform, sink.target.dagger)
                sink.set_aside(self._quarantine_rows(quarantine, sink.target, batch, refusals), refusals)

        for batch in batches:  # read to the end even when no sink takes rows: Spark's state depends on it
            for sink in open_sinks:
                self._stand()
                set_aside(sink, sink.write(_wanted(batch, sink.target), self.batch_id))
        for sink in open_sinks:
            self._stand()
            set_aside(sink, sink.finish())
        if quarantine is not None:
            quarantine.flush()  # before the sinks that refused count as done
        lines = [line for sink in open_sinks for line in sink.report()]
        yield pa.RecordBatch.from_pylist([{"partition": partition, **line} for line in lines], schema=SCHEMA)

    def _writer(self, target: Target, partition: int) -> Writer:
        if (why := self.skipped.get(target.name)) is not None:
            return _Skipping(why)
        part = Part(BatchRef(self.checkpoint, self.batch_id, self.generation), partition)
        return open_writer(replace(target, part=part, may_refuse=self.may_refuse))

    def _stand(self) -> None:
        """Return unless a newer generation is known to hold the lease: the driver looks for all else."""
        with suppress(OSError, ValueError):
            if self.store is not None and (held := self.store.read()) > self.generation:
                raise FencedError(self.generation, held)

    def _quarantine_rows(
        self, quarantine: Quarantine, target: Target, batch: pa.RecordBatch, refusals: Sequence[Refusal]
    ) -> int:
        """Hand refused rows to the quarantine at once: few are held here, however many come. Their size."""
        size = 0
        for record, key in quarantined(target, batch, refusals):
            record.generation, record.batch_id = self.generation, self.batch_id
            identity = rows.event_id(target.name, key, self.batch_id if target.updates else None)
            size += quarantine.put(record, identity)
        return size


def _wanted(batch: pa.RecordBatch, target: Target) -> pa.RecordBatch:
    """The rows that a sink gets, without what conditions say of them."""
    rows = batch.filter(batch.column(target.condition)) if target.condition else batch
    return rows if rows.num_columns == len(target.schema) else rows.select(target.schema.names)


class _Skipping:
    """Writes nothing: every row is set aside."""

    def __init__(self, why: str) -> None:
        self._why = why

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Refuse all rows."""
        del batch_id
        return Outcome(refused=[Refusal(row, AWAY, self._why) for row in range(batch.num_rows)])

    def finish(self) -> Outcome:
        """Nothing is kept."""
        return Outcome()


class _Sink:
    """One sink while a partition is written to it."""

    def __init__(self, target: Target, writer: Writer, *, may_refuse: bool = False) -> None:
        self.target = target
        self._writer = writer
        is_off = may_refuse or isinstance(writer, _Skipping)
        self._breaker = FloodBreaker[_Refused](target.max_refused, is_off)
        self._written = 0
        self._refused = Counter[str]()
        self._skipped = 0
        self._printed: list[str] = []
        self._receipt = b""
        self._trouble: JobError | None = None

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Sequence[_Refused]:
        """Write one Arrow batch, unless this sink is in trouble already; the rows to set aside now."""
        if batch.num_rows == 0:
            return ()
        return self._taken(batch, lambda: written(self._writer, batch, batch_id))

    def finish(self) -> Sequence[_Refused]:
        """End the partition: now everything is durable, or staged. The rows to set aside now."""
        more = self._taken(None, self._writer.finish)
        return [*more, *self._breaker.rest()]

    def _taken(self, batch: pa.RecordBatch | None, ask: Callable[[], Outcome]) -> Sequence[_Refused]:
        """What came of a step; `batch` are the rows that it was given."""
        if self._trouble is not None:
            return ()
        try:
            outcome = _patiently(ask)
        except JobError as trouble:
            if not waits(trouble):
                raise
            self._trouble = trouble
            return ()
        given = batch.num_rows if batch is not None else 0
        self._written += given - len(outcome.refused)
        self._printed += outcome.printed
        self._receipt = outcome.receipt or self._receipt
        refused = outcome.rows if outcome.rows is not None else batch
        by_server = sum(refusal.by_server for refusal in outcome.refused)
        ready = self._breaker.add(given, len(outcome.refused), (refused, outcome.refused), by_server)
        if self._breaker.is_open:
            self._trouble = self._breaker.why(refusal.reason for refusal in outcome.refused)
        return ready

    def set_aside(self, size: int, refusals: Sequence[Refusal]) -> None:
        """These rows were set aside, so many bytes."""
        self._refused.update(refusal.reason for refusal in refusals)
        if isinstance(self._writer, _Skipping):
            self._skipped += size

    def report(self) -> list[Mapping[str, Any]]:
        """The report rows of this sink: what it did, or why it must be tried again."""
        name = self.target.name
        if self._trouble is not None:
            error = self._trouble.error
            after = self._trouble.retry_after if isinstance(self._trouble, TemporaryError) else None
            return [line(name, TROUBLE, reason=error.reason, text=error.detail, retry_after=after)]
        return [
            line(name, WRITTEN, rows=self._written, bytes=self._skipped),
            *(line(name, REFUSED, reason=why, rows=count) for why, count in self._refused.items()),
            *(line(name, PRINTED, text=text, rows=1) for text in self._printed),
            *([line(name, RECEIPT, content=self._receipt)] if self._receipt else []),
        ]


def _patiently(write: Callable[[], Outcome]) -> Outcome:
    """Try a write again for a few seconds: a restart of a sink is usually over by then."""
    pause, end = _FIRST_PAUSE_S, time.monotonic() + _PATIENCE_S
    while True:
        try:
            return write()
        except TemporaryError as trouble:
            if time.monotonic() + max(pause, trouble.retry_after or 0) > end:
                raise
            time.sleep(max(pause, trouble.retry_after or 0))
            pause *= 2


@lru_cache(maxsize=4)
def _quarantine(platform: bytes, dagger: str) -> Quarantine:
    """The quarantine's producer, kept by the worker between batches: one for each dagger, which alone waits
    for what it has quarantined.
    """
    del dagger
    return Quarantine(client_properties(spec_pb2.KafkaAddress.FromString(platform)))
