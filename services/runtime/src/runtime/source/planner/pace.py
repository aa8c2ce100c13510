"""Make a query wait until its next batch is due; `due` decides.

Spark asks one reader after the other how far the next batch goes, and again at once. The first one waits for
all of them: it looks at what each would read, and the others get the same decision.

Spark itself has a say, too: what a batch's records let it close, it closes in the batch after, which
may have no records. The answer that there is nothing new lets it, until it begins no batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakValueDictionary

from runtime.source.plan import BatchRule, ReaderPlan
from runtime.source.planner.due import Look, Next, PastBatches, due
from runtime.source.watermark import NEVER, WatermarkState, Windows

# Topics are looked at so often, in ms, and not more often than a batch may begin.
_OFTEN, _SELDOM = 100, 1_000
# … and half as often where few wait, and it is known when those may close a window.
_CALM, _FEW = 2_000, 10
# Where nothing waits Spark is answered after so long (ms). Where records wait it is not: answered, it runs a
# batch without records whenever the watermark has moved, though that closes no window.
_ANSWER = 2_000


@dataclass(frozen=True, slots=True)
class ReaderView:
    """View of one reader of its topics; times in ms."""

    records: int = 0
    """Count of offsets that are not read yet."""
    silent: bool = False
    advance: bool = False
    """`silent` and `advance` have the meaning of `Look`'s, for this reader alone."""
    reach: int | None = None
    """Event time of its partitions once they are read, as far as it was sampled."""
    again: int | None = None
    """Time at which that is to be sampled again."""
    closes: int | None = None
    """Expected end of a window for this reader alone, as far as that is known."""


class PacedReader(Protocol):
    """A reader, as far as it matters when it reads."""

    key: str

    def see(self, watermark: int, now: int) -> ReaderView:
        """Return what it would read now; `watermark` is how far the query's windows are closed."""
        ...

    def watermarks(self) -> dict[str, WatermarkState]:
        """Return the progress of event time for each reader of the query, by key."""
        ...

    def tell(self) -> None:
        """Publish the records that wait now, and the time."""
        ...

    def unread(self) -> dict[str, int]:
        """Count the records in no batch yet, by "topic/partition": from any thread. Raises: JobError."""
        ...


def _now() -> int:
    return int(time.monotonic() * 1000)


