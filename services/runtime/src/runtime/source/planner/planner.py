"""Which offsets each batch of one reader has, and what its tasks do.

A planner knows no Spark, keeps its state in itself and shares none: it works in whatever process or thread
asks it. Kafka not answering is not an error here: there is nothing new, and event time stands still, until it
answers again.
"""

from __future__ import annotations

import logging
import time
from functools import cached_property

from confluent_kafka import KafkaException

from runtime.errors import TemporaryError
from runtime.source.event_times import EventTimes
from runtime.source.offsets import Offsets, Positions
from runtime.source.plan import ReaderPlan
from runtime.source.planner.batch_end import BatchEnd
from runtime.source.planner.broker import Broker
from runtime.source.planner.idle_source import IdleSource
from runtime.source.planner.topic_metadata import TopicMetadata
from runtime.source.status import StatusPublisher
from runtime.source.tasks import AdvanceWatermark, OffsetRange, ReadRanges, Task, grouped

_log = logging.getLogger(__name__)


class Planner:
    """Plans the batches of one reader; for one thread at a time.

    Offsets that are given may be another reader's, which stood at its place: then it stands at its own start.
    """

    def __init__(self, plan: ReaderPlan) -> None:
        self._plan = plan
        self._publisher = StatusPublisher(plan)
        self._idle = IdleSource(plan, self._publisher, lambda: self._batch_end.samples())
        self._has_planned = False
        self._has_begun = False
        self._target: Positions | None = None

    def finish_here(self) -> None:
        """From here on the topics end where they end now."""
        plan = self._plan
        self._target = self._topics.ends(plan.start) if plan.until is None else plan.until

    def batch_end(self, start: Offsets, max_rows: int | None) -> Offsets:
        """Where the batch that begins at `start` ends: at `start` itself when there is nothing to do.

        A batch has about `max_rows` records, or all there are. Raises `JobError`.
        """
        self._has_planned = True
        here = self._own(start)
        try:
            return self._end(here, max_rows)
        except TemporaryError as problem:
            if self._target is not None:
                # Nothing new would mean that all is read, and end the query.
                raise
            _log.warning("%s", problem.error.detail)
            self._publisher.update(idle=False, unreachable=problem.error.detail)
            self._idle.busy()  # whoever writes could not, either: the source is not idle
            return here

    def latest(self) -> Offsets | None:
        """The end of the topics as last seen, for the lag; None before."""
        return self._topics.latest() if self._has_planned and self._plan.until is None else None

    def tasks(self, start: Offsets, end: Offsets) -> list[Task]:
        """What there is to do between these offsets; at least one task.

        The first batch of a launch may have nothing to read, and gets an empty task: a worker is started for
        it. Raises `JobError`.
        """
        here, plan = self._own(start), self._plan
        if not self._has_planned:
            self._recognise(end)
        ranges = [
            OffsetRange(partition, end.ids[partition.topic], here.next.get(partition, 0), offset)
            for partition, offset in sorted(end.next.items())
            if partition.topic not in plan.missing
        ]
        tasks: list[Task] = [
            ReadRanges(group, end.planned, len(ranges))
            for group in grouped(each for each in ranges if each.end > each.start)
        ]
        if end.idle_advance > here.idle_advance:
            tasks.append(AdvanceWatermark(end.idle_advance))
        return tasks or [ReadRanges(tuple(ranges[:1]), end.planned, len(ranges))]

    def commit(self, end: Offsets) -> None:
        """Tells Kafka's own tools how far the dagger is; the truth is Spark's checkpoint."""
        try:
            self._broker.commit(self._own(end).next)
        except KafkaException as problem:
            _log.warning("the consumer group %s is not committed: %s", self._plan.group, problem)

    def close(self) -> None:
        """Ends the connections."""
        if "_broker" in self.__dict__:
            self._broker.close()

    @cached_property
    def _broker(self) -> Broker:
        return Broker(self._plan.kafka, self._plan.group)

    @cached_property
    def _topics(self) -> TopicMetadata:
        return TopicMetadata(self._broker, self._plan.topics)

    @cached_property
    def _batch_end(self) -> BatchEnd:
        return BatchEnd(self._broker, EventTimes.of_plan(self._plan))

    def _own(self, offsets: Offsets) -> Offsets:
        start = self._plan.start
        return offsets if offsets.reader == start.reader else start

    def _recognise(self, end: Offsets) -> None:
        """Makes sure that the topics are still those that a batch of an earlier launch was to read up to
        `end`: others have other records at its offsets. Raises `JobError`; waits for no Kafka, tasks do.
        """
        held = [topic for topic in self._plan.topics if topic not in self._plan.missing]
        try:
            TopicMetadata(self._broker, held).ends(end.only(held))
        except TemporaryError as problem:
            _log.warning("%s", problem.error.detail)

    def _end(self, here: Offsets, max_rows: int | None) -> Offsets:
        now_ms = int(time.time() * 1000)
        if (until := self._plan.until) is not None:
            return here if here.next == until else here.moved(until, planned=now_ms)
        end = self._topics.ends(here)
        self._publisher.update(unreachable="")
        if self._target is not None:
            end = {p: min(offset, self._target.get(p, 0)) for p, offset in end.items()}
        start = {partition: here.next.get(partition, 0) for partition in end}
        if all(start[partition] >= end[partition] for partition in end):
            return self._without_records(here)
        self._has_begun = True
        self._idle.busy()
        expired = self._topics.expired(start)
        warnings = (*self._publisher.status.warnings, *expired)
        self._publisher.update(idle=False, warnings=tuple(dict.fromkeys(warnings)))
        until = end if max_rows is None else self._batch_end.find(start, end, max_rows)
        return here.moved(until, planned=int(time.time() * 1000))

    def _without_records(self, here: Offsets) -> Offsets:
        """The end of a batch when everything has been read: `here` itself, unless an idle advance is due.

        A launch that finds nothing to read begins with a batch without records. The first batch of a driver
        is slow: its code is compiled, its workers start. So it comes before the driver is called running, and
        not when the first record has waited for it.
        """
        now_ms = int(time.time() * 1000)
        if self._target is not None:
            return here
        if not self._has_begun:
            self._has_begun = True
            return here.moved(here.next, planned=max(now_ms, here.planned + 1))
        advance = self._idle.advance(here)
        if advance is None:
            return here
        # After a restart Spark has forgotten this reader's watermark: the same advance again must be a new
        # offset.
        return here.moved(here.next, idle_advance=max(advance, here.idle_advance + 1), planned=now_ms)
