"""Run the dagger's query in Spark batches, over given records or a range of its streams, into its sinks.

A Spark batch has no watermark: nothing is late, and a window gets every record of it that Kafka still has.
"""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
from daggers.v1 import spec_pb2
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema

import daggersql
from chassis.logging import logger
from daggerspec import late, rundir, state
from daggerspec import sinks as rulebook
from daggerspec.columns import WINDOW_START
from daggerspec.launch import LaunchCatalogue
from daggersql.emit.rowconditions import with_conditions
from daggersql.plan import CLOSED, GATE
from runtime import functions, sinks
from runtime.errors import JobError
from runtime.launch import guard, job, planned
from runtime.launch.delivery import Delivery
from runtime.launch.launch import Computation
from runtime.launch.outages import pause_s
from runtime.launch.report import REPORT, Report, Trouble, read_report, trouble_of
from runtime.references.loading import References
from runtime.replay import verdicts
from runtime.replay.originals import Original
from runtime.replay.records import LateRecord, PassingRecord
from runtime.replay.sinklogs import SinkLogs
from runtime.replay.verdicts import Resolved
from runtime.sinks import BatchRef, Target
from runtime.source import readers, watermark
from runtime.source.bounded import open_range
from runtime.source.context import SourceContext
from runtime.source.offsets import Partition
from runtime.source.plan import milliseconds
from runtime.source.planner.ranges import Range
from runtime.source.reader.control_rows import ROWTIME, RangeStatistics
from runtime.source.reader.rows import Rows
from runtime.source.records import HEADERS, HEADERS_COLUMN, Records
from runtime.spark import session as spark


