"""The half of a reader that runs in executors' Python workers: a range of offsets in, Arrow batches out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
from pyspark import TaskContext

from runtime.clients.quarantine import Quarantine
from runtime.source.plan import ReaderPlan
from runtime.source.reader import control_rows as notes
from runtime.source.reader.control_rows import Tally
from runtime.source.reader.ranges import Consumers, Range
from runtime.source.reader.rows import Aside, Rows

# A job-local property: the watermark (ms) that decides in the running batch which rows are late.
WATERMARK_PROPERTY = "daggers.lateWatermark"

_consumers = Consumers()


def read_tick(plan: ReaderPlan, time_ms: int) -> Iterator[pa.RecordBatch]:
    """The one row of a tick."""
    yield notes.tick(plan.view().schema, time_ms)


def read_ranges(
    plan: ReaderPlan, ranges: Sequence[Range], planned_ms: int, siblings: int
) -> Iterator[pa.RecordBatch]:
    """The rows of ranges, in order. Records that were set aside are in the quarantine before this ends.

    `siblings` is the number of partitions the reader reads. Raises `JobError` when Kafka refuses; waits while
    it does not answer.
    """
    rows, view, tally = plan.rows(), plan.view(), Tally()
    late_before_ms = _late_before(plan)
    quarantine: Quarantine | None = None
    for what in ranges:
        for messages in _consumers.read(what, plan.kafka, plan.group, siblings):
            batch, aside = rows.rows(messages, what.partition, planned_ms, late_before_ms, tally)
            if aside:
                quarantine = quarantine or _quarantine(plan)
                _set_aside(quarantine, plan, rows, what, aside)
            yield from view.add(batch, tally)
    yield from view.rest()
    if not tally.is_empty:
        yield notes.note(view.schema, tally)
    if quarantine is not None:
        quarantine.flush()


def _set_aside(quarantine: Quarantine, plan: ReaderPlan, rows: Rows, what: Range, aside: list[Aside]) -> None:
    for one in aside:
        record = rows.quarantined(one, what.partition)
        record.dagger, record.generation = plan.dagger, plan.generation
        quarantine.put(record, what.id)


def _late_before(plan: ReaderPlan) -> int | None:
    """Rows before this event time (ms) come after a last window was closed; None where nothing closes.

    From the first batch on: Spark's watermark begins at 0, so whatever was before 1970 is closed.
    """
    task = TaskContext.get()
    watermark = None if task is None else task.getLocalProperty(WATERMARK_PROPERTY)
    if watermark is None:
        return None
    return max((each.first_in_time(int(watermark)) for each in plan.late_for), default=None)


def _quarantine(plan: ReaderPlan) -> Quarantine:
    return _quarantine_of(tuple(sorted(plan.platform.items())))


@lru_cache(maxsize=4)
def _quarantine_of(properties: tuple[tuple[str, str], ...]) -> Quarantine:
    return Quarantine(dict(properties))
