"""Compute a preview: what a launch of the dagger would make of a range of its streams. It writes nothing."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import gateway_pb2, host_pb2
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.streaming.query import StreamingQuery

import daggersql
from chassis import processes
from daggerspec import limits, rundir, state
from runtime.errors import user
from runtime.launch import job, planned
from runtime.launch.launch import Computation
from runtime.launch.listener import summarize_batch
from runtime.launch.progress import CommittedBatch
from runtime.preview import clock
from runtime.preview.rowfiles import RowFiles
from runtime.preview.rules import RangeRules
from runtime.preview.take import TAKEN, Take, mark_partial, series_of
from runtime.references.loading import References
from runtime.source import metrics
from runtime.source.gates import choose_rows
from runtime.source.planner import start_offsets
from runtime.source.planner.given_input import GivenInput, newest_ms
from runtime.source.planner.ranges import Range
from runtime.source.planner.rounds import CLOSED_BY_RANGE
from runtime.source.reader.examples import read_examples
from runtime.source.stream import begin_batch, end_batch
from runtime.source.watermark import windows_of
from runtime.spark import queries
from runtime.spark import session as spark
from runtime.state import checkpoint
from runtime.state.store import open_root

Step = gateway_pb2.PreviewDaggerResponse
Done = gateway_pb2.PreviewDone
LEAST: Final = timedelta(minutes=5)
_LOOK_S: Final = 0.02
_PROGRESS_S: Final = 0.5
_END_S: Final = 5.0
_ROWS_BYTES: Final = 16 * 1024**2
_REMEMBERED: Final = 10_000


@dataclass
class _RowCounts:
    """Counts of the rows so far."""

    sent: int = 0
    """Rows that were sent to the caller."""
    rows: int = 0
    whole: int = 0
    """Rows of whole windows among all rows."""
    series: set[bytes] = field(default_factory=set)
    first_row: float | None = None


class Preview:
    """Previews in a session of its own."""

    def __init__(
        self,
        request: host_pb2.PreviewJob,
        session: SparkSession,
        send: Callable[[Step], None],
        over: Callable[[], bool],
    ) -> None:
        """`send` gets each of its steps; `over` tells whether nobody waits for it any more."""
        self._request, self._send, self._over = request, send, over
        self._computed = Computation(request.job, lambda: spark.another(session))
        self._counts = _RowCounts()
        self._max_rows = request.max_rows or limits.PREVIEW_ROWS
        self._sending = threading.Lock()
        self._began = time.monotonic()
        self._cpu_s = _cpu_s()
        self._span_s = 0.0
        self._live_s = request.range.live.ToTimedelta().total_seconds()
        self._rows = RowFiles.create(self._computed.run_dir, rows=self._max_rows, size=_ROWS_BYTES)
        self._failure: BaseException | None = None
        self._query: StreamingQuery | None = None

    def run(self) -> None:
        """Preview to the end, or until nobody waits or its time is over. Raises: any error that ends a
        launch.
        """
        spec = self._computed.spec
        plan = planned.check_spec(spec)
        if self._request.HasField("given"):
            given = self._given_input()
            plan = clock.at(plan, datetime.fromtimestamp(given.now_ms / 1000, UTC))
            wanted = Range(limits.PREVIEW_RECORDS, given=given)
        else:
            wanted, self._span_s = range_of(self._request.range, plan, datetime.now(UTC))
        root = open_root(spec.checkpoint_root)[0]
        chosen = checkpoint.choose(root, state.identity(spec.spec, plan), spec.generation)
        session = self._computed.session
        session.conf.set("spark.sql.streaming.numRecentProgressUpdates", _REMEMBERED)
        spark.checkpoint_locally(session)
        spark.compute_much_at_once(session)
        if state.on_disk(spec.spec, plan):
            spark.keep_state_on_disk(session)
        references, of_rules = self._open_references(plan.references), self._open_references(())
        references.start()
        try:
            wanted = replace(wanted, first_rows=not (wanted.live_until or wanted.given))
            assembled = job.assemble(self._computed, plan, chosen, wanted)
            rules = RangeRules(spec, plan, lambda: root, of_rules)
            query = self._query = self._start(assembled, str(chosen.path), references, rules, plan.lookahead)
        except AnalysisException as problem:
            sentence = str(problem).splitlines()[0]
            raise user("BAD_PLAN", f"Spark cannot run this query: {sentence}") from problem
        in_time = self._follow(query, assembled.readers.records)
        if self._over():
            return
        failure = self._failure or queries.failure(query)
        if failure is not None and in_time:
            raise failure
        done = self._summarize(query, assembled, in_time=in_time)
        if spec.spec.alerts:
            done.rules.CopyFrom(rules.summarize())
        self._send(Step(done=done))

    def ends(self) -> bool:
        """Wait a few seconds for the query's end; False if Spark goes on with it."""
        until = time.monotonic() + _END_S
        while self._query is not None and not queries.has_ended(self._query):
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_S)
        return True

    def _given_input(self) -> GivenInput:
        """Return the given records. Where nobody says what time it is, it is that of the newest of them."""
        given = self._request.given
        if given.HasField("now"):
            now_ms: int | None = given.now.ToMilliseconds()
        else:
            now_ms = newest_ms(given, self._computed.spec)
        tables = {table.table: tuple(table.records) for table in given.tables}
        return GivenInput(tables, start_offsets.millis(datetime.now(UTC)) if now_ms is None else now_ms)

    def _open_references(self, uses: Sequence[daggersql.Reference]) -> References:
        run_dir = self._computed.run_dir
        return References(
            uses,
            self._computed.spec.references,
            dagger=self._computed.spec.dagger,
            store=run_dir / rundir.KEPT,
            folder=run_dir / rundir.REFERENCES,
            clock=time.monotonic,
        )

    def _start(
        self,
        assembled: job.Job,
        path: str,
        references: References,
        rules: RangeRules,
        lookahead: timedelta,
    ) -> StreamingQuery:
        take = Take(assembled.targets[0].layout, self._rows)

        def batch(rows: DataFrame, _: int) -> None:
            try:
                references.refresh(self._computed.session)
                running = begin_batch(self._computed.session)
                closed = running.closes_until
                closing = closed is not None and closed > CLOSED_BY_RANGE
                gaps = assembled.source.registry.state().gaps()
                new = choose_rows(
                    rows, assembled.source.windows, late_until=running.late_until, closes_until=closed
                )
                flagged = mark_partial(new, gaps, lookahead, closing=closing)
                ruled = rules.begin_batch(flagged, closed)
                lines = ruled.mapInArrow(replace(take, rules=rules.select()), TAKEN).collect()
                self._count(lines)
                self._send_rows()
                parts = [([*map(bytes, line["ruled"])], line["nearest"]) for line in lines]
                until = None if closing else closed  # windows that a range cuts are not judged
                rules.end_batch(parts, until, gaps)
                end_batch(running, assembled.source)
            except BaseException as failure:
                self._failure = failure
                raise

        visible = mask_columns(assembled.rows, self._request.masked_columns)
        writer = visible.writeStream.queryName(self._computed.spec.dagger).outputMode("append")
        return (
            writer.option("checkpointLocation", path).foreachBatch(batch).trigger(availableNow=True).start()
        )

    def _count(self, lines: Sequence[Row]) -> None:
        for line in lines:
            self._counts.rows += line["rows"]
            self._counts.whole += line["whole"]
            self._counts.series |= series_of(bytes(line["series"]))

    def _send_rows(self) -> None:
        """Send the rows that have come from workers: also while a batch goes on."""
        counts = self._counts
        with self._sending:
            for step in self._rows.take_new():
                counts.sent += len(step.rows)
                counts.first_row = counts.first_row or time.monotonic()
                self._send(Step(rows=step))

    def _follow(self, query: StreamingQuery, records: int) -> bool:
        """Wait for the query's end, and stop it when nobody waits; return whether it ended in time."""
        sent_at, last = 0.0, None
        while query.isActive:
            self._send_rows()
            now = time.monotonic()
            late = now - self._began > limits.PREVIEW_S + self._live_s
            if late or self._over():
                queries.stop_patiently(query.stop)
                return not late
            if now - sent_at > _PROGRESS_S:
                read = sum(metrics.of(progress).rows for progress in query.recentProgress)
                step = gateway_pb2.PreviewProgress(
                    phase=gateway_pb2.PreviewProgress.PHASE_READING,
                    records=read,
                    records_total=0 if self._live_s else records,
                    rows=self._counts.rows,
                )
                sent_at = now
                if step != last:
                    last = step
                    self._send(Step(progress=step))
            time.sleep(_LOOK_S)
        return True

    def _summarize(self, query: StreamingQuery, assembled: job.Job, *, in_time: bool) -> Done:
        batches = [summarize_batch(progress, metrics.of(progress), 1) for progress in query.recentProgress]
        counts = self._counts
        left_out = counts.rows - counts.sent
        reason = Done.REASON_ROW_LIMIT if left_out else Done.REASON_END_OF_RANGE
        quarantined: Counter[str] = Counter()
        for batch in batches:
            quarantined.update(batch.quarantined)
        invalid = Counter(self._computed.functions.counts())
        for batch in batches:
            invalid.update(batch.invalid)
        done = Done(
            reason=reason if in_time else Done.REASON_TIME_LIMIT,
            records=sum(batch.rows for batch in batches),
            late=sum(batch.late for batch in batches),
            late_windows=sum(batch.late_windows for batch in batches),
            quarantined=quarantined,
            examples=read_examples(self._computed.run_dir),
            invalid=invalid,
            rows=counts.rows,
            rows_left_out=left_out,
            records_left_out=assembled.readers.left_out,
            series=len(counts.series),
            total_ms=round((time.monotonic() - self._began) * 1000),
            cpu_seconds=_cpu_s() - self._cpu_s,
        )
        if counts.first_row is not None:
            done.first_row_ms = round((counts.first_row - self._began) * 1000)
        self._cost(done, batches)
        done.empty = empty(done, whole=counts.whole)
        return done

    def _cost(self, done: Done, batches: Sequence[CommittedBatch]) -> None:
        """Estimate the cost of the running dagger from that of the preview."""
        if not done.records:
            return
        done.cost.cpu_seconds_per_million = done.cpu_seconds / done.records * 1e6
        done.cost.state_rows = max((batch.state_rows for batch in batches), default=0)
        if self._span_s:
            done.cost.records_per_second = done.records / self._span_s
            done.cost.cores = done.cpu_seconds / self._span_s
            done.cost.rows_per_minute = self._counts.whole / self._span_s * 60


