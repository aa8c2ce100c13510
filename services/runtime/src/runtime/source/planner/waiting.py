"""Sample how new the records are that wait, and when a window will end; no more often than it matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from chassis.logging import logger
from runtime.errors import TemporaryError
from runtime.source.offsets import Partition, Positions
from runtime.source.planner.due import closing, look_again
from runtime.source.planner.record_samples import RecordSamples
from runtime.source.planner.sampling import newest, walk_all
from runtime.source.watermark import PartitionTime, Windows, event_time

# Least time (ms) between two samples of a silent partition that holds event time, near a window's end, too.
_SILENT = 2_000


class Waiting:
    """The event times of one reader's records that no batch has yet; in ms, as `due` has them."""

    def __init__(self, windows: Windows, delay: int, samples: Callable[[], RecordSamples]) -> None:
        self._windows, self._delay = windows, delay
        self._samples = samples
        self.read()

    def read(self) -> None:
        """Forget them: a batch reads them, none waits."""
        self.reach: int | None = None
        """Event time of the reader's partitions once all is read, as far as it was sampled."""
        self.newest: dict[Partition, int] = {}
        """Newest event time that waits in each partition, as far as it was sampled."""
        self.again = 0
        """When that is to be sampled again."""
        self.closes: int | None = None
        """Expected end of a window, as far as that is known."""
        self._sampled_ends: dict[Partition, int] = {}

    def look(
        self,
        unread: Positions,
        ends: Positions,
        read: Mapping[Partition, PartitionTime],
        watermark: int,
        now: int,
        silent: Callable[[Partition], int],
    ) -> None:
        """Sample them, if it is time: they begin at `unread`, and topics end at `ends`.

        `read` is how far every partition is by what was read, `silent` how long (ms) nothing new has come.
        """
        if now < self.again:
            return
        needed = self._windows.next_end(watermark) + self._delay
        holding = {p for p, time in self._times(read).items() if _holds(time, needed)}
        self._learn_newest({p: start for p, start in unread.items() if p in holding}, ends)
        times = self._times(read)
        self.reach = event_time(times.values())
        estimate = self._windows, watermark, self._delay, self.reach, now
        self.again, self.closes = look_again(*estimate), closing(*estimate)
        lengths = [silent(partition) for partition, time in times.items() if _holds(time, needed)]
        if lengths:
            self.again = max(self.again, now + min(max(lengths), _SILENT))

    def _times(self, read: Mapping[Partition, PartitionTime]) -> dict[Partition, PartitionTime]:
        times = dict(read)
        for partition, time in self.newest.items():
            own = times.get(partition, PartitionTime(None))
            later = time if own.newest is None else max(time, own.newest)
            times[partition] = replace(own, newest=later)
        return times

    def _learn_newest(self, unread: Positions, ends: Positions) -> None:
        """Sample the newest records of these partitions, where some are new."""
        walks = {
            p: newest(start, ends[p])
            for p, start in unread.items()
            if start < ends[p] and self._sampled_ends.get(p) != ends[p]
        }
        if not walks:
            return
        try:
            times = walk_all(walks, self._samples().by_event_time)
        except TemporaryError as problem:
            logger().warning("kafka.plan_delayed", detail=problem.error.detail)
            return
        for partition, time in times.items():
            self._sampled_ends[partition] = ends[partition]
            if time is not None:
                self.newest[partition] = max(time, self.newest.get(partition, time))


def _holds(time: PartitionTime, needed: int) -> bool:
    """Tell whether a partition keeps event time from coming as far as is needed."""
    return not time.idle and (time.newest is None or time.newest < needed)
