"""Plan the batches of a reader of given records: part by part, and then all windows close."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.source.offsets import Offsets, Positions
from runtime.source.plan import ReaderPlan
from runtime.source.planner.rounds import END_OF_TIME_MS, rounds_of
from runtime.source.status import StatusPublisher
from runtime.source.tasks import AdvanceWatermark, OffsetRange, ReadRanges, Task


class GivenPlanner:
    """Plans the batches of one reader of given records, in place of `Planner`; for one thread at a time."""

    def __init__(self, plan: ReaderPlan) -> None:
        assert plan.given is not None
        self._plan, self._given = plan, plan.given
        (self._partition,) = plan.start.next
        self._publisher = StatusPublisher(plan)
        self._publisher.update(partitions=(str(self._partition),))
        self._rounds = rounds_of(plan)
        self._pauses = False

    def finish_here(self) -> None:
        """Do nothing: what is given does not grow."""

    def batch_end(self, start: Offsets, max_rows: int | None) -> Offsets:
        """Return the end of the batch that begins at `start`; `start` itself when all is done."""
        del max_rows
        here = start if start.reader == self._plan.start.reader else self._plan.start
        closes = self._rounds.ask(id(self)) and not here.idle_advance
        offset, count = here.next[self._partition], len(self._given.values)
        end, advance = offset, here.idle_advance
        if self._pauses:  # Spark counts what is late by the batch before the last
            self._pauses = False
        elif offset < count:
            end = self._given.next_end(offset)
            self._pauses = end < count
        elif closes:
            advance = END_OF_TIME_MS
        read = end == count
        self._rounds.tell(id(self), read=read)
        self._publisher.update(idle_partitions=(str(self._partition),) if read else (), has_ended=read)
        if (end, advance) == (offset, here.idle_advance) and read:
            return here
        return here.move_to(
            {self._partition: end},
            idle_advance=advance,
            planned=max(self._given.now_ms, here.planned + 1),
        )

    def latest(self) -> Offsets | None:
        """Return None: nothing waits."""
        return None

    def tasks(self, start: Offsets, end: Offsets) -> Sequence[Task]:
        """Plan the tasks of the batch between these offsets; at least one."""
        before, after = self._position(start), self._position(end)
        if end.idle_advance > (start.idle_advance if start.reader == end.reader else 0):
            return [AdvanceWatermark(end.idle_advance)]
        ranges = (OffsetRange(self._partition, end.ids[self._partition.topic], before, after),)
        return [ReadRanges(ranges, self._given.now_ms, 1)]

    def commit(self, end: Offsets) -> None:
        """Do nothing: no group reads."""

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _position(self, offsets: Offsets) -> int:
        positions: Positions = (
            offsets.next if offsets.reader == self._plan.start.reader else self._plan.start.next
        )
        return positions[self._partition]
