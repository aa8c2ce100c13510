"""Process each micro-batch in the driver: select the rows to write, write, count and print them.

Spark calls `Batches` once for each batch. It returns when every row is durable in every sink or quarantined;
only then Spark commits. A sink that is down is retried for as long as it takes, while heartbeats report it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame

from chassis.logging import logger, note, unit_of_work
from runtime import members
from runtime.launch import progress
from runtime.launch.boundary import Boundary
from runtime.launch.lanes import open_lanes
from runtime.launch.launch import Launch
from runtime.launch.printing import print_rows
from runtime.launch.shadow import Shadow
from runtime.launch.wholeness import drop_incomplete
from runtime.launch.writing import BatchWriter
from runtime.references.loading import References
from runtime.rules.judging import RuleJudge
from runtime.sinks import BatchRef, Target
from runtime.source.context import SourceContext
from runtime.source.gates import choose_rows
from runtime.source.stream import RunningBatch, begin_batch, end_batch
from runtime.state import checkpoint
from runtime.state.checkpoint import Checkpoint

# loggers of Py4J, which print the trace of whatever Python raises to the JVM
_PRINTS_TRACES = ("py4j.clientserver", "py4j.java_gateway")


# the event times that were read are saved this often, and when a launch ends
_SAVE_PERIOD_S = 10.0
_NOTHING: Mapping[str, Mapping[str, int]] = {}


class UnfinishedError(Exception):
    """Raised where the last batch of a drain is left unwritten: it is not committed, and will be repeated."""


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Tell whether a log record is about more than a drain that left its last batch."""
    return not (record.exc_info and isinstance(record.exc_info[1], UnfinishedError))


