"""Writes rows that a sink refused into that sink, through the writer that every batch goes through."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Final

import pyarrow as pa
from daggers.v1 import spec_pb2

import daggersql
from chassis import lines
from chassis.logging import logger
from daggerspec import sinks as rulebook
from daggerspec import state
from runtime import sinks
from runtime.encode.rows import Refusal, keys
from runtime.errors import EXTERNAL, JobError, TemporaryError
from runtime.launch import planned, unwritable
from runtime.launch.outages import pause_s
from runtime.replay import verdicts
from runtime.replay.chunks import Chunk, Version
from runtime.replay.verdicts import Resolved
from runtime.sinks import BatchRef, Part, Target

PATIENCE_S: Final = 600.0
"""A sink that takes no rows for so long is given up by this replay; its rows stay open."""


class SinkRows:
    """The sinks of one dagger, for one attempt of a replay."""

    def __init__(
        self,
        spec: spec_pb2.JobSpec,
        plan: daggersql.Plan,
        replay_id: str,
        *,
        force: bool,
        wait: Callable[[float], None],
        confirm: Callable[[], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`wait` lets seconds pass; `confirm` returns while this attempt may write. Both raise JobError."""
        self._spec, self._force = spec, force
        self._checkpoint = f"replay/{replay_id}"
        self._wait, self._confirm, self._patience_s = wait, confirm, patience_s
        self.layout = planned.layout(spec, plan)
        self._updates = state.updates(spec.spec)
        self._messages = planned.messages(spec)
        self.named = planned.named_sinks(spec)
        self._checked: set[tuple[str, bytes]] = set()
        self._given_up: dict[str, JobError] = {}

    def refusal(self, sink: str) -> Resolved | None:
        """Why nothing is replayed into this sink; None: it is."""
        if self._force or not self._may_be_older(sink):
            return None
        return verdicts.newer_may_exist(sink)

    def version(self, sink: str, generation: int, batch_id: int) -> Version | None:
        """By what a row is told from newer ones, where the sink can."""
        return (
            (generation, batch_id) if self._updates and rulebook.compares_versions(self._sink(sink)) else None
        )

    def write(self, chunk: Chunk) -> Mapping[str, Resolved]:
        """Write its rows, as long as it takes; what became of each, by id. Raises: FencedError, JobError."""
        if (wrong := verdicts.misfit(self.layout, chunk.rows.schema)) is not None:
            return {record.id: wrong for record in chunk.kept}
        names = [*(column.name for column in self.layout.columns), *self.layout.hidden]
        rows = chunk.rows.select(names)
        target = self._target(chunk.sink, rows.schema)
        try:
            refused = self._patiently(chunk.sink, lambda: self._written(target, chunk, rows))
        except JobError as error:
            if error.error.reason == "FENCED":
                raise
            why = verdicts.not_replayable(error.error.reason, error.error.detail)
            return {record.id: why for record in chunk.kept}
        return {
            record.id: verdicts.failed_again(record, refused[key].reason, refused[key].detail)
            if key in refused
            else verdicts.replayed()
            for record, key in zip(chunk.kept, keys(self.layout, rows), strict=True)
        }

    def _written(self, target: Target, chunk: Chunk, rows: pa.RecordBatch) -> dict[str, Refusal]:
        """Write once; the rows that were refused, by their keys. Raises: JobError."""
        known = chunk.sink, rows.schema.serialize().to_pybytes()
        if known not in self._checked:
            sinks.check(target)
            self._checked.add(known)
        generation, number = chunk.version or (self._spec.generation, chunk.number)
        batch = BatchRef(self._checkpoint, number, generation)
        self._confirm()
        writer = sinks.open_writer(replace(target, part=Part(batch, 0)))
        outcomes = [unwritable.written(writer, rows, number), writer.finish()]
        sinks.commit(target, batch, [outcome.receipt for outcome in outcomes if outcome.receipt])
        refused: dict[str, Refusal] = {}
        for outcome in outcomes:
            now = datetime.now(UTC)
            sys.stdout.write(
                "".join(f"{lines.line(now, 'INFO', chunk.sink, row)}\n" for row in outcome.printed)
            )
            if outcome.refused:
                told = keys(self.layout, rows if outcome.rows is None else outcome.rows)
                refused |= {told[refusal.row]: refusal for refusal in outcome.refused}
        return refused

    def _patiently(self, sink: str, write: Callable[[], dict[str, Refusal]]) -> dict[str, Refusal]:
        """Try until the sink takes the rows. Raises: JobError, also when that lasts too long."""
        if sink in self._given_up:
            raise self._given_up[sink]
        began = time.monotonic()
        for attempt in count(1):
            try:
                return write()
            except JobError as error:
                waits = error.error.domain == EXTERNAL and error.error.retryable
                if not waits or time.monotonic() - began > self._patience_s:
                    self._given_up[sink] = error
                    raise
                after = error.retry_after if isinstance(error, TemporaryError) else None
                logger().warning(
                    "replay.delayed", sink=sink, reason=error.error.reason, detail=error.error.detail
                )
                self._wait(pause_s(attempt, random.random(), after))  # noqa: S311 - jitter
        raise AssertionError  # it counts for ever

    def _target(self, sink: str, schema: pa.Schema) -> Target:
        return Target(
            self._spec.dagger,
            self.named[sink],
            self.layout,
            schema,
            self._messages,
            self._updates,
            is_replay=True,
        )

    def _may_be_older(self, sink: str) -> bool:
        """Whether another row than the one that was refused may stand in its place by now."""
        return rulebook.may_be_older(self._sink(sink), self.layout, updates=self._updates)

    def _sink(self, name: str) -> spec_pb2.Sink:
        return spec_pb2.ResolvedSink.FromString(self.named[name]).sink
