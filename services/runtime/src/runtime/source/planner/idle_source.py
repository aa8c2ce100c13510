"""Find the idle partitions of a reader, and move its event time on without records while all are idle.

`silence` and `idle` decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.plan import ReaderPlan
from runtime.source.planner.idle import next_advance
from runtime.source.planner.record_samples import RecordSamples
from runtime.source.planner.sampling import newest, walk_all
from runtime.source.planner.silence import PartitionSilence
from runtime.source.status import ObservedTimes, OpenTransaction, StatusPublisher

# Least time between two requests for the ends behind open transactions, in ms.
_OFTEN = 2_000


class IdleSource:
    """Idle partitions of one reader, and its last idle advance."""

    def __init__(
        self,
        plan: ReaderPlan,
        publisher: StatusPublisher,
        samples: Callable[[], RecordSamples],
        high_watermark: Callable[[Iterable[Partition]], Positions],
    ) -> None:
        """`high_watermark` gives the ends of partitions, records of open transactions included."""
        self._plan = plan
        self._publisher = publisher
        self._samples = samples
        self._high_watermark = high_watermark
        self._silence = PartitionSilence(plan.idle_timeout)
        self._here: Positions | None = None
        self._counted: Mapping[Partition, int] = {}
        self._written_ends: Positions = {}
        self._requested_at = 0
        self._advanced: int | None = None
        self._sampled: Positions | None = None

    def lose(self) -> None:
        """Begin silence anew: Kafka does not answer, so producers cannot write, either. From any thread."""
        self._silence.lose()

    def look(self, here: Positions, ends: Positions) -> None:
        """Find and publish the idle partitions.

        They are read to `ends`, nothing new has come for long enough, and no transaction is open in them; or
        their records cannot be used. Raises: JobError.
        """
        now = _now()
        self._silence.look(ends, now)
        self._silence.read(here, self._usable(here, ends), now)
        silent = [p for p, end in ends.items() if here.get(p, 0) >= end and self._silence.is_silent(p, now)]
        behind = self._behind(silent, ends, now)
        idle = [partition for partition in silent if partition not in behind]
        idle += [p for p in ends if p not in silent and self._silence.is_barren(p)]
        self._publisher.update(
            partitions=tuple(str(partition) for partition in sorted(ends)),
            idle_partitions=tuple(str(partition) for partition in sorted(idle)),
            open_transactions={str(partition): behind[partition] for partition in sorted(behind)},
            idle=bool(ends) and len(idle) == len(ends),
        )

    def is_silent(self, partitions: Iterable[Partition]) -> bool:
        """Tell whether nothing new has come for long enough in one of these."""
        now = _now()
        return any(self._silence.is_silent(partition, now) for partition in partitions)

    def length(self, partition: Partition) -> int:
        """Return for how long nothing new has come in it, in ms."""
        return self._silence.length(partition, _now())

    def advance(self, here: Offsets) -> int | None:
        """Return the event time (ms) of an idle advance, or None.

        Everything up to `here` has been read, and nothing follows that can be used.
        """
        plan = self._plan
        if not self._publisher.status.idle or plan.windows is None:
            return None
        self._learn_newest(here.next)
        states = self._publisher.registry.state().watermarks()
        own = states.pop(plan.key)
        if self._advanced is not None:
            own = own.after(self._advanced)
        idle_until = int(time.time() * 1000) - plan.idle_timeout
        return next_advance(own, list(states.values()), plan.windows, idle_until)

    def note_advance(self, advance: int) -> None:
        """Take note that a batch carries this advance."""
        self._advanced = advance

    def may_close(self) -> bool:
        """Tell whether a batch without records lets event time close a window.

        It does when event time waits for a partition of the stream less than at the end of the last batch.
        """
        plan = self._plan
        source = self._publisher.registry.state()
        event_time, state = source.event_times().get(plan.key), source.watermarks()[plan.key]
        if event_time is None or plan.windows is None:
            return False
        return state.observed is None or plan.windows.closes_one(state.watermark, event_time - plan.delay)

    def _usable(self, here: Positions, ends: Positions) -> Mapping[Partition, int]:
        """Count the batches in which each partition had usable records. Batches move `here`."""
        if here != self._here:
            read = self._publisher.registry.state().observed.get(self._plan.key, ObservedTimes()).usable
            self._here, self._counted = here, {p: read.get(str(p), 0) for p in ends}
        return self._counted

    def _behind(
        self, silent: Iterable[Partition], ends: Positions, now: int
    ) -> dict[Partition, OpenTransaction]:
        """Return the silent partitions that go on behind what can be read now."""
        if self._plan.windows is None or self._plan.kafka.get("isolation.level") == "read_uncommitted":
            return {}
        silent = list(silent)
        if not set(silent) <= self._written_ends.keys() or now - self._requested_at >= _OFTEN:
            self._written_ends, self._requested_at = self._high_watermark(silent) if silent else {}, now
        began = {p: int(time.time() * 1000) - self._silence.length(p, now) for p in silent}
        open_ones = self._publisher.status.open_transactions
        return {
            p: OpenTransaction(ends[p], end, open_ones[str(p)].since if str(p) in open_ones else began[p])
            for p in silent
            if (end := self._written_ends[p]) > ends[p]
        }

    def _learn_newest(self, here: Positions) -> None:
        """Sample once in each silence how new what has been read is, by any launch."""
        if self._sampled == here:
            return
        walks = {partition: newest(0, offset) for partition, offset in here.items() if offset}
        times = walk_all(walks, self._samples().by_event_time).values()
        self._sampled = here
        newest_record = max((time for time in times if time is not None), default=None)
        self._publisher.update(newest_record=newest_record)


def _now() -> int:
    return int(time.monotonic() * 1000)
