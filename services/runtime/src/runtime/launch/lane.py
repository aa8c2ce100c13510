"""Keep what the driver knows of the log of one sink: what stands in it, and how it comes to the sink.

Two threads use it: that of the batches appends, the drainer takes away.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import telemetry_pb2

from chassis.logging import logger
from runtime.clients.breaker import FLOOD
from runtime.errors import JobError
from runtime.launch.delivery import PATIENCE_S
from runtime.launch.outages import DayBudget
from runtime.launch.report import Trouble
from runtime.sinks import Target
from runtime.spool.log import Log, LogAddress, Record
from runtime.spool.marker import Marker
from runtime.spool.state import LogLimit, LogState, Whole, read_state

_MINUTE_S: Final = 60.0
MERGED_BYTES: Final = 64 * 1024**2
"""Most bytes of batches that are written as one: their rows are in memory."""


@dataclass(frozen=True, slots=True)
class LaneReport:
    """Report of a lane."""

    spool: telemetry_pb2.Spool
    oldest: datetime | None
    """End of the window of the oldest row that waits; None where none has an age."""


class Lane:
    """The log of one sink of a launch. Thread-safe."""

    def __init__(
        self,
        name: str,
        address: LogAddress,
        target: Target | None,
        bound: LogLimit,
        *,
        overflows: bool = False,
        changed: Callable[[], None],
        paused: Callable[[], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """target: the sink as the launch has it; None where an edit took it away. overflows: True if the
        oldest rows are quarantined where the log is full. changed: called, without the lock, when what is
        told of it has changed. paused: tells whether somebody has paused the sink. clock: seconds since 1970.
        """
        self.name, self.address, self.target = name, address, target
        self._bound, self._clock, self._overflows = bound, clock, overflows
        self._changed, self._paused = changed, paused
        self._state: LogState[Marker] = LogState()
        self._there = threading.Condition()
        self._trouble: Trouble | None = None
        self._failure: BaseException | None = None
        self._was_paused = self._is_slow = False
        self._budget = DayBudget()
        self._drained = 0
        self._recent: deque[tuple[float, int]] = deque()

    @property
    def log(self) -> Log:
        """The log itself."""
        return self.address.open()

    @property
    def is_empty(self) -> bool:
        """True if the sink has everything."""
        return self._state.is_empty

    @property
    def is_full(self) -> bool:
        """True if the next batch has to wait: a pause is no outage, whatever its age."""
        is_aging = not (self._was_paused or self.is_paused)
        bound = self._bound if is_aging else replace(self._bound, age=timedelta.max)
        return self._state.is_full(bound, self._clock())

    @property
    def must_overflow(self) -> bool:
        """True if the first batch is to be quarantined: there is no room, and its sink may lose its turn."""
        return self._overflows and self.is_full and self._budget.is_left(self._clock())

    @property
    def is_slow(self) -> bool:
        """True if the sink takes rows, and would hold up the other sinks."""
        return self._is_slow

    @property
    def trouble(self) -> Trouble | None:
        """Error for which the sink takes nothing; None while it takes some."""
        return self._trouble

    @property
    def is_flooded(self) -> bool:
        """True if the sink refuses most rows: then none is quarantined, and the batch waits."""
        return self._trouble is not None and self._trouble.error.reason == FLOOD

    @property
    def is_paused(self) -> bool:
        """True if its rows wait until somebody resumes it."""
        return self._paused()

    def raise_failure(self) -> None:
        """Raise what has ended the drainer, if anything."""
        if self._failure is not None:
            raise self._failure

    def load(self, created: int) -> None:
        """Read what stands in the log. created: sequence of the dagger, what is older is deleted.

        Raises: JobError.
        """
        begin, end = self.log.bounds()
        batches = _find_batches(self.log, begin, end)
        own = [whole for whole in batches if whole.content.batch.generation > created]
        if begin < end and not own:  # also rows without a marker, which no batch of this launch has left
            self.log.delete_until(end)
            begin = end
        with self._there:
            # how long a dagger was stopped is no age of an outage
            loaded = self._clock()
            self._state = read_state(begin, end, [replace(whole, marked=loaded) for whole in own])
            self._there.notify_all()
        if own:
            rows = sum(whole.content.rows for whole in own)
            logger().info("spool.found", sink=self.name, rows=rows, bytes=self._state.size)

    def append(self, marker: Marker) -> None:
        """Append the marker of a batch whose rows are in the log. Raises: JobError; it may be there then."""
        value = marker.encode()
        end = self.log.append([Record(value)])
        whole = Whole(end, marker.size + len(value), marker.marked, marker)
        with self._there:
            self._state = self._state.append_marker(whole)
            self._there.notify_all()
        self._changed()

    def wait_for_next(self, stopping: threading.Event) -> tuple[Whole[Marker], ...]:
        """Wait for whole batches, and return those to write next, as one; none once the launch stops."""
        while not stopping.is_set():
            if (is_paused := self.is_paused) != self._was_paused:
                if not is_paused:
                    self._begin_outage_anew()
                self._was_paused = is_paused
                self._changed()
            with self._there:
                if self._state.first is not None and not is_paused:
                    count = self._state.take_together(MERGED_BYTES, _may_merge)
                    return self._state.batches[:count]
                self._there.wait(1.0)
        return ()

    def _begin_outage_anew(self) -> None:
        """Forget how long rows have waited, and why: whether the sink takes rows is unknown."""
        with self._there:
            self._trouble = None
            self.postpone(float("inf"))

    def postpone(self, seconds: float) -> None:
        """Leave seconds out of the age of what waits, in which the sink was not tried."""
        now = self._clock()
        with self._there:
            later = (replace(whole, marked=min(whole.marked + seconds, now)) for whole in self._state.batches)
            self._state = replace(self._state, batches=tuple(later))

    @property
    def first(self) -> Whole[Marker] | None:
        """The first whole batch; None where there is none: what a kill left of one is of no batch."""
        return self._state.first

    @property
    def begin(self) -> int:
        """Offset from which the first whole batch is read."""
        return self._state.begin

    def take_off(self, wholes: Sequence[Whole[Marker]], took_s: float) -> None:
        """Delete the first whole batches, which the sink has since it took them, in so many seconds.

        The caller announces it, once it has counted their rows. Raises: JobError: then they are still there.
        """
        self.log.delete_until(wholes[-1].end)
        rows, now = sum(whole.content.rows for whole in wholes), self._clock()
        with self._there:
            self._delete_first(len(wholes))
            self._trouble = None
            self._is_slow = self._is_slow and took_s > PATIENCE_S
            self._drained += rows
            self._recent.append((now, rows))

    def let_overflow(self, whole: Whole[Marker], size: int) -> None:
        """Delete the first whole batch, which was quarantined with so many bytes.

        The caller announces it, once it has counted its rows. Raises: JobError.
        """
        self.log.delete_until(whole.end)
        with self._there:
            self._budget = self._budget.spend(self._clock(), size)
            self._delete_first(1)

    def delete_log(self) -> None:
        """Delete the log of a sink that an edit took away, once it is loaded and nothing stands in it."""
        if self.target is not None or self._state.first is not None:
            return
        try:
            self.log.delete()
            self._state = LogState()
        except JobError as error:
            logger().warning("spool.not_deleted", sink=self.name, why=error.error.detail)

    def announce(self) -> None:
        """Announce that what is told of it has changed."""
        self._changed()

    def _delete_first(self, count: int) -> None:
        for _ in range(count):
            self._state = self._state.delete_first()

    def set_slow(self) -> None:
        """Have the rows wait in the log until the sink is quick again."""
        self._is_slow = True

    def set_trouble(self, trouble: Trouble) -> None:
        """Say why the sink takes nothing."""
        self._trouble = trouble
        self._changed()

    def fail(self, failure: BaseException) -> None:
        """Say what has ended the drainer: the next batch ends with it."""
        self._failure = failure

    def report(self) -> LaneReport | None:
        """Build what is told of it; None while the sink has everything."""
        is_paused = self.is_paused
        with self._there:
            state, now = self._state, self._clock()
            while self._recent and now - self._recent[0][0] > _MINUTE_S:
                self._recent.popleft()
            recent = sum(rows for _, rows in self._recent)
        if state.first is None and not is_paused:
            return None
        spool = telemetry_pb2.Spool(
            rows=sum(whole.content.rows for whole in state.batches),
            bytes=state.size,
            drained=self._drained,
            rows_per_second=recent / _MINUTE_S,
        )
        spool.paused = is_paused
        if state.first is not None:
            spool.since.FromMilliseconds(round(state.first.content.marked * 1000))
        if self._trouble is not None:
            spool.error.CopyFrom(self._trouble.error)
        ends = [whole.content.oldest for whole in state.batches if whole.content.oldest is not None]
        return LaneReport(spool, datetime.fromtimestamp(min(ends), UTC) if ends else None)


def _may_merge(one: Marker, other: Marker) -> bool:
    """Tell whether rows of two batches may be written as one, the newest of each key: if they are updates."""
    same_sink, same_query = one.target == other.target, one.batch.checkpoint == other.batch.checkpoint
    return one.target.updates and same_sink and same_query


def _find_batches(log: Log, begin: int, end: int) -> list[Whole[Marker]]:
    """Find the whole batches of a log, oldest first."""
    wholes: list[Whole[Marker]] = []
    for offset, record in log.read(begin, end):
        if not record.is_marker:
            continue
        marker = Marker.decode(record.value)
        if wholes and marker.target == wholes[-1].content.target:  # one for all is in memory
            marker = replace(marker, target=wholes[-1].content.target)
        if wholes and marker.parts == wholes[-1].content.parts:  # appended again without need
            wholes.pop()
        wholes.append(Whole(offset + 1, marker.size + len(record.value), marker.marked, marker))
    return wholes
