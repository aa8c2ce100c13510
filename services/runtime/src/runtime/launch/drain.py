"""Write from the log of one sink to the sink, batch after batch in order, in a thread of the driver.

A batch is written as the same partitions of the same batch that it was, and committed where the sink stages:
what a kill left half done is done again, and is there once. Behind each the log is deleted up to its marker.
With `emit: early` several batches are written as the last of them, the newest row of each key. Where the log
is full and the rule is to skip, the oldest batches are quarantined.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

import pyarrow as pa

from chassis import threads
from chassis.logging import logger
from runtime import sinks
from runtime.errors import FencedError, JobError, TemporaryError, external
from runtime.launch import freshness, progress
from runtime.launch.delivery import Delivery, PartWriting
from runtime.launch.lane import Lane
from runtime.launch.launch import Launch
from runtime.launch.outages import pause_s
from runtime.launch.printing import print_rows
from runtime.launch.report import Report, read_report, trouble_of
from runtime.spool.marker import Marker, choose_target
from runtime.spool.state import Whole
from runtime.spool.writer import from_stream, select_newest

GONE: Final = "The sink was taken out of the dagger before it had this row."
SLOW: Final = "The sink takes rows more slowly than they come, and as many wait as may."
_UNREACHABLE: Final = "KAFKA_UNREACHABLE"


class Drainer:
    """Writes the whole batches of a lane to its sink until the launch stops."""

    def __init__(self, launch: Launch, lane: Lane) -> None:
        self._launch, self._lane = launch, lane
        self._platform = launch.spec.platform.SerializeToString(deterministic=True)
        self._written: tuple[int, Report] | None = None
        """End of the batches that the sink has, and what became of their rows: the log may have them."""

    def start(self) -> None:
        """Begin, in a thread of its own."""
        threads.start(self._run, f"drain-{self._lane.name}")

    def _run(self) -> None:
        stopping = self._launch.stopping
        try:
            attempt = 1
            while wholes := self._lane.wait_for_next(stopping):
                attempt = 1 if self._try(wholes, attempt) else attempt + 1
        except FencedError:
            return  # the driver finds out by itself, and ends
        except BaseException as failure:  # noqa: BLE001 - the next batch raises it
            logger().warning("spool.drain_failed", sink=self._lane.name, why=repr(failure))
            self._lane.fail(failure)

    def _try(self, wholes: Sequence[Whole[Marker]], attempt: int) -> bool:
        """Write the first whole batches and take them off; tell whether the next ones are to be looked for.
        Waits where they are not.

        Raises: JobError for what waiting cannot help.
        """
        lane, launch = self._lane, self._launch
        began = time.monotonic()
        try:
            if self._written is not None and self._written[0] == wholes[-1].end:
                report = self._written[1]  # its rows could not be deleted: they are not written again
            else:
                report = self._write(wholes, why_not=GONE if lane.target is None else "")
            trouble = report.troubles.get(lane.name)
            if trouble is None:
                self._written = wholes[-1].end, report
                launch.lease.confirm()
                lane.take_off(wholes, time.monotonic() - began)
                self._report_drained(report)
                lane.delete_log()
                self._make_room()
                return True
            lane.set_trouble(trouble)
            if self._make_room():
                return True
        except JobError as error:
            trouble = trouble_of(lane.name, error)
            lane.set_trouble(trouble)
        launch.stopping.wait(pause_s(attempt, random.random(), trouble.retry_after))  # noqa: S311 - jitter
        if trouble.error.reason == _UNREACHABLE:  # the log could not be read: that is no outage of the sink
            lane.postpone(time.monotonic() - began)
        return False

    def _make_room(self) -> bool:
        """Quarantine the oldest whole batches while the log has to overflow; tell whether there were any.

        Its sink was tried before: one that is back gets what waits, of one that refuses most rows none is
        quarantined. Raises: JobError.
        """
        lane, launch, has_overflown = self._lane, self._launch, False
        if lane.is_flooded:
            return False
        while lane.must_overflow and (whole := lane.first) is not None and not launch.stopping.is_set():
            trouble = lane.trouble
            report = self._write([whole], why_not=trouble.error.detail if trouble is not None else SLOW)
            if (failed := report.troubles.get(lane.name)) is not None:
                lane.set_trouble(failed)
                break
            launch.lease.confirm()
            lane.let_overflow(whole, report.skipped.total())
            self._report_drained(report, is_overflow=True)
            has_overflown = True
        return has_overflown

    def _write(self, wholes: Sequence[Whole[Marker]], why_not: str = "") -> Report:
        """Write all partitions of batches as the last of them, and commit them where the sink stages.

        why_not: why the rows are quarantined in place of it. Raises: JobError.
        """
        marker, launch = wholes[-1].content, self._launch
        target = replace(choose_target(marker.target, self._lane.target), condition="")
        delivery = Delivery(
            (target,),
            marker.batch.generation,
            self._platform,
            marker.batch.batch_id,
            frozenset(),
            checkpoint=marker.batch.checkpoint,
            may_refuse=launch.may_refuse(),
            skipped={target.name: why_not} if why_not else {},
        )
        # The rows may be of an older specification, and go to the address that the sink had then.
        with nullcontext() if why_not else sinks.clients_of(target), launch.in_step("drain"):
            launch.lease.confirm()
            parts = self._write_rows(wholes, delivery)
            report = read_report(
                {"partition": number, **line} for number, part in parts.items() for line in part.finish()
            )
            staged = report.receipts.get(target.name, ())
            if staged and not report.troubles:
                launch.lease.confirm()
                sinks.commit(target, marker.batch, staged)
        print_rows(report, {target.name: target})
        return report

    def _write_rows(self, wholes: Sequence[Whole[Marker]], delivery: Delivery) -> dict[int, PartWriting]:
        """Write the rows of batches as their partitions, of several batches the newest of each key.

        Raises: JobError.
        """
        rows = self._read_rows(wholes)
        if len(wholes) > 1:
            rows = select_newest(list(rows), wholes[-1].content.target.layout)
        numbers = {part.number for whole in wholes for part in whole.content.parts}
        parts = {number: PartWriting(delivery, number) for number in sorted(numbers)}
        for number, batch in rows:
            parts[number].write(batch)
        return parts

    def _read_rows(self, wholes: Sequence[Whole[Marker]]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows with the numbers of their partitions; what other attempts have appended is passed over.

        Raises: JobError.
        """
        appended = [part for whole in wholes for part in whole.content.parts]
        numbers = {part.attempt: part.number for part in appended}
        missing = Counter({part.attempt: part.records for part in appended})
        for _, record in self._lane.log.read(self._lane.begin, wholes[-1].end):
            if (number := numbers.get(record.attempt)) is None:
                continue
            if self._launch.stopping.is_set():
                raise TemporaryError("STOPPING", "The driver stops.")
            missing[record.attempt] -= 1
            for batch in from_stream(record.value):
                yield number, batch
        if left := +missing:
            detail = f"{left.total()} records are missing in the log of its rows: it was deleted by hand."
            raise external("SPOOL_DAMAGED", detail, retryable=True)

    def _report_drained(self, report: Report, *, is_overflow: bool = False) -> None:
        """Report the rows that the sink has now, or the quarantine."""
        name, now = self._lane.name, datetime.now(UTC)
        ages = freshness.count_acknowledged(report.ages.get(name, ()), time.time())
        step = partial(
            progress.rows_drained,
            sink=name,
            rows=report.written[name],
            refused=report.refused,
            time=now,
            ages=ages,
            is_overflow=is_overflow,
        )
        self._launch.heartbeat.update(step)
        self._lane.announce()  # behind it: who sees nothing wait sees all rows counted
