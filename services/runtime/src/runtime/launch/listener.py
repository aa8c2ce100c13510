"""What Spark tells about its batches, turned into progress."""

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

from runtime.launch import expired, progress, symptoms, waits
from runtime.launch.launch import Launch
from runtime.launch.progress import Committed
from runtime.launch.symptoms import NO_OUTPUT, Symptoms
from runtime.launch.waits import Waits
from runtime.references.loading import References
from runtime.source import metrics
from runtime.source.context import SourceContext
from runtime.source.metrics import SourceMetrics
from runtime.source.status import Published
from runtime.spark import helpers
from runtime.spark.events import JsonListener
from runtime.state.checkpoint import Checkpoint
from runtime.state.groups import Groups


class Listener(JsonListener):
    """Feeds the heartbeat. Spark calls it on a thread of its own, after the fact."""

    def __init__(
        self,
        launch: Launch,
        *,
        checkpoint: Checkpoint,
        source: SourceContext,
        attempts: Callable[[int], int],
        plan_warnings: Sequence[str],
        references: References,
        groups: Groups,
        patience: timedelta | None,
        early: bool = False,
    ) -> None:
        """`attempts` tells how often a batch was computed; `patience` is that of `Symptoms`; `early`: whether
        rows are written while their windows are open.
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
        self._waits = Waits()
        self._written = 0
        self._has_settled = False

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """The query has a thread."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """A batch was committed."""
        first = self._launch.heartbeat.progress.beat.batch_id < 0
        report = event.progress
        read = metrics.of(report)
        batch = committed(report, read, self._attempts(report.batchId))
        self._launch.heartbeat.update(partial(progress.batch_committed, batch=batch))
        published = self._source.registry.published()
        seen = self._seen(report, batch, read, published)
        self._symptoms = symptoms.committed(self._symptoms, seen)
        self._look_for_waits(published)
        self._groups.committed(report.batchId, [operator.operatorName for operator in report.stateOperators])
        self._warn(published)
        if first:
            helpers.end(self._launch.session)
        if self._launch.writing.is_set() and not self._has_settled:
            self._has_settled = True
            self._checkpoint.forget_outdated()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """The source was asked and had nothing, or could not be reached, which is no progress."""
        published = self._source.registry.published()
        self._look_for_waits(published)
        if published.is_reachable():
            self._launch.heartbeat.update(
                partial(progress.idle, time=datetime.fromisoformat(event.timestamp))
            )
        self._warn(published)

    def look(self) -> None:
        """To be called now and then: while records wait for the next batch, Spark has nothing to say."""
        published = self._source.registry.published()
        looked, last = published.looked(), self._launch.heartbeat.progress.beat.last_progress
        if looked is not None and looked > last.ToDatetime(UTC) and published.is_reachable():
            told = partial(progress.waiting, time=looked, records=published.waiting())
            self._launch.heartbeat.update(told)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """The query has ended; why is asked by whoever waits for it."""
        self._launch.wake.set()

    def _seen(
        self, report: StreamingQueryProgress, batch: Committed, read: SourceMetrics, published: Published
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

    def _look_for_waits(self, published: Published) -> None:
        """See which partitions event time waits for, where something does wait for event time."""
        if self._source.windows is not None:
            self._waits = waits.looked(self._waits, published, datetime.now(UTC))

    def _warn(self, published: Published) -> None:
        now = datetime.now(UTC)
        behind = waits.warnings(self._waits, now)
        # That no window closes while one waits for a partition is said by which.
        own = [
            *behind,
            *(
                one
                for one in symptoms.warnings(self._symptoms, now)
                if not (behind and one.code == NO_OUTPUT)
            ),
        ]
        windowed = self._source.windows is not None
        told = expired.warning(published.lost(), now, windowed=windowed, early=self._early)
        own += [told] if told else []
        warned = (
            *self._plan_warnings,
            *published.warnings(),
            *self._references.warnings(),
            *self._groups.warnings(),
            *map(str, own),
        )
        measures = {warning.code: warning.measure for warning in own if warning.measure is not None}
        versions = self._references.versions()
        self._launch.heartbeat.update(
            lambda known: progress.referenced(progress.warned(known, warned, measures), versions)
        )


def committed(report: StreamingQueryProgress, read: SourceMetrics, attempts: int) -> Committed:
    """What Spark and the source say of a committed batch that was computed `attempts` times.

    Spark adds up what it observes over the attempts, and each attempt reads every row. It also counts how
    long the batch was waited for (`latestOffset`) as its duration: here it begins when it is due.
    """
    stamp = report.eventTime.get("watermark", "")
    watermark = datetime.fromisoformat(stamp) if stamp else None
    return Committed(
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
