"""Plan the offsets of each batch of one reader, and its tasks.

A planner knows no Spark, keeps its state in itself and shares none: it works in whatever process or thread
calls it. Kafka not answering is not an error here: there is nothing new, and event time stands still, until
it answers again.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from confluent_kafka import KafkaException

from chassis.logging import logger
from daggerspec import rundir
from runtime import members
from runtime.errors import TemporaryError
from runtime.source.event_times import EventTimes
from runtime.source.offsets import LostRecords, Offsets, Partition, Positions
from runtime.source.plan import ReaderPlan
from runtime.source.planner import firstrows
from runtime.source.planner import lost as lost_records
from runtime.source.planner.batch_end import BatchEnd
from runtime.source.planner.broker import Broker
from runtime.source.planner.idle_source import IdleSource
from runtime.source.planner.pace import BatchPace, ReaderView, pace_of
from runtime.source.planner.rounds import END_OF_TIME_MS, Rounds, rounds_of
from runtime.source.planner.topic_metadata import TopicMetadata
from runtime.source.planner.waiting import Waiting
from runtime.source.status import ObservedTimes, StatusPublisher, table_of
from runtime.source.tasks import AdvanceWatermark, OffsetRange, ReadRanges, Task, group_ranges
from runtime.source.watermark import PartitionTime, WatermarkState

# Between the batches of a preview of what comes.
_LIVE_S = 1.0
# Records of a sample that finds where the remaining ones begin.
_HEAD = 200


class Planner:
    """Plans the batches of one reader; for one thread at a time.

    Offsets that are given may be another reader's, which stood at its place: then it stands at its own start.
    """

    def __init__(self, plan: ReaderPlan) -> None:
        self.key = plan.key
        self._plan = plan
        self._publisher = StatusPublisher(plan)
        self._idle = IdleSource(
            plan,
            self._publisher,
            lambda: self._batch_end.samples(),
            lambda partitions: self._broker.high_watermark(partitions),
        )
        self._has_planned = False
        self._has_begun = False
        self._target: Positions | None = None
        self._live_ended = False
        self._first_rows = plan.first_rows
        self._closes_first = False
        self._noticed: tuple[LostRecords, ...] = ()
        # Where the last batch began, once nothing was missing there, and what was read of it before.
        self._began: Positions = plan.begun
        self._read_before = {p: plan.read_until[str(p)] for p in plan.begun if str(p) in plan.read_until}
        self._here = plan.start
        self._ends: Positions = {}
        self._waiting: Waiting | None = None
        if plan.windows is not None:
            self._waiting = Waiting(plan.windows, plan.delay, lambda: self._batch_end.samples())

    def finish_here(self) -> None:
        """Take the present ends of the topics for their ends from here on."""
        plan = self._plan
        self._target = plan.range_end if plan.until is None else plan.until
        if self._target is None:
            self._target = self._topics.ends(plan.start)

    def batch_end(self, start: Offsets, max_rows: int | None) -> Offsets:
        """Find the end of the batch that begins at `start`: `start` itself when there is nothing to do.

        A batch has about `max_rows` records, or all there are. Waits until a batch is due, or a few seconds.
        Raises `JobError`.
        """
        self._has_planned = True
        here = self._here = self._own(start)
        if set(self._noticed) <= set(here.lost):
            self._noticed = ()  # a batch carries it
        self._publisher.update(lost=lost_records.merge(here.lost, self._noticed))
        if not self._ends_here and not self._pace.reads(self):
            return here
        try:
            end = self._plan_end(here, max_rows)
        except TemporaryError as problem:
            if self._target is not None:
                # Nothing new would mean that all is read, and end the query.
                raise
            self._unreachable(problem)
            return here
        self._here = end
        return end

    def see(self, watermark: int, now: int) -> ReaderView:
        """Return what there is to read now. Raises `JobError`."""
        here = self._here
        try:
            ends = self._topics.look(here)
            self._notice(here, ends)
            if not (unread := self._unread(ends)):
                self._look_back(here)
        except TemporaryError as problem:
            self._unreachable(problem)
            self._ends = here.next
            return ReaderView()
        self._publisher.update(unreachable="")
        if not unread:
            due = self._noticed or self._idle.advance(here) is not None or self._idle.may_close()
            return ReaderView(advance=bool(due))
        # Where a topic has become shorter there is an error to raise: reading finds out.
        records = sum(max(1, ends[p] - start) for p, start in unread.items())
        plan = self._plan
        few = plan.batches.at_ends and records < plan.batches.records  # many are read, whatever they are
        waiting, silent = self._waiting, self._idle.is_silent(unread)
        if waiting is None:
            return ReaderView(records, silent)
        if not few:
            return ReaderView(records, silent, reach=waiting.reach)
        waiting.look(unread, ends, self._read_times(ends), watermark, now, self._idle.length)
        return ReaderView(records, silent, reach=waiting.reach, again=waiting.again, closes=waiting.closes)

    def watermarks(self) -> dict[str, WatermarkState]:
        """Return the progress of event time for each reader of the query, by key."""
        return self._publisher.registry.state().watermarks()

    def tell(self) -> None:
        """Publish the records that wait now, and the time."""
        start = self._here.next
        waiting = {str(p): end - start.get(p, 0) for p, end in sorted(self._ends.items())}
        reached = {} if self._waiting is None else self._waiting.newest
        self._publisher.update(
            waiting_at=int(time.time() * 1000),
            waiting=waiting,
            reached={str(partition): reached[partition] for partition in sorted(reached)},
        )

    def unread(self) -> dict[str, int]:
        """Count the records in no batch yet, by "topic/partition": from any thread. Raises: JobError."""
        if not self._has_planned:
            return {}
        here = self._here.next
        try:
            ends = self._topics.known_ends()
        except TemporaryError:
            self._idle.lose()
            raise
        return {str(p): max(0, end - here.get(p, 0)) for p, end in ends.items()}

    def latest(self) -> Offsets | None:
        """Return the last known end of the topics, for the lag; None before."""
        return self._topics.latest() if self._has_planned and self._plan.until is None else None

    def tasks(self, start: Offsets, end: Offsets) -> list[Task]:
        """Plan the tasks of the batch between these offsets; at least one.

        The first batch of a launch may have nothing to read, and gets an empty task: a worker is started for
        it. Raises `JobError`.
        """
        here, plan = self._own(start), self._plan
        if not self._has_planned:
            self._recognise(here, end)
        self._pace.note_batch()
        ranges = [
            OffsetRange(partition, end.ids[partition.topic], here.next.get(partition, 0), offset)
            for partition, offset in sorted(end.next.items())
            if partition.topic not in plan.missing
        ]
        siblings = len(ranges) * members.count()
        tasks: list[Task] = [
            ReadRanges(group, end.planned, siblings)
            for group in group_ranges((range_ for range_ in ranges if range_.end > range_.start), plan.slots)
        ]
        if end.idle_advance > here.idle_advance:
            tasks.append(AdvanceWatermark(end.idle_advance))
        return tasks or [ReadRanges(tuple(ranges[:1]), end.planned, siblings)]

    def commit(self, end: Offsets) -> None:
        """Commit the dagger's offsets for Kafka's own tools; the truth is Spark's checkpoint."""
        self._pace.note_batch()
        plan = self._plan
        if plan.range_end is not None or (plan.shadow and not (Path(plan.run_dir) / rundir.HANDED).exists()):
            return  # it is no dagger's driver
        try:
            self._broker.commit(self._own(end).next)
        except KafkaException as problem:
            logger().warning("kafka.group_commit_failed", group=plan.group, why=str(problem))

    def close(self) -> None:
        """Close the connections."""
        self._pace.leave(self)
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

    @cached_property
    def _pace(self) -> BatchPace:
        return pace_of(self._plan)

    @cached_property
    def _rounds(self) -> Rounds:
        return rounds_of(self._plan)

    @property
    def _ends_here(self) -> bool:
        """True if it only comes to an end: there is nothing to wait for."""
        return self._target is not None or self._plan.until is not None

    def _unreachable(self, problem: TemporaryError) -> None:
        logger().warning("kafka.plan_delayed", detail=problem.error.detail)
        self._publisher.update(idle=False, idle_partitions=(), unreachable=problem.error.detail)
        self._idle.lose()

    def _notice(self, here: Offsets, ends: Positions) -> None:
        """Keep the ends of the topics now, for a reader that has read up to `here`. Raises: JobError."""
        self._ends = ends
        self._idle.look(here.next, ends)

    def _unread(self, ends: Positions) -> Positions:
        """Return the positions of partitions that end elsewhere."""
        here = self._here.next
        return {p: here.get(p, 0) for p, end in ends.items() if here.get(p, 0) != end}

    def _read_times(self, ends: Positions) -> dict[Partition, PartitionTime]:
        """Return how far each partition is, by what was read of it."""
        read = self._publisher.registry.state().observed.get(self.key, ObservedTimes()).partitions
        idle = set(self._publisher.status.idle_partitions)
        return {p: PartitionTime(read.get(str(p)), str(p) in idle) for p in ends}

    def _own(self, offsets: Offsets) -> Offsets:
        start = self._plan.start
        return offsets if offsets.reader == start.reader else start

    def _recognise(self, here: Offsets, end: Offsets) -> None:
        """Check that the topics are still those that a batch of an earlier launch was to read.

        Other topics have other records at its offsets, from `here` up to `end`. Finds the records that were
        deleted meanwhile.

        Raises `JobError`; waits for no Kafka, tasks do.
        """
        remaining = [topic for topic in self._plan.topics if topic not in self._plan.missing]
        self._publisher.update(lost=end.lost)
        try:
            TopicMetadata(self._broker, remaining).ends(end.only(remaining))
            self._here = here
            positions = here.only(remaining).next
            start = {p: offset for p, offset in positions.items() if offset < end.next.get(p, 0)}
            self._noticed = self._find_lost(start)
            self._publisher.update(lost=lost_records.merge(end.lost, self._noticed))
        except TemporaryError as problem:
            logger().warning("kafka.plan_delayed", detail=problem.error.detail)

    def _end(self, here: Offsets, max_rows: int | None) -> Offsets:
        now_ms = int(time.time() * 1000)
        if (until := self._plan.until) is not None:
            return here if here.next == until else here.move_to(until, planned=now_ms)
        end = self._topics.ends(here)
        self._notice(here, end)
        self._publisher.update(unreachable="")
        if self._target is not None:
            end = {p: min(offset, self._target.get(p, 0)) for p, offset in end.items()}
        start = {partition: here.next.get(partition, 0) for partition in end}
        if all(start[partition] >= end[partition] for partition in end):
            return self._without_records(here)
        self._has_begun = True
        if self._waiting is not None:
            self._waiting.read()
        here = self._with_lost(here, start)
        until = end if max_rows is None else self._batch_end.find(start, end, max_rows)
        now_ms = int(time.time() * 1000)
        # Where nothing that comes can be used, the reader is idle though it goes on reading.
        advance = None if self._target is not None else self._idle.advance(here)
        if advance is None:
            return here.move_to(until, planned=now_ms)
        return self._with_advance(here, until, advance, now_ms)

    def _with_advance(self, here: Offsets, until: Positions, advance: int, now_ms: int) -> Offsets:
        """Return the end of a batch that carries this advance.

        After a restart Spark has forgotten this reader's watermark: the same advance again must be a new
        offset.
        """
        self._idle.note_advance(advance)
        return here.move_to(until, idle_advance=max(advance, here.idle_advance + 1), planned=now_ms)

    def _with_lost(self, here: Offsets, start: Positions) -> Offsets:
        """Add what was deleted before it is read from `start` on to these offsets; publish it at once."""
        lost = lost_records.merge(here.lost, (*self._noticed, *self._find_lost(start)))
        self._publisher.update(lost=lost)
        return replace(here, lost=lost)

    def _look_back(self, here: Offsets) -> None:
        """Find what was deleted of the last batch since it was planned, once. Raises: JobError."""
        if self._began:
            self._noticed = lost_records.merge(self._noticed, self._find_lost(here.next))
            self._began = {}

    def _find_lost(self, start: Positions) -> tuple[LostRecords, ...]:
        """Find the records deleted unread, where reading goes on at `start`. Raises: JobError.

        What was deleted of the last batch since it was planned counts, too: nobody knows whether it was read.
        """
        since = {p: min(offset, self._began.get(p, offset)) for p, offset in start.items()}
        read = self._read_before if self._began else self._read()
        expired = self._topics.find_expired(since)
        self._began = {p: max(offset, expired.get(p, offset)) for p, offset in start.items()}
        self._read_before = self._read()
        if not expired:
            return ()
        times, now_ms = EventTimes.of_plan(self._plan), int(time.time() * 1000)
        samples = self._broker.samples(expired, _HEAD)
        heads = {
            partition: micros
            for partition, some in samples.items()
            for micros in islice((micros for _, micros in times.of(some, now_ms)), 1)
        }
        return lost_records.find(
            {partition: since[partition] for partition in expired},
            expired,
            read,
            heads,
            open_from=self._plan.open_from,
            delay=times.delay_ms * 1000,
            now=now_ms * 1000,
        )

    def _read(self) -> dict[Partition, int]:
        """Return the newest event time (us) read of each partition, as far as is known, by any launch."""
        read = self._publisher.registry.state().read_until()
        newest = {**self._plan.read_until, **read.get(table_of(self.key), {})}
        partitions = {str(partition): partition for partition in (*self._here.next, *self._ends)}
        return {partitions[name]: micros for name, micros in newest.items() if name in partitions}

    def _in_range(self, here: Offsets, max_rows: int | None) -> Offsets:
        """Find the end of a batch of a preview. Behind the last records of all its readers, all windows
        close.
        """
        closes = self._rounds.ask(id(self)) and not here.idle_advance
        if self._closes_first:  # nothing is read until the rows of the first windows are there
            self._closes_first = False
            return here.move_to(here.next, planned=max(int(time.time() * 1000), here.planned + 1))
        if live := time.time() * 1000 < self._plan.live_until:
            time.sleep(max(0.0, here.planned / 1000 + _LIVE_S - time.time()))
        if live or (self._plan.live_until and not self._live_ended):
            self._target = self._topics.ends(here)
            self._live_ended = not live
        end = self._end(here, max_rows)
        if self._first_rows:
            end, self._first_rows = self._first_part(here, end), False
        last = self._target or {}
        read = not live and all(end.next.get(p) == offset for p, offset in last.items())
        self._rounds.tell(id(self), read=read)
        if not live:
            ended = [str(p) for p, offset in last.items() if end.next.get(p, 0) >= offset]
            self._publisher.update(idle_partitions=tuple(sorted(ended)), has_ended=read)
        now_ms = int(time.time() * 1000)
        if closes and end == here:
            return here.move_to(here.next, idle_advance=END_OF_TIME_MS, planned=now_ms)
        if self._plan.live_until and end == here and not here.idle_advance:
            return here.move_to(here.next, planned=now_ms)  # the same again would be the end of the query
        return end

    def _first_part(self, here: Offsets, end: Offsets) -> Offsets:
        """Find the end of the first batch of a preview whose first rows come early."""
        plan = self._plan
        assert plan.windows is not None
        start = {partition: here.next.get(partition, 0) for partition in end.next}
        samples = self._batch_end.samples().by_event_time
        whole_from = -(-here.complete_from // 1000)
        until = firstrows.first_part(start, end.next, plan.windows, plan.delay, whole_from, samples)
        self._closes_first = until is not None
        return end if until is None else end.move_to(until)

    def _plan_end(self, here: Offsets, max_rows: int | None) -> Offsets:
        previews = self._plan.range_end is not None
        return self._in_range(here, max_rows) if previews else self._end(here, max_rows)

    def _without_records(self, here: Offsets) -> Offsets:
        """Find the end of a batch when everything has been read: `here`, unless an idle advance is due.

        A launch that finds nothing to read begins with a batch without records. The first batch of a driver
        is slow: its code is compiled, its workers start. So it comes before the driver is called running, and
        not when the first record has waited for it. What was found missing of a batch that was repeated is
        published by the next one, which may be without records, too: nobody finds it again.
        """
        self._look_back(here)
        now_ms = int(time.time() * 1000)
        unpublished = bool(self._noticed)
        here = replace(here, lost=lost_records.merge(here.lost, self._noticed))
        if unpublished or (self._target is None and not self._has_begun):
            self._has_begun = True
            return here.move_to(here.next, planned=max(now_ms, here.planned + 1))
        if self._target is not None:
            return here
        advance = self._idle.advance(here)
        if advance is None:
            if not self._idle.may_close():
                return here
            return here.move_to(here.next, planned=max(now_ms, here.planned + 1))
        return self._with_advance(here, here.next, advance, now_ms)