def mask_columns(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Replace columns by NULL, so that Spark computes nothing of them.

    Values that must not be shown must not be exposed by an error, a size, or a count either.
    """
    for column in columns:
        quoted = f"`{column.replace('`', '``')}`"
        rows = rows.withColumn(column, F.lit(None).cast(rows.select(quoted).schema[0].dataType))
    return rows


def range_of(request: gateway_pb2.PreviewRange, plan: daggersql.Plan, now: datetime) -> tuple[Range, float]:
    """Return the range to read, by default as much as fills two windows, and its length.

    The length is in seconds of Kafka's time; 0 where it is not known.
    """
    match request.WhichOneof("kind"):
        case "last_records":
            return Range(limits.PREVIEW_RECORDS, last_records=request.last_records), 0.0
        case "between":
            begin, end = (getattr(request.between, name).ToDatetime(UTC) for name in ("from", "to"))
            read = Range(
                limits.PREVIEW_RECORDS, since=start_offsets.millis(begin), until=start_offsets.millis(end)
            )
            return read, (end - begin).total_seconds()
        case "live":
            live = request.live.ToTimedelta()
            begin, end = start_offsets.millis(now), start_offsets.millis(now + live)
            return Range(limits.PREVIEW_RECORDS, since=begin, live_until=end), live.total_seconds()
        case "last":
            last = request.last.ToTimedelta()
        case _:
            windows = windows_of(plan)
            twice = timedelta(milliseconds=2 * windows.size) if windows else LEAST
            last = min(max(LEAST, twice), limits.PREVIEW_LAST)
    read = Range(limits.PREVIEW_RECORDS, since=start_offsets.millis(now - last))
    return read, last.total_seconds()


def empty(done: Done, *, whole: int) -> Done.Empty.ValueType:
    """Find out why none of the rows is of a `whole` window: where the records are."""
    if whole or done.rows_left_out or done.reason == Done.REASON_TIME_LIMIT:
        return Done.EMPTY_UNSPECIFIED
    if done.rows:
        return Done.EMPTY_WINDOWS_OPEN
    if not done.records:
        return Done.EMPTY_QUARANTINED if done.quarantined else Done.EMPTY_NO_RECORDS
    return Done.EMPTY_LATE if done.late >= done.records else Done.EMPTY_FILTERED


def _cpu_s() -> float:
    return processes.measure_session(os.getsid(0)).cpu_seconds
