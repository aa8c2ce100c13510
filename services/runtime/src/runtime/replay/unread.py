"""Tries records that never were rows. What decodes them comes with it: most replays have rows alone."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from daggers.v1 import spec_pb2, telemetry_pb2

import daggersql
from runtime.replay.chunks import MOST_BYTES
from runtime.replay.history import Kept
from runtime.replay.originals import Originals, source
from runtime.replay.records import Counts, Passes, Records, Tried
from runtime.replay.said import Said
from runtime.replay.verdicts import Resolved

if TYPE_CHECKING:
    from runtime.replay.query import Query


class Unread:
    """So many at once: the same ones in every attempt."""

    def __init__(
        self,
        spec: spec_pb2.JobSpec,
        plan: daggersql.Plan,
        closed: datetime | None,
        query: Query | None,
        said: Said,
        most: int,
        *,
        recomputes: bool,
    ) -> None:
        """`closed`, `recomputes`: as `Records` has them. `query` computes it; None: nobody does."""
        self._records = Records(spec, plan, closed, computes=query is not None, recomputes=recomputes)
        self._originals, self._query, self._said = Originals(spec), query, said
        self._most = most
        self._held: list[Tried] = []
        self._size = self._number = 0
        self._counts: list[Counts] = []

    def add(self, kept: Kept, record: telemetry_pb2.Quarantined, edited: bytes | None) -> None:
        """One more; `edited`: what is to be taken in place of its value. Raises: JobError."""
        self._held.append(Tried(kept, record, edited))
        self._size += len(record.value)
        if len(self._held) >= self._most or self._size >= MOST_BYTES:
            self._try()

    def end(self) -> None:
        """There are no more: try what is held, and compute windows again. Raises: JobError."""
        self._try()
        if self._query is not None:
            self._said.add(self._query.count(self._counts))

    def _try(self) -> None:
        held, self._held, self._size = self._held, [], 0
        number, self._number = self._number, self._number + 1
        if self._said.has(tried.kept for tried in held):
            return
        originals = self._originals.of([tried.record for tried in held]) if self._query is not None else {}
        passing: list[Passes] = []
        outcomes: dict[str, Resolved] = {}
        for tried in held:
            match self._records.outcome(tried, originals.get(source(tried.record))):
                case Passes() as passes:
                    passing.append(passes)
                case Counts() as counts:
                    self._counts.append(counts)
                case outcome:
                    outcomes[tried.kept.id] = outcome
        if passing and self._query is not None:
            outcomes |= self._query.pass_on(number, passing)
        self._said.add(outcomes)
        self._said.all()
