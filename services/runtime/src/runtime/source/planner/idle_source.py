"""Notices which partitions of a reader are idle, and how it moves event time on without records then.

`silence` and `idle` decide.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from runtime.source.offsets import Offsets, Partition, Positions
from runtime.source.plan import ReaderPlan
from runtime.source.planner.idle import next_advance
from runtime.source.planner.record_samples import RecordSamples
from runtime.source.planner.sampling import newest, walked
from runtime.source.planner.silence import Silence
from runtime.source.status import ObservedTimes, OpenTransaction, StatusPublisher

# Ends behind open transactions are asked for so often, in ms.
_OFTEN = 2_000


class IdleSource:
    """Which partitions of one reader are idle, and what it has done about it."""

    def __init__(
        self,
        plan: ReaderPlan,
        publisher: StatusPublisher,
        samples: Callable[[], RecordSamples],
        written: Callable[[Iterable[Partition]], Positions],
    ) -> None:
        """`written` gives the ends of partitions, records of open transactions included."""
        self._plan = plan
        self._publisher = publisher
        self._samples = samples
        self._written = written
        self._silence = Silence(plan.idle_timeout)
        self._here: Positions | None = None
        self._counted: Mapping[Partition, int] = {}
        self._written_ends: Positions = {}
        self._asked = 0
        self._advanced: int | None = None
        self._sampled: Positions | None = None

    def lose(self) -> None:
        """Kafka does not answer: whoever writes cannot, either. From any thread."""
        self._silence.lose()

    def look(self, here: Positions, ends: Positions) -> None:
        """Notice, and publish, which partitions are idle: they are read to their ends, which are these now,
        nothing new has come for long enough, and no transaction is open in them; or what comes cannot be
        used. Raises: JobError.
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
        """Whether nothing new has come for long enough in one of these."""
        now = _now()
        return any(self._silence.is_silent(partition, now) for partition in partitions)

    def length(self, partition: Partition) -> int:
        """For how long nothing new has come in it, in ms."""
        return self._silence.length(partition, _now())

    def advance(self, here: Offsets) -> int | None:
        """The event time (ms) of an idle advance, or None. Everything up to `here` has been read, and nothing
        follows that can be used.
        """
        plan = self._plan
        if not self._publisher.status.idle or plan.windows is None:
            return None
        self._learn_newest(here.next)
        states = self._publisher.registry.published().watermarks()
        own = states.pop(plan.key)
        if self._advanced is not None:
            own = own.after(self._advanced)
        idle_until = int(time.time() * 1000) - plan.idle_timeout
        return next_advance(own, list(states.values()), plan.windows, idle_until)

    def advanced(self, advance: int) -> None:
        """A batch carries this advance."""
        self._advanced = advance

    def may_close(self) -> bool:
        """Whether a batch without records lets event time close a window: it waits for one of the stream's
        partitions less than when the last batch ended.
        """
        plan = self._plan
        published = self._publisher.registry.published()
        event_time, state = published.event_times().get(plan.key), published.watermarks()[plan.key]
        if event_time is None or plan.windows is None:
            return False
        return state.observed is None or plan.windows.closes_one(state.watermark, event_time - plan.delay)

    def _usable(self, here: Positions, ends: Positions) -> Mapping[Partition, int]:
        """In how many batches each partition had records that can be used. Batches move `here`."""
        if here != self._here:
            read = self._publisher.registry.published().observed.get(self._plan.key, ObservedTimes()).usable
            self._here, self._counted = here, {p: read.get(str(p), 0) for p in ends}
        return self._counted

    def _behind(
        self, silent: Iterable[Partition], ends: Positions, now: int
    ) -> dict[Partition, OpenTransaction]:
        """Those of the silent partitions that go on behind what can be read now."""
        if self._plan.windows is None or self._plan.kafka.get("isolation.level") == "read_uncommitted":
            return {}
        silent = list(silent)
        if not set(silent) <= self._written_ends.keys() or now - self._asked >= _OFTEN:
            self._written_ends, self._asked = self._written(silent) if silent else {}, now
        began = {p: int(time.time() * 1000) - self._silence.length(p, now) for p in silent}
        known = self._publisher.status.open_transactions
        return {
            p: OpenTransaction(ends[p], end, known[str(p)].since if str(p) in known else began[p])
            for p in silent
            if (end := self._written_ends[p]) > ends[p]
        }

    def _learn_newest(self, here: Positions) -> None:
        """Once in each silence: how new what has been read is, whoever has read it."""
        if self._sampled == here:
            return
        walks = {partition: newest(0, offset) for partition, offset in here.items() if offset}
        times = walked(walks, self._samples().by_event_time).values()
        self._sampled = here
        newest_record = max((time for time in times if time is not None), default=None)
        self._publisher.update(newest_record=newest_record)


def _now() -> int:
    return int(time.monotonic() * 1000)