class ReplayQuery:
    """Computes the query of one dagger, for one attempt of a replay."""

    def __init__(
        self,
        computed: Computation,
        plan: daggersql.Plan,
        replay_id: str,
        *,
        force: bool,
        wait: Callable[[float], None],
        confirm: Callable[[], None],
        patience_s: float,
    ) -> None:
        """Check the query, and load its functions and references.

        force: write even where a newer row may stand. wait: sleeps for seconds. confirm: returns while this
        attempt may write. patience_s: how long a sink is retried. Raises: JobError; `wait` and `confirm`
        raise it when the attempt is over.
        """
        self._computed, self._plan, self._replay_id, self._force = computed, plan, replay_id, force
        self._spec, self._session = computed.spec, computed.session
        self._wait, self._confirm, self._patience_s = wait, confirm, patience_s
        self._reads = {read.table: read for read in plan.reads}
        self._streams = {
            stream.input.table: stream for stream in self._spec.streams if stream.input.table in self._reads
        }
        spark.compute_much_at_once(self._session)
        function_names: set[str] = set()
        for query in (plan, plan.partial_aggregation or plan):
            own = (*query.functions, *plan.condition_functions)
            guard.check(self._session, with_conditions(plan, query.spark_sql), self._reads, own)
            function_names.update(own)
        for name in sorted(function_names):
            functions.load(name).register(computed.functions)
        self._references = _start_references(computed, plan)
        self._logs = SinkLogs(self._spec)
        self._checked = False

    def write_rows(self, number: int, records: Sequence[PassingRecord]) -> Mapping[str, Resolved]:
        """Compute and write the rows of these records, batch `number` of the replay.

        Returns their outcomes by id of the record. Raises: JobError.
        """
        if not self._force and (why := self._check_newer_rows()) is not None:
            return {record.entry.id: why for record in records}
        batches, outcomes = self._decode(records)
        if len(outcomes) == len(records):
            return outcomes
        for table in self._reads:
            frame = self._session.createDataFrame(batches[table], from_arrow_schema(batches[table].schema))
            frame.createOrReplaceTempView(f"`{table}`")
        rows = self._compute(self._plan.spark_sql)
        batch = BatchRef(f"replay/{self._replay_id}/records", number, self._spec.generation)
        trouble = self._write(rows, self._targets(rows), batch)
        return {record.entry.id: trouble or verdicts.resolve_replayed() for record in records} | outcomes

    def recompute_windows(self, records: Sequence[LateRecord]) -> Mapping[str, Resolved]:
        """Compute the windows of these records again, from all records that Kafka still has of them.

        Returns outcomes by id of the record. Raises: JobError.
        """
        if not records:
            return {}
        if not self._force and (why := self._check_newer_rows()) is not None:
            return {record.entry.id: why for record in records}
        open_sinks, appending = self._split_by_overwriting()
        if appending and not (self._force and open_sinks):
            why = verdicts.resolve_not_replayable(
                "SINK_APPENDS",
                f"{', '.join(appending)} cannot take a row in place of another, so no window is computed"
                " again: replay with force to do it for the other sinks alone.",
            )
            return {record.entry.id: why for record in records}
        starts = {start for record in records for start in record.starts}
        source_readers, context = self._plan_range(min(starts))
        complete_ms = (
            max(
                (
                    share.complete_from
                    for shares in source_readers.assignment.shares.values()
                    for share in shares
                ),
                default=0,
            )
            // 1000
        )
        whole = sorted(start for start in starts if start >= complete_ms)
        trouble = self._write_windows(whole, records, source_readers, context, open_sinks) if whole else None
        gone = verdicts.resolve_not_replayable("RECORDS_GONE", "Kafka has deleted records of its windows.")
        return {
            record.entry.id: gone
            if min(record.starts) < complete_ms
            else trouble or verdicts.resolve_replayed()
            for record in records
        }

    def _write_windows(
        self,
        starts: Sequence[int],
        records: Sequence[LateRecord],
        source_readers: readers.Readers,
        context: SourceContext,
        open_sinks: Sequence[str],
    ) -> Resolved | None:
        """Write the rows of the windows that start at `starts`, in ms; return why that fails, if it does."""
        plan, window = self._plan, self._plan.window
        assert window is not None
        size_ms = watermark.windows(window).size
        edited_values: dict[str, dict[Partition, dict[int, bytes]]] = defaultdict(lambda: defaultdict(dict))
        for record in records:
            partition, offset = record.source
            if record.edited_value is not None:
                edited_values[record.table][partition][offset] = record.edited_value
        micros = F.unix_micros(F.col(ROWTIME))
        for table, stream in self._streams.items():
            read = self._reads[table]
            frame = open_range(
                self._session,
                stream,
                read,
                context,
                source_readers,
                plan.partial_aggregation,
                edited_values[table],
            )
            inside = (micros >= starts[0] * 1000) & (micros < (starts[-1] + size_ms) * 1000)
            frame.filter(inside).createOrReplaceTempView(f"`{table}`")
        rows = self._compute((plan.partial_aggregation or plan).spark_sql)
        wanted = F.unix_micros(F.col(WINDOW_START)).isin([start * 1000 for start in starts])
        targets = {
            name: replace(target, corrects=self._replay_id)
            for name, target in self._targets(rows).items()
            if name in open_sinks
        }
        batch = BatchRef(f"replay/{self._replay_id}/windows", 0, self._spec.generation)
        logger().info("replay.recompute_started", windows=len(starts), records=source_readers.records)
        return self._write(rows.filter(wanted).drop(GATE, CLOSED), targets, batch)

    def _plan_range(self, start_ms: int) -> tuple[readers.Readers, SourceContext]:
        """Assign the streams' ranges that have all records from this event time on. Raises: JobError."""
        tolerance = max(milliseconds(stream.input.future_tolerance) for stream in self._streams.values())
        context = SourceContext(
            dagger=self._spec.dagger,
            generation=self._spec.generation,
            checkpoint="",
            run_dir=self._computed.run_dir,
            platform=self._spec.platform,
            descriptors=self._spec.descriptors,
            windows=watermark.windows_of(self._plan),
            consumer_group=self._spec.spec.consumer_group,
            slots=spark.slots(self._session),
            # An event is at most `future_tolerance` ahead of its Kafka time: older records cannot belong to
            # the range.
            range=Range(sys.maxsize, since=max(start_ms - tolerance, 0)),
        )
        return readers.assign(self._session, self._streams, context), context

    def _decode(self, records: Sequence[PassingRecord]) -> tuple[dict[str, pa.Table], dict[str, Resolved]]:
        """Decode records into rows by table; the second value has the outcomes of those that fail."""
        batches: dict[str, list[pa.RecordBatch]] = {table: [] for table in self._reads}
        outcomes: dict[str, Resolved] = {}
        decoders = {table: self._decoder(table) for table in self._reads}
        by_partition: dict[tuple[str, Partition], list[PassingRecord]] = defaultdict(list)
        for record in records:
            by_partition[record.table, record.source[0]].append(record)
        now_ms = int(time.time() * 1000)
        for (table, partition), of_partition in by_partition.items():
            of_partition.sort(key=lambda record: record.source[1])
            read = _to_source_records(of_partition, headers=HEADERS_COLUMN in self._reads[table].paths)
            batch, refusals = decoders[table].rows(read, partition, now_ms, RangeStatistics())
            batches[table].append(batch)
            for refusal in refusals:
                entry = of_partition[refusal.index].entry
                outcomes[entry.id] = verdicts.resolve_failed_again(
                    entry, refusal.reason.value, refusal.detail
                )
        tables = {
            table: pa.Table.from_batches(table_batches, schema=decoders[table].schema)
            for table, table_batches in batches.items()
        }
        return tables, outcomes

    def _decoder(self, table: str) -> Rows:
        stream, read = self._streams[table], self._reads[table]
        message = LaunchCatalogue(self._spec).message(stream.stream.message)
        time_field = "" if read.undecoded else stream.stream.time_field
        paths = tuple(path for path in read.paths if path != ROWTIME)
        return Rows(message, paths, time_field, milliseconds(stream.input.future_tolerance), read.wanted)

    def _compute(self, sql: str) -> DataFrame:
        self._references.refresh(self._session)
        return spark.rows(self._session, with_conditions(self._plan, sql))

    def _targets(self, rows: DataFrame) -> dict[str, Target]:
        targets = job.targets(self._spec, self._plan, rows, state.updates(self._spec.spec))
        return {target.name: replace(target, is_replay=True) for target in targets}

    def _check_newer_rows(self) -> Resolved | None:
        """Return why nothing is written: in some sinks a row has its own key, and may replace a newer one."""
        layout = planned.layout(self._spec, self._plan)
        keyed = [name for name, sink in self._sinks_by_name() if rulebook.has_own_key(sink, layout)]
        return verdicts.resolve_newer_may_exist(", ".join(keyed)) if keyed else None

    def _sinks_by_name(self) -> Iterator[tuple[str, spec_pb2.Sink]]:
        """Yield the sinks of rows with their names."""
        sinks_ = [resolved.sink for resolved in self._spec.sinks]
        named = zip(rulebook.display_names(sinks_), sinks_, strict=True)
        return ((name, sink) for name, sink in named if not late.takes_late(self._spec.spec, sink))

    def _split_by_overwriting(self) -> tuple[list[str], list[str]]:
        """Split the sinks' names: those in which a new row replaces the one before, and those that append."""
        able = {name: rulebook.overwrites(sink) for name, sink in self._sinks_by_name()}
        return [name for name in able if able[name]], [name for name in able if not able[name]]

    def _write(self, rows: DataFrame, targets: Mapping[str, Target], batch: BatchRef) -> Resolved | None:
        """Write the rows, retrying within the patience; return why the sinks do not take them, or None.

        Rows that a sink refuses are quarantined, as in every batch. Raises: JobError when the attempt is
        over.
        """
        try:
            if not self._checked:
                job.check_sinks(tuple(targets.values()))
                self._checked = True
        except JobError as error:
            return verdicts.resolve_not_replayable(error.error.reason, error.error.detail)
        delivery = Delivery(
            tuple(targets.values()),
            self._spec.generation,
            self._spec.platform.SerializeToString(deterministic=True),
            batch_id=batch.batch_id,
            done=frozenset(),
            checkpoint=batch.checkpoint,
            may_refuse=True,
        )
        rows = rows.repartition(1)  # the same rows in the same part, in every attempt
        total, began = Report(), time.monotonic()
        for attempt in count(1):
            self._confirm()
            if not (troubles := self._find_waiting(targets)):
                reports = rows.mapInArrow(replace(delivery, done=total.done), REPORT).collect()
                total = total.merge(read_report(reports))
                troubles = dict(total.troubles)
            if not troubles:
                troubles = _commit_staged(targets, batch, total, self._confirm)
            if not troubles:
                logger().info("replay.rows_written", rows=dict(total.written), refused=dict(total.refused))
                return None
            [(sink, trouble), *_] = sorted(troubles.items())
            if time.monotonic() - began > self._patience_s:
                return verdicts.resolve_not_replayable(trouble.error.reason, trouble.error.detail)
            logger().warning(
                "replay.delayed", sink=sink, reason=trouble.error.reason, detail=trouble.error.detail
            )
            self._wait(pause_s(attempt, random.random(), trouble.retry_after))  # noqa: S311 - jitter
        raise AssertionError  # `count` does not end

    def _find_waiting(self, names: Collection[str]) -> dict[str, Trouble]:
        """Find the sinks that rows wait for, which come before those of a replay."""
        troubles = {}
        for name in names:
            try:
                self._logs.check_empty(name)
            except JobError as error:
                troubles[name] = trouble_of(name, error)
        return troubles


