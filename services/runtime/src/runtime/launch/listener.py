"""Turn Spark's events about its batches into progress and warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from runtime.launch import completion, expired, progress, symptoms, waits
from runtime.launch.completion import Completion
from runtime.launch.launch import Launch
from runtime.launch.progress import CommittedBatch
from runtime.launch.symptoms import (
    EXECUTORS_LOST,
    NO_OUTPUT,
    WAITING_FOR_EXECUTORS,
    DriverWarning,
    Symptoms,
)
from runtime.launch.waits import Waits
from runtime.references.loading import References
from runtime.source import metrics
from runtime.source.context import SourceContext
from runtime.source.metrics import SourceMetrics
from runtime.source.status import SourceState
from runtime.source.watermark import NEVER
from runtime.spark import helpers
from runtime.spark.events import JsonListener
from runtime.spark.executors import Executors
from runtime.state.checkpoint import Checkpoint
from runtime.state.groups import Groups


class Listener(JsonListener):
    """Feeds the heartbeat. Spark calls it after the events, on a thread of its own."""

    def __init__(
        self,
        launch: Launch,
        *,
        checkpoint: Checkpoint,
        source: SourceContext,
        attempts: Callable[[int], int],
        plan_warnings: Sequence[str],
        references: Sequence[References],
        groups: Groups,
        patience: timedelta | None,
        completed: Completion,
        early: bool = False,
        executors: Executors | None = None,
    ) -> None:
        """Listen for one launch.

        attempts: returns how often a batch was computed. patience: how long windows may take to close.
        completed: what was, as the launch begins. early: rows are written while their windows are open.
        executors: check of those that the driver computes with; None where nobody warns of them.
        """
        self._launch = launch
        self._checkpoint = checkpoint
        self._source = source
        self._attempts = attempts
        self._plan_warnings = plan_warnings
        self._references = references
        self._groups = groups
        self._symptoms = Symptoms(patience)
        self._early = early
        self._executors, self._executors_warned = executors, ("", "")
        self._waits = Waits()
        self._completion = completed
        self._written = 0
        self._has_settled = False
        self._ended = set[str]()
        """Run ids of closing queries that have ended: their last events come late."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the query only has a thread by now."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Add a committed batch to the progress, and update symptoms and warnings."""
        report = event.progress
        read = metrics.of(report)
        batch = summarize_batch(report, read, self._attempts(report.batchId))
        self._launch.heartbeat.update(partial(progress.batch_committed, batch=batch))
        published = self._source.registry.state()
        self._complete(report, batch, published)
        batch_seen = self._to_batch(report, batch, read, published)
        self._symptoms = symptoms.add_batch(self._symptoms, batch_seen)
        self._update_waits(published)
        self._groups.record_batch(
            report.batchId, [operator.operatorName for operator in report.stateOperators]
        )
        self._warn(published)
        if str(report.runId) not in self._ended:  # else the next query, which starts, needs them
            helpers.release(self._launch.run_dir, self._launch.session)
        if self._launch.writing.is_set() and not self._has_settled:
            self._has_settled = True
            self._checkpoint.forget_outdated()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Record that the source had nothing to read; a source that could not be reached is no progress."""
        published = self._source.registry.state()
        self._update_waits(published)
        if published.is_reachable():
            self._launch.heartbeat.update(
                partial(progress.idle, time=datetime.fromisoformat(event.timestamp))
            )
        self._warn(published)

    def note_ended(self, run_id: str) -> None:
        """Take no late event of a query that has ended for one of the next query."""
        self._ended.add(run_id)

    def check(self) -> None:
        """Record waiting records, and what became of executors. Called regularly: Spark sends no event while
        records wait for a batch, nor while a batch waits for executors.
        """
        published = self._source.registry.state()
        looked_at, last = published.waiting_at(), self._launch.heartbeat.progress.beat.last_progress
        if looked_at is not None and looked_at > last.ToDatetime(UTC) and published.is_reachable():
            step = partial(progress.waiting, time=looked_at, records=published.waiting())
            self._launch.heartbeat.update(step)
        if (
            self._executors
            and (now := (self._executors.waiting, self._executors.ended)) != self._executors_warned
        ):
            self._executors_warned = now
            self._warn(published)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Wake the main thread, which finds out why the query ended."""
        self._launch.wake.set()

    def _complete(
        self, report: StreamingQueryProgress, batch: CommittedBatch, published: SourceState
    ) -> None:
        """Update up to which offsets all that was read is in every sink."""
        times = [times.newest for times in published.observed.values() if times.newest is not None]
        closed = NEVER if batch.watermark is None else round(batch.watermark.timestamp() * 1000)
        self._completion = completion.batch_committed(
            self._completion, metrics.ends(report), newest=max(times, default=None), closed=closed
        )
        step = partial(progress.set_completed, offsets=self._completion.offsets)
        self._launch.heartbeat.update(step)

    def _to_batch(
        self,
        report: StreamingQueryProgress,
        batch: CommittedBatch,
        read: SourceMetrics,
        published: SourceState,
    ) -> symptoms.Batch:
        written, self._written = self._written, sum(self._launch.heartbeat.progress.beat.rows_out)
        closed = any(operator.numRowsRemoved for operator in report.stateOperators)
        return symptoms.Batch(
            time=batch.time,
            read=batch.rows,
            late_windows=batch.late_windows,
            late_by_table=batch.late_by_table,
            open=batch.state_rows > 0,
            gave=closed or self._written > written,
            watermark=batch.watermark,
            readers=read.readers,
            watermarks=published.watermarks(),
        )

    def _update_waits(self, published: SourceState) -> None:
        """Update the partitions that event time waits for, if the query has windows."""
        if self._source.windows is not None:
            self._waits = waits.observe(self._waits, published, datetime.now(UTC))

    def _warn(self, published: SourceState) -> None:
        now = datetime.now(UTC)
        behind = waits.warnings(self._waits, now)
        # the warning of the partition that is waited for explains why no window closes
        own = [
            *behind,
            *(
                one
                for one in symptoms.warnings(self._symptoms, now)
                if not (behind and one.code == NO_OUTPUT)
            ),
        ]
        windowed = self._source.windows is not None
        expiry = expired.warning(published.lost_records(), now, windowed=windowed, early=self._early)
        own += [expiry] if expiry else []
        codes = (WAITING_FOR_EXECUTORS, EXECUTORS_LOST)
        own += [
            DriverWarning(code, text)
            for code, text in zip(codes, self._executors_warned, strict=True)
            if text
        ]
        all_warnings = (
            *self._plan_warnings,
            *published.warnings(),
            *(warning for tables in self._references for warning in tables.warnings()),
            *self._groups.warnings(),
            *map(str, own),
        )
        measures = {warning.code: warning.measure for warning in own if warning.measure is not None}
        versions = {name: id_ for tables in self._references for name, id_ in tables.versions().items()}
        self._launch.heartbeat.update(
            lambda current: progress.set_references(
                progress.set_warnings(current, all_warnings, measures), versions
            )
        )


def summarize_batch(report: StreamingQueryProgress, read: SourceMetrics, attempts: int) -> CommittedBatch:
    """Summarise the reports of Spark and the source on a committed batch that was computed `attempts` times.

    Spark sums its observations over the attempts, each of which reads every row: counts are divided by them.
    Spark's duration includes the wait for the batch (`latestOffset`): here it begins when the batch is due.
    """
    stamp = report.eventTime.get("watermark", "")
    watermark = datetime.fromisoformat(stamp) if stamp else None
    return CommittedBatch(
        batch_id=report.batchId,
        time=datetime.now(UTC),
        duration_ms=report.batchDuration - report.durationMs.get("latestOffset", 0),
        rows=read.rows // attempts,
        late_windows=read.late_windows // attempts,
        late_by_table={table: late.rows // attempts for table, late in read.late_by_table.items()},
        quarantined={reason: number // attempts for reason, number in read.quarantined.items()},
        invalid={function: number // attempts for function, number in read.invalid_inputs.items()},
        watermark=None if watermark is None or watermark.timestamp() <= 0 else watermark,
        lag=read.lag,
        state_rows=sum(operator.numRowsTotal for operator in report.stateOperators),
        state_bytes=sum(operator.memoryUsedBytes for operator in report.stateOperators),
    )