class BatchPace:
    """The batches of one query, for one thread at a time."""

    def __init__(
        self,
        rule: BatchRule,
        windows: Windows | None,
        *,
        clock: Callable[[], int] = _now,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`clock` gives ms, `wait` waits for as many seconds as it is given."""
        self._rule, self._windows = rule, windows
        self._clock = clock
        self._released = threading.Event()
        self._wait = wait or self._released.wait
        self._readers: list[PacedReader] = []
        self._untold: list[PacedReader] = []
        self._next = Next.WAIT
        self._has_begun_batch = False
        self._since: int | None = None
        self._past = PastBatches(begun=clock() - rule.trigger)

    def reads(self, reader: PacedReader) -> bool:
        """Decide whether this reader reads now what there is; else the batch ends for it where it begins.

        Waits until that is decided, a few seconds at most. A reader that is new reads at once.
        """
        if reader not in self._readers:
            self._readers.append(reader)
            self._begin(Next.READ_AND_CLOSE, self._past.expected)
            return True
        if reader in self._untold:
            self._untold.remove(reader)
        else:
            self._next = self._decide(reader)
            self._untold = [other for other in self._readers if other is not reader]
        return self._next in (Next.READ, Next.READ_AND_CLOSE)

    def note_batch(self) -> None:
        """Take note that Spark has begun a batch since the last answer."""
        self._has_begun_batch = True

    def unread(self) -> dict[str, int]:
        """Count the records of all readers in no batch yet: from any thread. Raises: JobError."""
        return {place: count for reader in self._readers for place, count in reader.unread().items()}

    def leave(self, reader: PacedReader) -> None:
        """Remove a reader that has ended."""
        self._readers = [other for other in self._readers if other is not reader]
        self._untold = [other for other in self._untold if other is not reader]

    def release(self) -> None:
        """Answer whoever waits at once, from now on: the query is to end."""
        self._released.set()

    def _decide(self, reader: PacedReader) -> Next:
        """Decide for all readers what they do next; `reader` gives their watermarks."""
        rule = self._rule
        if self._next is Next.CLOSE and not self._has_begun_batch:
            self._past = replace(self._past, settled=True)
        self._has_begun_batch = False
        answer = self._clock() + _ANSWER
        while True:
            now = self._clock()
            look, again = Look(), now
            if self._past.settled or not rule.at_ends or now - self._past.begun >= rule.trigger:
                look, again = self._look(reader, now)
            decided = due(rule, self._windows, self._past, look, now)
            if decided is Next.CLOSE:
                states = reader.watermarks().values() if rule.at_ends else ()
                watermark = min((state.watermark for state in states), default=NEVER)
                closed = watermark if watermark != NEVER else self._past.closed
                self._past = replace(self._past, closed=closed, settled=False)
                return decided
            if decided is not Next.WAIT:
                closes = decided is Next.READ_AND_CLOSE
                self._begin(decided, max(self._past.expected, look.reach) if closes else NEVER)
                return decided
            if look.records:
                for other in self._readers:
                    other.tell()
            if self._released.is_set() or (now >= answer and not look.records):
                return decided
            self._wait(max(1, again - now) / 1000)

    def _begin(self, decided: Next, expected: int) -> None:
        self._since = None
        settled = decided is Next.READ
        self._past = PastBatches(self._clock(), self._past.closed, settled, expected)

    def _look(self, reader: PacedReader, now: int) -> tuple[Look, int]:
        """Combine the views of all readers; return when to look again, too."""
        states = reader.watermarks() if self._rule.at_ends else {}
        watermark = min((state.watermark for state in states.values()), default=NEVER)
        closed = max(watermark, self._past.closed, self._past.expected)
        views = {reader: reader.see(closed, now) for reader in self._readers}
        records = sum(view.records for view in views.values())
        self._since = (self._since if self._since is not None else now) if records else None
        holding = [
            (state, view)
            for reader, view in views.items()
            if (state := states.get(reader.key)) is not None and (view.records or not state.idle)
        ]
        reaches = [
            max(state.watermark, NEVER if view.reach is None else view.reach - state.delay)
            for state, view in holding
        ]
        closings = [view.closes for _, view in holding if view.closes is not None]
        look = Look(
            records=records,
            since=now if self._since is None else self._since,
            silent=any(view.silent for view in views.values()),
            advance=any(view.advance for view in views.values()),
            watermark=watermark,
            reach=min(reaches, default=NEVER),
            closes=max(closings, default=None) if len(closings) == len(holding) else None,
        )
        few = _FEW * records <= self._rule.records
        calm = self._rule.at_ends and few and all(view.again is not None for view in views.values())
        regular = now + (_CALM if calm else min(max(self._rule.trigger, _OFTEN), _SELDOM))
        rested = self._past.begun + self._rule.trigger
        again = [regular, *(view.again for view in views.values() if view.again is not None)]
        return look, min([*again, *([rested] if rested > now else [])])


_paces: WeakValueDictionary[tuple[str, int, str], BatchPace] = WeakValueDictionary()


def pace_of(plan: ReaderPlan) -> BatchPace:
    """Return the pace of a query: its readers that are in this process share one."""
    query = plan.dagger, plan.generation, plan.query
    pace = _paces.get(query)
    if pace is None:
        pace = _paces[query] = BatchPace(plan.batches, plan.windows)
    return pace


def release(dagger: str, generation: int) -> None:
    """Let the readers of a launch that drains wait for nothing any more."""
    for pace in _of(dagger, generation):
        pace.release()


def unread(dagger: str, generation: int) -> dict[str, int]:
    """Count a launch's records in no batch yet, by "topic/partition": from any thread. Raises: JobError."""
    return {place: count for pace in _of(dagger, generation) for place, count in pace.unread().items()}


def _of(dagger: str, generation: int) -> list[BatchPace]:
    return [pace for query, pace in list(_paces.items()) if query[:2] == (dagger, generation)]