def _commit_staged(
    targets: Mapping[str, Target], batch: BatchRef, total: Report, confirm: Callable[[], None]
) -> dict[str, Trouble]:
    """Commit what the workers have staged; return the troubles of sinks that did not take it, by name.

    Raises: JobError when the attempt is over.
    """
    troubles = {}
    for name, staged in total.receipts.items():
        confirm()
        try:
            sinks.commit(targets[name], batch, staged)
        except JobError as error:
            troubles[name] = trouble_of(name, error)
    return troubles


def _start_references(computed: Computation, plan: daggersql.Plan) -> References:
    references = References(
        plan.references,
        computed.spec.references,
        dagger=computed.spec.dagger,
        store=computed.run_dir / rundir.KEPT,
        folder=computed.run_dir / rundir.REFERENCES,
        clock=time.monotonic,
    )
    references.start()
    return references


def _to_source_records(records: Sequence[PassingRecord], *, headers: bool) -> Records:
    """Convert records of one partition, in the order of their offsets, to the columns that a source reads."""
    originals: list[Original] = [record.original for record in records]
    header_rows = [[{"key": name, "value": value} for name, value in one.headers] for one in originals]
    return Records(
        np.array([record.source[1] for record in records], np.int64),
        np.array([one.time_ms for one in originals], np.int64),
        pa.array([one.value for one in originals], pa.binary()),
        pa.array([one.key for one in originals], pa.binary()),
        pa.array(header_rows, HEADERS) if headers else None,
    )
