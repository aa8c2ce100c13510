"""Write from the log of one sink to the sink, batch after batch in order, in a thread of the driver.

A batch is written as the same partitions of the same batch that it was, and committed where the sink stages:
what a kill left half done is done again, and is there once. Behind each the log is deleted up to its marker.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count

from chassis import threads
from chassis.logging import logger
from runtime import sinks
from runtime.errors import FencedError, JobError, TemporaryError, external
from runtime.launch import freshness, progress
from runtime.launch.delivery import Delivery, PartWriting
from runtime.launch.lane import Lane
from runtime.launch.launch import Launch
from runtime.launch.outages import pause_s
from runtime.launch.report import Report, read_report, trouble_of
from runtime.spool.marker import Marker, choose_target
from runtime.spool.state import Whole
from runtime.spool.writer import from_stream

GONE = "The sink was taken out of the dagger before it had this row."


class Drainer:
    """Writes the whole batches of a lane to its sink until the launch stops."""

    def __init__(self, launch: Launch, lane: Lane, guard: threading.Lock) -> None:
        """guard: of the clients of this kind of sink, which serve one thread at a time."""
        self._launch, self._lane, self._guard = launch, lane, guard
        self._platform = launch.spec.platform.SerializeToString(deterministic=True)
        self._written: tuple[int, Report] | None = None
        """End of the batch that the sink has, and what became of its rows; it may still stand in the log."""

    def start(self) -> None:
        """Begin, in a thread of its own."""
        threads.start(self._run, f"drain-{self._lane.name}")

    def _run(self) -> None:
        stopping = self._launch.stopping
        try:
            while (whole := self._lane.wait_for_first(stopping)) is not None:
                for attempt in count(1):
                    if stopping.is_set() or self._try(whole, attempt):  # it waits between two
                        break
        except FencedError:
            return  # the driver finds out by itself, and ends
        except BaseException as failure:  # noqa: BLE001 - the next batch raises it
            logger().warning("spool.drain_failed", sink=self._lane.name, why=repr(failure))
            self._lane.fail(failure)

    def _try(self, whole: Whole[Marker], attempt: int) -> bool:
        """Write the first whole batch and take it off; tell whether that is done. Waits where it is not.

        Raises: JobError for what waiting cannot help.
        """
        lane, launch = self._lane, self._launch
        try:
            if self._written is not None and self._written[0] == whole.end:
                report = self._written[1]  # its rows could not be deleted: they are not written again
            else:
                with self._guard:
                    report = self._write(whole)
            trouble = report.troubles.get(lane.name)
            if trouble is None:
                self._written = whole.end, report
                launch.lease.confirm()
                lane.take_off(whole)
                self._report_drained(report)
                return True
        except JobError as error:
            trouble = trouble_of(lane.name, error)
        lane.set_trouble(trouble)
        launch.stopping.wait(pause_s(attempt, random.random(), trouble.retry_after))  # noqa: S311 - jitter
        return False

    def _write(self, whole: Whole[Marker]) -> Report:
        """Write all partitions of a batch, and commit them where the sink stages. Raises: JobError."""
        marker, launch = whole.content, self._launch
        target = replace(choose_target(marker.target, self._lane.target), condition="")
        is_gone = self._lane.target is None
        delivery = Delivery(
            (target,),
            marker.batch.generation,
            self._platform,
            marker.batch.batch_id,
            frozenset(),
            checkpoint=marker.batch.checkpoint,
            may_refuse=launch.may_refuse(),
            skipped={target.name: GONE} if is_gone else {},
        )
        launch.lease.confirm()
        parts = self._write_rows(whole, delivery)
        report = read_report(
            {"partition": number, **line} for number, part in parts.items() for line in part.finish()
        )
        staged = report.receipts.get(target.name, ())
        if staged and not report.troubles:
            launch.lease.confirm()
            sinks.commit(target, marker.batch, staged)
        return report

    def _write_rows(self, whole: Whole[Marker], delivery: Delivery) -> dict[int, PartWriting]:
        """Write the rows of a batch as its partitions; what other attempts have appended is passed over.

        Raises: JobError.
        """
        numbers = {part.attempt: part.number for part in whole.content.parts}
        missing = Counter({part.attempt: part.records for part in whole.content.parts})
        parts = {number: PartWriting(delivery, number) for number in numbers.values()}
        for _, record in self._lane.log.read(self._lane.begin, whole.end):
            if (number := numbers.get(record.attempt)) is None:
                continue
            if self._launch.stopping.is_set():
                raise TemporaryError("STOPPING", "The driver stops.")
            missing[record.attempt] -= 1
            for rows in from_stream(record.value):
                parts[number].write(rows)
        if left := +missing:
            detail = f"{left.total()} records are missing in the log of its rows: it was deleted by hand."
            raise external("SPOOL_DAMAGED", detail, retryable=True)
        return parts

    def _report_drained(self, report: Report) -> None:
        """Report the rows that the sink has now."""
        name, now = self._lane.name, datetime.now(UTC)
        ages = freshness.count_acknowledged(report.ages.get(name, ()), time.time())
        step = partial(
            progress.rows_drained,
            sink=name,
            rows=report.written[name],
            refused=report.refused,
            time=now,
            ages=ages,
        )
        self._launch.heartbeat.update(step)