class Batches:
    """Called by Spark with each micro-batch (`foreachBatch`)."""

    def __init__(
        self,
        launch: Launch,
        targets: Sequence[Target],
        *,
        chosen: Checkpoint,
        source: SourceContext,
        references: References,
        boundary: Boundary,
        rules: RuleJudge,
        shadow: Shadow | None = None,
        lookahead: timedelta = timedelta(),
        read_until: Mapping[str, Mapping[str, int]] = _NOTHING,
    ) -> None:
        """Process the batches of one launch.

        rules: its alert rules. source: context of its readers. shadow: set where the launch begins as a
        shadow. lookahead: how far behind its window a row may need records. read_until: event times, in us,
        that were read before, by table and partition.
        """
        self.failure: BaseException | None = None
        """Error of the last batch as raised here: Spark only has its text."""
        self.unfinished = ""
        """Why the last batch of a drain was left unwritten; empty if it was not."""
        self.last = threading.Event()
        """Set by the drain, once Spark begins no further batch."""
        self._launch = launch
        self._targets = {target.name: target for target in targets}
        lanes = open_lanes(launch, targets, self._leave)
        self._writing = BatchWriter(launch, targets, self._leave, lanes)
        self._checkpoint = chosen
        self._source = source
        self._references = references
        self._boundary, self._shadow, self._rules = boundary, shadow, rules
        self._lookahead = lookahead
        self._read_until = read_until
        self._saved_at = time.monotonic()
        self._last_read: int | None = None
        self._saved_through: int | None = None

    def attempts(self, batch_id: int) -> int:
        """Return how often a recent batch was computed: Spark's observations are summed over that."""
        return self._writing.attempts(batch_id)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Process one batch. Raises: what its writing raises."""
        try:
            with (
                members.working_for(self._launch.run_dir),
                unit_of_work("batch", dagger=self._launch.spec.dagger, batch_id=batch_id),
            ):
                self._batch(rows, batch_id)
        except BaseException as failure:
            self.failure = failure
            raise

    def _batch(self, rows: DataFrame, batch_id: int) -> None:
        self._report_start(batch_id)
        self._references.refresh(self._launch.session)
        running = begin_batch(self._launch.session)  # not the session of `rows`, which has no queries
        closes_until = running.closes_until
        shadow = self._shadow
        if shadow is not None:
            if shadow.may_discard(closes_until, self._leave):
                self._writing.compute_only(rows)
                self._end(running, batch_id)
                return
            self._report_start(batch_id)
        if self._boundary.is_passed(closes_until):
            self._launch.stop()
            self._launch.wake.set()
            self._leave("The shadow beside it goes on from here.")
        if time.monotonic() - self._saved_at > _SAVE_PERIOD_S:
            self._save_event_times()  # the state before this batch, all of which is committed
        readers = self._source.registry.state()
        written_until = self._checkpoint.written if shadow is None else shadow.written
        new = choose_rows(
            rows,
            self._source.windows,
            late_until=running.late_until,
            closes_until=closes_until,
            written=max((time for time in (written_until, readers.closed_until()) if time), default=None),
        )
        gaps = readers.gaps()
        complete = drop_incomplete(new, gaps, self._lookahead)
        batch = BatchRef(
            f"{self._checkpoint.path.name}/{running.query_id}", batch_id, self._launch.spec.generation
        )
        ruled = self._rules.begin_batch(complete, closes_until)
        report, away = self._writing.write(ruled, batch, self._rules.select())
        select_again = partial(self._writing.select_again, ruled, batch_id)
        self._rules.end_batch(report.rule_rows, closes_until, gaps, select_again)
        self._end(running, batch_id)
        self._boundary.record_written(closes_until)
        if self._boundary.is_reached():
            self._launch.wake.set()
        written = {sink: report.written[sink] for sink in self._targets}
        self._launch.heartbeat.update(
            partial(
                progress.batch_written,
                rows=written,
                refused=report.refused,
                invalid=report.invalid,
                away={name: trouble.error for name, trouble in away.items()},
            )
        )
        print_rows(report, self._targets)
        note(rows=written, refused=dict(report.refused), invalid=dict(report.invalid))

    def save_last_event_times(self) -> None:
        """Save the event times after the query has ended, unless its last batch will be repeated."""
        last = self._last_read
        with suppress(OSError):
            if last is None or (self._checkpoint.path / "commits" / str(last)).exists():
                self._save_event_times()

    def _save_event_times(self) -> None:
        """Save beside the checkpoint how far event time was read in each partition, for later launches.

        Only called when all that was read is committed: else a launch that repeats a batch would take its
        records as read.
        """
        self._saved_at = time.monotonic()
        through, self._saved_through = self._saved_through, self._last_read
        latest = _merge_later(self._read_until, self._source.registry.state().read_until())
        if latest != self._read_until or through != self._last_read:
            self._read_until = latest
            try:
                checkpoint.keep_read_until(self._checkpoint.path, self._read_until, self._last_read)
            except OSError as problem:
                logger().warning("event_times.not_saved", why=str(problem))

    def _end(self, running: RunningBatch, batch_id: int) -> None:
        """Advance event time by what the batch has read, which Spark commits next."""
        self._last_read = batch_id
        end_batch(running, self._source)

    def _report_start(self, batch_id: int) -> None:
        now = datetime.now(UTC)
        self._launch.heartbeat.update(partial(progress.batch_began, batch_id=batch_id, time=now))

    def _leave(self, why: str) -> None:
        """Leave the batch unwritten: raise an error that Spark takes as part of the query's end.

        Waits until the query is being stopped. Then Spark expects errors of cancelled jobs: it commits
        nothing, and prints no trace.
        """
        self.unfinished = why
        self.last.wait()
        for name in _PRINTS_TRACES:
            logging.getLogger(name).addFilter(_is_unexpected)
        group = self._launch.session.sparkContext.getLocalProperty("spark.jobGroup.id")
        raise UnfinishedError(f"org.apache.spark.SparkException: part of cancelled job group {group}")


def _merge_later(
    latest: Mapping[str, Mapping[str, int]], read: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Merge event times by table and partition; the later one counts."""
    merged = {table: dict(times) for table, times in latest.items()}
    for table, times in read.items():
        of_table = merged.setdefault(table, {})
        for partition, micros in times.items():
            of_table[partition] = max(micros, of_table.get(partition, micros))
    return merged
