"""The dagger's query over records that are given, or over a range of its streams, in batches of Spark's: into
its sinks, as every batch goes.

A batch has no watermark: nothing is late, and windows have every record that Kafka still has of them.
"""

from __future__ import annotations

import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from daggerspec import rundir, state
from daggerspec import sinks as rulebook
from daggerspec.columns import WINDOW_START
from daggerspec.launch import LaunchCatalogue
from daggersql.emit.rowconditions import with_conditions
from runtime import functions, sinks
from runtime.errors import JobError
from runtime.launch import guard, job, planned
from runtime.launch.delivery import Delivery
from runtime.launch.launch import Computed
from runtime.launch.outages import pause_s
from runtime.launch.report import REPORT, Report, Trouble, read_report, trouble_of
from runtime.references.loading import References
from runtime.replay import verdicts
from runtime.replay.originals import Original
from runtime.replay.records import Counts, Passes
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


class Query:
    """The query of one dagger, for one attempt of a replay."""

    def __init__(
        self,
        computed: Computed,
        plan: daggersql.Plan,
        replay_id: str,
        *,
        force: bool,
        wait: Callable[[float], None],
        confirm: Callable[[], None],
        patience_s: float,
    ) -> None:
        """As `sinkrows.SinkRows`. Raises: JobError."""
        self._computed, self._plan, self._replay_id, self._force = computed, plan, replay_id, force
        self._spec, self._session = computed.spec, computed.session
        self._wait, self._confirm, self._patience_s = wait, confirm, patience_s
        self._reads = {read.table: read for read in plan.reads}
        self._streams = {
            stream.input.table: stream for stream in self._spec.streams if stream.input.table in self._reads
        }
        spark.compute_much_at_once(self._session)
        called: set[str] = set()
        for query in (plan, plan.partial_aggregation or plan):
            own = (*query.functions, *plan.condition_functions)
            guard.check(self._session, with_conditions(plan, query.spark_sql), self._reads, own)
            called.update(own)
        for name in sorted(called):
            functions.load(name).register(computed.functions)
        self._references = _references(computed, plan)
        self._checked = False

    def pass_on(self, number: int, records: Sequence[Passes]) -> Mapping[str, Resolved]:
        """Write the rows of these records, the so-manieth of the replay; what became of each, by id.

        Raises: JobError.
        """
        if not self._force and (why := self._older()) is not None:
            return {record.kept.id: why for record in records}
        batches, outcomes = self._rows_of(records)
        if len(outcomes) == len(records):
            return outcomes
        for table in self._reads:
            frame = self._session.createDataFrame(batches[table], from_arrow_schema(batches[table].schema))
            frame.createOrReplaceTempView(f"`{table}`")
        rows = self._computed_rows(self._plan.spark_sql)
        batch = BatchRef(f"replay/{self._replay_id}/records", number, self._spec.generation)
        trouble = self._write(rows, self._targets(rows), batch)
        return {record.kept.id: trouble or verdicts.replayed() for record in records} | outcomes

    def count(self, records: Sequence[Counts]) -> Mapping[str, Resolved]:
        """Compute the windows of these records again, from all that Kafka has of them; what became of each.

        Raises: JobError.
        """
        if not records:
            return {}
        if not self._force and (why := self._older()) is not None:
            return {record.kept.id: why for record in records}
        open_sinks, fixed = self._overwriting()
        if fixed and not (self._force and open_sinks):
            why = verdicts.not_replayable(
                "SINK_APPENDS",
                f"{', '.join(fixed)} cannot take a row in place of another, so no window is computed again:"
                " replay with force to do it for the other sinks alone.",
            )
            return {record.kept.id: why for record in records}
        starts = {start for record in records for start in record.starts}
        who, context = self._range(min(starts))
        complete_ms = max(
            (share.complete_from for shares in who.assignment.shares.values() for share in shares), default=0
        ) // 1000  # fmt: skip
        whole = sorted(start for start in starts if start >= complete_ms)
        trouble = self._write_windows(whole, records, who, context, open_sinks) if whole else None
        gone = verdicts.not_replayable("RECORDS_GONE", "Kafka has deleted records of its windows.")
        return {
            record.kept.id: gone if min(record.starts) < complete_ms else trouble or verdicts.replayed()
            for record in records
        }

    def _write_windows(
        self,
        starts: Sequence[int],
        records: Sequence[Counts],
        who: readers.Readers,
        context: SourceContext,
        open_sinks: Sequence[str],
    ) -> Resolved | None:
        """Write the rows of windows that begin then; why they are not written."""
        plan, window = self._plan, self._plan.window
        assert window is not None
        size_ms = watermark.windows(window).size
        mended: dict[str, dict[Partition, dict[int, bytes]]] = defaultdict(lambda: defaultdict(dict))
        for record in records:
            partition, offset = record.source
            if record.mended is not None:
                mended[record.table][partition][offset] = record.mended
        micros = F.unix_micros(F.col(ROWTIME))
        for table, stream in self._streams.items():
            read = self._reads[table]
            frame = open_range(
                self._session, stream, read, context, who, plan.partial_aggregation, mended[table]
            )
            inside = (micros >= starts[0] * 1000) & (micros < (starts[-1] + size_ms) * 1000)
            frame.filter(inside).createOrReplaceTempView(f"`{table}`")
        rows = self._computed_rows((plan.partial_aggregation or plan).spark_sql)
        wanted = F.unix_micros(F.col(WINDOW_START)).isin([start * 1000 for start in starts])
        targets = {
            name: replace(target, corrects=self._replay_id)
            for name, target in self._targets(rows).items()
            if name in open_sinks
        }
        batch = BatchRef(f"replay/{self._replay_id}/windows", 0, self._spec.generation)
        logger().info("replay.recompute_started", windows=len(starts), records=who.records)
        return self._write(rows.filter(wanted), targets, batch)

    def _range(self, start_ms: int) -> tuple[readers.Readers, SourceContext]:
        """What has to be read to have all records from an event time on. Raises: JobError."""
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
            # What is older by Kafka's time than this is older by event time, whatever its clock was.
            range=Range(sys.maxsize, since=max(start_ms - tolerance, 0)),
        )
        return readers.assign(self._session, self._streams, context), context

    def _rows_of(self, records: Sequence[Passes]) -> tuple[dict[str, pa.Table], dict[str, Resolved]]:
        """What the views have, by table, and what is said of records that cannot be rows."""
        batches: dict[str, list[pa.RecordBatch]] = {table: [] for table in self._reads}
        outcomes: dict[str, Resolved] = {}
        decoders = {table: self._decoder(table) for table in self._reads}
        by_partition: dict[tuple[str, Partition], list[Passes]] = defaultdict(list)
        for record in records:
            by_partition[record.table, record.source[0]].append(record)
        now_ms = int(time.time() * 1000)
        for (table, partition), some in by_partition.items():
            some.sort(key=lambda record: record.source[1])
            read = _read(some, headers=HEADERS_COLUMN in self._reads[table].paths)
            batch, wrong = decoders[table].rows(read, partition, now_ms, RangeStatistics())
            batches[table].append(batch)
            for refused in wrong:
                kept = some[refused.index].kept
                outcomes[kept.id] = verdicts.failed_again(kept, refused.reason.value, refused.detail)
        tables = {
            table: pa.Table.from_batches(some, schema=decoders[table].schema)
            for table, some in batches.items()
        }
        return tables, outcomes

    def _decoder(self, table: str) -> Rows:
        stream, read = self._streams[table], self._reads[table]
        message = LaunchCatalogue(self._spec).message(stream.stream.message)
        time_field = "" if read.undecoded else stream.stream.time_field
        paths = tuple(path for path in read.paths if path != ROWTIME)
        return Rows(message, paths, time_field, milliseconds(stream.input.future_tolerance), read.wanted)

    def _computed_rows(self, sql: str) -> DataFrame:
        self._references.refresh(self._session)
        return spark.rows(self._session, with_conditions(self._plan, sql))

    def _targets(self, rows: DataFrame) -> dict[str, Target]:
        made = job.targets(self._spec, self._plan, rows, state.updates(self._spec.spec))
        return {target.name: replace(target, is_replay=True) for target in made}

    def _older(self) -> Resolved | None:
        """Why rows are not written that go by another key than their own; None: there is no such sink."""
        layout = planned.layout(self._spec, self._plan)
        keyed = [name for name, sink in self._named() if rulebook.has_own_key(sink, layout)]
        return verdicts.newer_may_exist(", ".join(keyed)) if keyed else None

    def _named(self) -> Iterator[tuple[str, spec_pb2.Sink]]:
        sinks_ = [resolved.sink for resolved in self._spec.sinks]
        return zip(rulebook.called(sinks_), sinks_, strict=True)

    def _overwriting(self) -> tuple[list[str], list[str]]:
        """The sinks in which a row takes the place of the one before, and those in which none does."""
        able = {name: rulebook.overwrites(sink) for name, sink in self._named()}
        return [name for name in able if able[name]], [name for name in able if not able[name]]

    def _write(self, rows: DataFrame, targets: Mapping[str, Target], batch: BatchRef) -> Resolved | None:
        """Write the rows, as long as it takes; why the sinks do not take them. Raises: JobError.

        Rows that a sink refuses are set aside, as those of every batch.
        """
        try:
            if not self._checked:
                job.check_sinks(tuple(targets.values()))
                self._checked = True
        except JobError as error:
            return verdicts.not_replayable(error.error.reason, error.error.detail)
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
            told = rows.mapInArrow(replace(delivery, done=total.done), REPORT).collect()
            total = total.then(read_report(told))
            troubles = dict(total.troubles)
            if not troubles:
                troubles = _committed(targets, batch, total, self._confirm)
            if not troubles:
                logger().info("replay.rows_written", rows=dict(total.written), refused=dict(total.refused))
                return None
            [(sink, trouble), *_] = sorted(troubles.items())
            if time.monotonic() - began > self._patience_s:
                return verdicts.not_replayable(trouble.error.reason, trouble.error.detail)
            logger().warning(
                "replay.delayed", sink=sink, reason=trouble.error.reason, detail=trouble.error.detail
            )
            self._wait(pause_s(attempt, random.random(), trouble.retry_after))  # noqa: S311 - jitter
        raise AssertionError  # it counts for ever


def _committed(
    targets: Mapping[str, Target], batch: BatchRef, total: Report, confirm: Callable[[], None]
) -> dict[str, Trouble]:
    """Make valid what workers have staged; the sinks that must be asked again. Raises: JobError."""
    troubles = {}
    for name, staged in total.receipts.items():
        confirm()
        try:
            sinks.commit(targets[name], batch, staged)
        except JobError as error:
            troubles[name] = trouble_of(name, error)
    return troubles


def _references(computed: Computed, plan: daggersql.Plan) -> References:
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


def _read(records: Sequence[Passes], *, headers: bool) -> Records:
    """Records of one partition, in the order of their offsets, as a reader has them."""
    held: list[Original] = [record.original for record in records]
    told = [[{"key": name, "value": value} for name, value in one.headers] for one in held]
    return Records(
        np.array([record.source[1] for record in records], np.int64),
        np.array([one.time_ms for one in held], np.int64),
        pa.array([one.value for one in held], pa.binary()),
        pa.array([one.key for one in held], pa.binary()),
        pa.array(told, HEADERS) if headers else None,
    )
