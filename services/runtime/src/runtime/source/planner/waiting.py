"""How new the records are that wait, and when a window will end; looked at no more often than it matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from chassis.logging import logger
from runtime.errors import TemporaryError
from runtime.source.offsets import Partition, Positions
from runtime.source.planner.due import closing, look_again
from runtime.source.planner.record_samples import RecordSamples
from runtime.source.planner.sampling import newest, walked
from runtime.source.watermark import PartitionTime, Windows, event_time

# A silent partition that holds event time is looked at so often (ms), however near the end of a window is.
_SILENT = 2_000


class Waiting:
    """The event times of one reader's records that no batch has yet; in ms, as `due` has them."""

    def __init__(self, windows: Windows, delay: int, samples: Callable[[], RecordSamples]) -> None:
        self._windows, self._delay = windows, delay
        self._samples = samples
        self.read()

    def read(self) -> None:
        """A batch reads them: none waits."""
        self.reach: int | None = None
        """The event time of the reader's partitions once all is read, as far as it was looked at."""
        self.newest: dict[Partition, int] = {}
        """The newest event time that waits in each partition, as far as it was looked at."""
        self.again = 0
        """When that is to be looked at again."""
        self.closes: int | None = None
        """When a window will end, as far as that is known."""
        self._looked_at: dict[Partition, int] = {}

    def look(
        self,
        unread: Positions,
        ends: Positions,
        read: Mapping[Partition, PartitionTime],
        watermark: int,
        now: int,
        silent: Callable[[Partition], int],
    ) -> None:
        """Look at them, if it is time: they begin at `unread`, and topics end at `ends`.

        `read` says how far every partition is by what was read, `silent` how long (ms) nothing new has come.
        """
        if now < self.again:
            return
        needed = self._windows.next_end(watermark) + self._delay
        held = {p for p, time in self._times(read).items() if _holds(time, needed)}
        self._learn_newest({p: start for p, start in unread.items() if p in held}, ends)
        times = self._times(read)
        self.reach = event_time(times.values())
        known = self._windows, watermark, self._delay, self.reach, now
        self.again, self.closes = look_again(*known), closing(*known)
        lengths = [silent(partition) for partition, time in times.items() if _holds(time, needed)]
        if lengths:
            self.again = max(self.again, now + min(max(lengths), _SILENT))

    def _times(self, read: Mapping[Partition, PartitionTime]) -> dict[Partition, PartitionTime]:
        times = dict(read)
        for partition, time in self.newest.items():
            known = times.get(partition, PartitionTime(None))
            later = time if known.newest is None else max(time, known.newest)
            times[partition] = replace(known, newest=later)
        return times

    def _learn_newest(self, unread: Positions, ends: Positions) -> None:
        """Look at the newest records of these partitions, where some are new."""
        walks = {
            p: newest(start, ends[p])
            for p, start in unread.items()
            if start < ends[p] and self._looked_at.get(p) != ends[p]
        }
        if not walks:
            return
        try:
            times = walked(walks, self._samples().by_event_time)
        except TemporaryError as problem:
            logger().warning("kafka.plan_delayed", detail=problem.error.detail)
            return
        for partition, time in times.items():
            self._looked_at[partition] = ends[partition]
            if time is not None:
                self.newest[partition] = max(time, self.newest.get(partition, time))


def _holds(time: PartitionTime, needed: int) -> bool:
    """Whether a partition keeps event time from coming as far as is needed."""
    return not time.idle and (time.newest is None or time.newest < needed)
