"""What happens to the rows of each micro-batch, in the driver: choose those to write, write, count, print.

Spark calls `Batches` once for each batch. It returns when every row is durable in every sink or quarantined;
only then does Spark commit. A sink that is down makes it try again, for as long as it takes, while heartbeats
say so.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from chassis import lines
from chassis.logging import logger, note, unit_of_work
from daggerspec.columns import WINDOW_END
from runtime.launch import progress
from runtime.launch.boundary import Boundary
from runtime.launch.launch import Launch
from runtime.launch.report import Report
from runtime.launch.shadow import Shadow
from runtime.launch.wholeness import whole
from runtime.launch.writing import Writing
from runtime.references.loading import References
from runtime.sinks import BatchRef, Target, load
from runtime.source.context import SourceContext
from runtime.source.stream import begin_batch, end_batch
from runtime.state import checkpoint
from runtime.state.checkpoint import Checkpoint

# Py4J prints the trace of whatever Python raises to the JVM.
_PRINTS_TRACES = ("py4j.clientserver", "py4j.java_gateway")


# How far event time was read is kept so often, and when a launch ends.
_KEPT_S = 10.0
_NOTHING: Mapping[str, Mapping[str, int]] = {}


class UnfinishedError(Exception):
    """The last batch of a drain could not be written: it is not committed and will be repeated."""


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of the log says more than that a drain has left its last batch."""
    return not (record.exc_info and isinstance(record.exc_info[1], UnfinishedError))


def unwritten(rows: DataFrame, closed: datetime | None) -> DataFrame:
    """Those that are no windows which end up to this event time: a query before this one wrote these."""
    if closed is None or WINDOW_END not in rows.columns:
        return rows
    return rows.filter(F.col(WINDOW_END) > F.lit(closed))


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
        shadow: Shadow | None = None,
        lookahead: timedelta = timedelta(),
        read_until: Mapping[str, Mapping[str, int]] = _NOTHING,
    ) -> None:
        """`source` is what its readers read for; with `shadow` it begins as one; `lookahead` as in
        `wholeness.lacks`; `read_until` as in `SourceContext`.
        """
        self.failure: BaseException | None = None
        """Why the last batch failed, as it was raised here: Spark only keeps its text."""
        self.unfinished = ""
        """Why the last batch of a drain was left unwritten; it is not committed and will be repeated."""
        self.last = threading.Event()
        """Set by whoever drains the query, once Spark will not begin another batch."""
        self._launch = launch
        self._targets = {target.name: target for target in targets}
        self._writing = Writing(launch, targets, self._leave)
        self._checkpoint = chosen
        self._source = source
        self._references = references
        self._boundary, self._shadow = boundary, shadow
        self._lookahead = lookahead
        self._read_until = read_until
        self._kept_at = time.monotonic()
        self._last_read: int | None = None

    def attempts(self, batch_id: int) -> int:
        """How often the rows of a recent batch were computed: what Spark observed counts that often."""
        return self._writing.attempts(batch_id)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one batch."""
        try:
            with unit_of_work("batch", dagger=self._launch.spec.dagger, batch_id=batch_id):
                self._batch(rows, batch_id)
        except BaseException as failure:
            self.failure = failure
            raise

    def _batch(self, rows: DataFrame, batch_id: int) -> None:
        self._began(batch_id)
        self._references.refresh(self._launch.session)
        closes = begin_batch(self._launch.session)  # not the rows' session: that one knows no queries
        shadow = self._shadow
        if shadow is not None:
            if shadow.lets_go(closes, self._leave):
                self._writing.drop(rows)
                self._end(batch_id)
                return
            self._began(batch_id)
        if self._boundary.is_passed(closes):
            self._launch.stop()
            self._launch.wake.set()
            self._leave("The shadow beside it goes on from here.")
        if time.monotonic() - self._kept_at > _KEPT_S:
            self._keep_event_times()  # as it was before this batch: all of that is committed
        readers = self._source.registry.published()
        rows = unwritten(rows, self._checkpoint.written if shadow is None else shadow.written)
        wanted = whole(unwritten(rows, readers.closed()), readers.gaps(), self._lookahead)
        # Spark's id of the query is as old as its checkpoint: one that was removed comes back as another.
        query = self._launch.session.sparkContext.getLocalProperty("sql.streaming.queryId")
        batch = BatchRef(f"{self._checkpoint.path.name}/{query}", batch_id, self._launch.spec.generation)
        report, skipping = self._writing.write(wanted, batch)
        self._end(batch_id)
        self._boundary.written(closes)
        if self._boundary.is_reached():
            self._launch.wake.set()
        written = {sink: report.written[sink] for sink in self._targets}
        self._launch.heartbeat.update(
            partial(
                progress.batch_written,
                rows=written,
                refused=report.refused,
                invalid=report.invalid,
                skipping={name: trouble.error for name, trouble in skipping.items()},
                set_aside=frozenset(+report.skipped),
            )
        )
        self._print(report)
        note(rows=written, refused=dict(report.refused), invalid=dict(report.invalid))

    def keep_last(self) -> None:
        """The query has ended: keep how far event time was read, unless the last batch will be repeated."""
        last = self._last_read
        with suppress(OSError):
            if last is None or (self._checkpoint.path / "commits" / str(last)).exists():
                self._keep_event_times()

    def _keep_event_times(self) -> None:
        """Keep beside the checkpoint how far event time was read in each partition, for launches to come.

        To be called when all that was read is committed: a launch that repeats a batch would take what it is
        to read for read.
        """
        self._kept_at = time.monotonic()
        known = _later(self._read_until, self._source.registry.published().read_until())
        if known != self._read_until:
            self._read_until = known
            try:
                checkpoint.keep_read_until(self._checkpoint.path, self._read_until)
            except OSError as problem:
                logger().warning("event_times.not_saved", why=str(problem))

    def _end(self, batch_id: int) -> None:
        """Move event time by what a batch has read, which Spark commits next."""
        self._last_read = batch_id
        end_batch(self._launch.session, self._source)

    def _began(self, batch_id: int) -> None:
        now = datetime.now(UTC)
        self._launch.heartbeat.update(partial(progress.batch_began, batch_id=batch_id, time=now))

    def _leave(self, why: str) -> None:
        """Leave the batch unwritten: raises, once the query is ending, what Spark takes for that end.

        Of a query that is being stopped Spark expects to hear that its jobs were cancelled: it commits
        nothing then, and prints no trace.
        """
        self.unfinished = why
        self.last.wait()
        for name in _PRINTS_TRACES:
            logging.getLogger(name).addFilter(_is_news)
        group = self._launch.session.sparkContext.getLocalProperty("spark.jobGroup.id")
        raise UnfinishedError(f"org.apache.spark.SparkException: part of cancelled job group {group}")

    def _print(self, report: Report) -> None:
        """The lines of sinks that print, up to their limit, on the driver's stdout."""
        for sink, printed in sorted(report.printed.items()):
            target = self._targets[sink]
            shown = [*printed[: load(target.kind).limit_of(target)]]
            if more := report.written[sink] - len(shown):
                shown.append(f"… and {more} more")
            now = datetime.now(UTC)
            sys.stdout.write("".join(f"{lines.line(now, 'INFO', sink, row)}\n" for row in shown))
        sys.stdout.flush()


def _later(
    known: Mapping[str, Mapping[str, int]], read: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """The later of both, by table and partition."""
    later = {table: dict(times) for table, times in known.items()}
    for table, times in read.items():
        of_table = later.setdefault(table, {})
        for partition, micros in times.items():
            of_table[partition] = max(micros, of_table.get(partition, micros))
    return later
