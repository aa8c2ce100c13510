"""Run the tasks of a batch in executors' Python workers: a range of offsets in, Arrow batches out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from daggersql import Condition
from runtime import members
from runtime.clients.quarantine import Quarantine
from runtime.recent import cache_in_use
from runtime.source.event_times import descriptor
from runtime.source.given_records import read_given
from runtime.source.offsets import Partition
from runtime.source.plan import ReaderPlan
from runtime.source.reader import preaggregate
from runtime.source.reader.consumers import ConsumerCache
from runtime.source.reader.control_rows import RangeStatistics, idle_advance_row, statistics_row
from runtime.source.reader.examples import Examples
from runtime.source.reader.late_records import OFFSET, LateRecords, late_target
from runtime.source.reader.marks import Marks, times_of
from runtime.source.reader.preaggregate import RowOutput
from runtime.source.reader.rows import QuarantinedRecord, Rows
from runtime.source.tasks import AdvanceWatermark, ReadRanges, Task
from runtime.source.watermark import Lateness

# A job-local property: the watermark (ms) that decides in the running batch which rows are late.
WATERMARK_PROPERTY = "daggers.lateWatermark"

_consumers = ConsumerCache()


def output(plan: ReaderPlan, lateness: Lateness | None = None) -> RowOutput:
    """Make the output of a task of this reader, in a batch whose rows may be late."""
    marks = Marks(len(plan.late_for) if plan.marks_late else 0, lateness, shows_closed=plan.has_gates)
    return preaggregate.output(_rows_of(plan).schema, plan.pre_aggregation, marks)


def run(plan: ReaderPlan, task: Task) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, data and control rows."""
    match task:
        case AdvanceWatermark():
            return iter([idle_advance_row(output(plan).schema, task.time_ms)])
        case ReadRanges():
            return _read_in_step(plan, task)


def _read_in_step(plan: ReaderPlan, task: ReadRanges) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges: what this worker does is in the log of its launch, and in its last word.

    Also what Spark does with the rows before it takes the next ones: a function of the query runs in between.
    """
    members.serve(plan.run_dir)
    with members.in_step(plan.dagger, plan.generation, "read"):
        yield from _read(plan, task)


def _read(plan: ReaderPlan, task: ReadRanges) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges, in order. Quarantined records are in the quarantine before this ends.

    Raises `JobError` when Kafka refuses; waits while it does not answer.
    """
    lateness = _lateness(plan)
    late = _late_records(plan, lateness)
    rows, out, statistics = _rows_of(plan, places=late is not None), output(plan, lateness), RangeStatistics()
    columns = [] if late is None else _rows_of(plan).schema.names
    quarantine: Quarantine | Examples | None = None
    ids = {range_.partition: range_.id for range_ in task.ranges}

    def set_aside(row: QuarantinedRecord, partition: Partition) -> None:
        nonlocal quarantine
        quarantine = quarantine or _set_aside(plan)
        record = rows.quarantine_record(row, partition)
        record.dagger, record.generation = plan.dagger, plan.generation
        record.topic_id = ids[partition]
        quarantine.put(record, ids[partition])

    def set_aside_late(refused: Iterator[tuple[QuarantinedRecord, Partition]]) -> None:
        for row, partition in refused:
            statistics.quarantined[row.reason] += 1
            set_aside(row, partition)

    for range_ in task.ranges:
        mended = plan.mended.get(range_.partition, {})
        read = (
            _consumers.read(plan, range_, task.siblings)
            if plan.given is None
            else read_given(plan.given, range_)
        )
        for records in read:
            batch, quarantined = rows.rows(
                records.replace_values(mended), range_.partition, task.planned_ms, statistics
            )
            if lateness is not None:
                statistics.add_late(times_of(batch), lateness, counted=not plan.marks_late)
            for row in quarantined:
                set_aside(row, range_.partition)
            if late is not None:
                set_aside_late(late.add(batch, records, range_.partition))
                batch = batch.select(columns)
            yield from out.add(batch, statistics)
    yield from out.rest()
    if late is not None:
        set_aside_late(late.flush())
    if not statistics.is_empty:
        yield statistics_row(out.schema, statistics)
    if quarantine is not None:
        quarantine.flush()


def _lateness(plan: ReaderPlan) -> Lateness | None:
    """Return what is closed for rows of the running batch; None where nothing closes.

    From the first batch on: Spark's watermark begins at 0, so whatever was before 1970 is closed.
    """
    task = TaskContext.get()
    watermark = None if task is None else task.getLocalProperty(WATERMARK_PROPERTY)
    if watermark is None or not plan.late_for:
        return None
    return Lateness(plan.late_for, int(watermark))


def _late_records(plan: ReaderPlan, lateness: Lateness | None) -> LateRecords | None:
    """Return where late records are written; None where none is late, or they are dropped."""
    if lateness is None or not plan.late_sink or plan.range_end is not None:
        return None
    return LateRecords(late_target(plan.dagger, plan.late_sink), lateness)


def _rows_of(plan: ReaderPlan, *, places: bool = False) -> Rows:
    """Return the decoder of records; with `places` their rows have the column OFFSET."""
    paths = (*plan.paths, OFFSET) if places and OFFSET not in plan.paths else plan.paths
    return _rows(plan.descriptors, plan.message, paths, plan.time_field, plan.tolerance, plan.conditions)


@cache_in_use
def _rows(
    descriptors: bytes,
    message: str,
    paths: tuple[str, ...],
    time_field: str,
    tolerance: int,
    conditions: tuple[Condition, ...],
) -> Rows:
    """Build the decoder of records: one for all tasks of a process, of any launch."""
    return Rows(descriptor(descriptors, message), paths, time_field, tolerance, conditions)


def _set_aside(plan: ReaderPlan) -> Quarantine | Examples:
    """Return where records go that cannot be rows; a preview only shows a few."""
    if plan.range_end is not None:
        return Examples(Path(plan.run_dir))
    return Quarantine(plan.platform)
