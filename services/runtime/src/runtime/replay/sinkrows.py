"""Write refused rows into the sink that refused them, through the writer that batches use, too."""

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
from runtime.replay.sinklogs import SinkLogs
from runtime.replay.verdicts import Resolved
from runtime.sinks import BatchRef, Part, Target

PATIENCE_S: Final = 600.0
"""Time for which a replay retries a sink; then it gives the sink up, and the rows stay open."""


class SinkRows:
    """Writes chunks into the sinks of one dagger, for one attempt of a replay."""

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
        """Take the sinks of a job.

        wait: sleeps for seconds. confirm: returns while this attempt may write. Both raise JobError when
        the attempt is over.
        """
        self._spec, self._force = spec, force
        self._checkpoint = f"replay/{replay_id}"
        self._wait, self._confirm, self._patience_s = wait, confirm, patience_s
        self.layout = planned.layout(spec, plan)
        self._updates = state.updates(spec.spec)
        self._messages = planned.messages(spec)
        self.sinks_by_name = planned.named_sinks(spec)
        self._checked: set[tuple[str, bytes]] = set()
        self._given_up: dict[str, JobError] = {}
        self._logs = SinkLogs(spec)

    def check_sink(self, sink: str) -> Resolved | None:
        """Return why rows are not replayed into the sink: they might replace newer ones. None: they are."""
        if self._force or not self._may_replace_newer(sink):
            return None
        return verdicts.resolve_newer_may_exist(sink)

    def version_of(self, sink: str, generation: int, batch_id: int) -> Version | None:
        """Return the version that the sink compares a row by; None where it compares none."""
        return (
            (generation, batch_id) if self._updates and rulebook.compares_versions(self._sink(sink)) else None
        )

    def write(self, chunk: Chunk) -> Mapping[str, Resolved]:
        """Write the rows of a chunk, retrying within the patience, and return their outcomes by record id.

        Raises: FencedError. Any other JobError becomes the outcome of all rows of the chunk.
        """
        if (wrong := verdicts.check_schema(self.layout, chunk.rows.schema)) is not None:
            return {record.id: wrong for record in chunk.entries}
        names = [*(column.name for column in self.layout.columns), *self.layout.hidden]
        rows = chunk.rows.select(names)
        target = self._target_of(chunk.sink, rows.schema)
        try:
            refused = self._write_patiently(chunk.sink, lambda: self._write_once(target, chunk, rows))
        except JobError as error:
            if error.error.reason == "FENCED":
                raise
            why = verdicts.resolve_not_replayable(error.error.reason, error.error.detail)
            return {record.id: why for record in chunk.entries}
        return {
            record.id: verdicts.resolve_failed_again(record, refused[key].reason, refused[key].detail)
            if key in refused
            else verdicts.resolve_replayed()
            for record, key in zip(chunk.entries, keys(self.layout, rows), strict=True)
        }

    def _write_once(self, target: Target, chunk: Chunk, rows: pa.RecordBatch) -> dict[str, Refusal]:
        """Try to write the rows once, and return the refused ones by their keys. Raises: JobError."""
        self._logs.check_empty(chunk.sink)
        schema_key = chunk.sink, rows.schema.serialize().to_pybytes()
        if schema_key not in self._checked:
            sinks.check(target)
            self._checked.add(schema_key)
        generation, number = chunk.version or (self._spec.generation, chunk.number)
        batch = BatchRef(self._checkpoint, number, generation)
        self._confirm()
        writer = sinks.open_writer(replace(target, part=Part(batch, 0)))
        outcomes = [unwritable.write_rows(writer, rows, number), writer.finish()]
        sinks.commit(target, batch, [outcome.receipt for outcome in outcomes if outcome.receipt])
        refused: dict[str, Refusal] = {}
        for outcome in outcomes:
            now = datetime.now(UTC)
            sys.stdout.write(
                "".join(f"{lines.line(now, 'INFO', chunk.sink, row)}\n" for row in outcome.printed)
            )
            if outcome.refused:
                row_keys = keys(self.layout, rows if outcome.rows is None else outcome.rows)
                refused |= {row_keys[refusal.row]: refusal for refusal in outcome.refused}
        return refused

    def _write_patiently(self, sink: str, write: Callable[[], dict[str, Refusal]]) -> dict[str, Refusal]:
        """Call `write` until the sink takes the rows.

        Raises: JobError that no retry helps, or that outlasts the patience; then at once for the same sink.
        """
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
        raise AssertionError  # `count` does not end

    def _target_of(self, sink: str, schema: pa.Schema) -> Target:
        return Target(
            self._spec.dagger,
            self.sinks_by_name[sink],
            self.layout,
            schema,
            self._messages,
            self._updates,
            is_replay=True,
        )

    def _may_replace_newer(self, sink: str) -> bool:
        """Tell whether a row of this sink might overwrite a newer one that has the same key."""
        return rulebook.may_be_older(self._sink(sink), self.layout, updates=self._updates)

    def _sink(self, name: str) -> spec_pb2.Sink:
        return spec_pb2.ResolvedSink.FromString(self.sinks_by_name[name]).sink
