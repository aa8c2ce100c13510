"""Try records that never became rows, in batches.

Only a replay that has such records imports this module: the decoder that comes with it costs memory.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from daggers.v1 import spec_pb2, telemetry_pb2

import daggersql
from runtime.replay.chunks import MOST_BYTES
from runtime.replay.history import QuarantineEntry
from runtime.replay.originals import Originals, source_of
from runtime.replay.outcome_writer import OutcomeWriter
from runtime.replay.records import LateRecord, PassingRecord, RecordClassifier, TriedRecord
from runtime.replay.verdicts import Resolved

if TYPE_CHECKING:
    from runtime.replay.query import ReplayQuery


class UndecodedBatch:
    """Collects undecoded records and tries them in batches, the same ones in every attempt."""

    def __init__(
        self,
        spec: spec_pb2.JobSpec,
        plan: daggersql.Plan,
        closed_until: datetime | None,
        query: ReplayQuery | None,
        writer: OutcomeWriter,
        most: int,
        *,
        recomputes: bool,
    ) -> None:
        """Take the job and the writer of its outcomes.

        closed_until: event time up to which the dagger's driver has closed windows. query: computes rows;
        None: this replay computes none. most: records in a batch. recomputes: closed windows are computed
        again.
        """
        self._classifier = RecordClassifier(
            spec, plan, closed_until, computes=query is not None, recomputes=recomputes
        )
        self._originals, self._query, self._writer = Originals(spec), query, writer
        self._most = most
        self._batch: list[TriedRecord] = []
        self._size = self._number = 0
        self._late: list[LateRecord] = []

    def add(
        self, entry: QuarantineEntry, record: telemetry_pb2.Quarantined, edited_value: bytes | None
    ) -> None:
        """Add a record, and try the batch if it is full. Raises: JobError.

        edited_value: replaces the value of the record.
        """
        self._batch.append(TriedRecord(entry, record, edited_value))
        self._size += len(record.value)
        if len(self._batch) >= self._most or self._size >= MOST_BYTES:
            self._process()

    def finish(self) -> None:
        """Try the last batch, then compute the windows of all late records again. Raises: JobError."""
        self._process()
        if self._query is not None:
            self._writer.add(self._query.recompute_windows(self._late))

    def _process(self) -> None:
        batch, self._batch, self._size = self._batch, [], 0
        number, self._number = self._number, self._number + 1
        if self._writer.has_outcomes(tried.entry for tried in batch):
            return
        originals = (
            self._originals.fetch([tried.record for tried in batch]) if self._query is not None else {}
        )
        passing: list[PassingRecord] = []
        outcomes: dict[str, Resolved] = {}
        for tried in batch:
            match self._classifier.classify(tried, originals.get(source_of(tried.record))):
                case PassingRecord() as record:
                    passing.append(record)
                case LateRecord() as late:
                    self._late.append(late)
                case outcome:
                    outcomes[tried.entry.id] = outcome
        if passing and self._query is not None:
            outcomes |= self._query.write_rows(number, passing)
        self._writer.add(outcomes)
        self._writer.flush()
