"""Makes a query wait until its next batch is due; `due` decides.

Spark asks one reader after the other how far the next batch goes, and again at once. The first that is asked
waits for all of them: it looks at what each would read, and the others are told what was decided.

Spark itself has to be asked, too: what a batch's records let it close, it closes in the batch after, which
may have no records. It is asked by the answer that there is nothing new, until it begins no batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakValueDictionary

from runtime.source.plan import BatchRule, ReaderPlan
from runtime.source.planner.due import Look, Next, Stand, due
from runtime.source.watermark import NEVER, WatermarkState, Windows

# Topics are looked at so often, in ms, and not more often than a batch may begin.
_OFTEN, _SELDOM = 100, 1_000
# … and half as often where few wait, and it is known when those may close a window.
_CALM, _FEW = 2_000, 10
# Where nothing waits Spark is answered after so long (ms). Where records wait it is not: answered, it runs a
# batch without records whenever the watermark has moved, though that closes no window.
_ANSWER = 2_000


@dataclass(frozen=True, slots=True)
class Seen:
    """What one reader sees; times in ms."""

    records: int = 0
    """Offsets that are not read yet."""
    silent: bool = False
    advance: bool = False
    """As in `Look`."""
    reach: int | None = None
    """The event time of its partitions once they are read, as far as it was looked at."""
    again: int | None = None
    """When that is to be looked at again."""
    closes: int | None = None
    """As in `Look`, for this reader alone."""


class Reader(Protocol):
    """A reader, as far as it matters when it reads."""

    key: str

    def see(self, watermark: int, now: int) -> Seen:
        """What it would read now; `watermark` is how far the query's windows are closed."""
        ...

    def watermarks(self) -> dict[str, WatermarkState]:
        """How far event time is for each reader of the query, by key."""
        ...

    def tell(self) -> None:
        """Publish what waits now, and that it was looked at."""
        ...

    def unread(self) -> dict[str, int]:
        """What no batch has yet, by "topic/partition": from any thread. Raises: JobError."""
        ...


def _now() -> int:
    return int(time.monotonic() * 1000)


class Pace:
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
        self._readers: list[Reader] = []
        self._untold: list[Reader] = []
        self._next = Next.WAIT
        self._built = False
        self._since: int | None = None
        self._stand = Stand(begun=clock() - rule.trigger)

    def reads(self, reader: Reader) -> bool:
        """Whether this reader reads now what there is; else the batch ends for it where it begins.

        Waits until that is decided, a few seconds at most. A reader that is new reads at once.
        """
        if reader not in self._readers:
            self._readers.append(reader)
            self._begin(Next.READ_AND_CLOSE, self._stand.expected)
            return True
        if reader in self._untold:
            self._untold.remove(reader)
        else:
            self._next = self._decided(reader)
            self._untold = [other for other in self._readers if other is not reader]
        return self._next in (Next.READ, Next.READ_AND_CLOSE)

    def built(self) -> None:
        """Spark has begun a batch since it was answered."""
        self._built = True

    def unread(self) -> dict[str, int]:
        """What no batch has yet, by "topic/partition", of all readers: from any thread. Raises: JobError."""
        return {place: count for reader in self._readers for place, count in reader.unread().items()}

    def leave(self, reader: Reader) -> None:
        """This reader has ended."""
        self._readers = [other for other in self._readers if other is not reader]
        self._untold = [other for other in self._untold if other is not reader]

    def release(self) -> None:
        """Whoever waits is answered at once, from now on: the query is to end."""
        self._released.set()

    def _decided(self, asked: Reader) -> Next:
        """What all readers do next."""
        rule = self._rule
        if self._next is Next.CLOSE and not self._built:
            self._stand = replace(self._stand, settled=True)
        self._built = False
        answer = self._clock() + _ANSWER
        while True:
            now = self._clock()
            look, again = Look(), now
            if self._stand.settled or not rule.at_ends or now - self._stand.begun >= rule.trigger:
                look, again = self._look(asked, now)
            decided = due(rule, self._windows, self._stand, look, now)
            if decided is Next.CLOSE:
                states = asked.watermarks().values() if rule.at_ends else ()
                watermark = min((state.watermark for state in states), default=NEVER)
                closed = watermark if watermark != NEVER else self._stand.closed
                self._stand = replace(self._stand, closed=closed, settled=False)
                return decided
            if decided is not Next.WAIT:
                closes = decided is Next.READ_AND_CLOSE
                self._begin(decided, max(self._stand.expected, look.reach) if closes else NEVER)
                return decided
            if look.records:
                for reader in self._readers:
                    reader.tell()
            if self._released.is_set() or (now >= answer and not look.records):
                return decided
            self._wait(max(1, again - now) / 1000)

    def _begin(self, decided: Next, expected: int) -> None:
        self._since = None
        settled = decided is Next.READ
        self._stand = Stand(self._clock(), self._stand.closed, settled, expected)

    def _look(self, asked: Reader, now: int) -> tuple[Look, int]:
        """What all readers see, and when to look again."""
        states = asked.watermarks() if self._rule.at_ends else {}
        watermark = min((state.watermark for state in states.values()), default=NEVER)
        closed = max(watermark, self._stand.closed, self._stand.expected)
        seen = {reader: reader.see(closed, now) for reader in self._readers}
        records = sum(look.records for look in seen.values())
        self._since = (self._since if self._since is not None else now) if records else None
        holding = [
            (state, look)
            for reader, look in seen.items()
            if (state := states.get(reader.key)) is not None and (look.records or not state.idle)
        ]
        reaches = [
            max(state.watermark, NEVER if look.reach is None else look.reach - state.delay)
            for state, look in holding
        ]
        closings = [look.closes for _, look in holding if look.closes is not None]
        look = Look(
            records=records,
            since=now if self._since is None else self._since,
            silent=any(look.silent for look in seen.values()),
            advance=any(look.advance for look in seen.values()),
            watermark=watermark,
            reach=min(reaches, default=NEVER),
            closes=max(closings, default=None) if len(closings) == len(holding) else None,
        )
        few = _FEW * records <= self._rule.records
        calm = self._rule.at_ends and few and all(look.again is not None for look in seen.values())
        regular = now + (_CALM if calm else min(max(self._rule.trigger, _OFTEN), _SELDOM))
        rested = self._stand.begun + self._rule.trigger
        again = [regular, *(look.again for look in seen.values() if look.again is not None)]
        return look, min([*again, *([rested] if rested > now else [])])


_paces: WeakValueDictionary[tuple[str, int, str], Pace] = WeakValueDictionary()


def pace_of(plan: ReaderPlan) -> Pace:
    """That of a query: its readers that are in this process share one."""
    query = plan.dagger, plan.generation, plan.query
    pace = _paces.get(query)
    if pace is None:
        pace = _paces[query] = Pace(plan.batches, plan.windows)
    return pace


def release(dagger: str, generation: int) -> None:
    """The launch drains: its readers wait for nothing any more."""
    for pace in _of(dagger, generation):
        pace.release()


def unread(dagger: str, generation: int) -> dict[str, int]:
    """What no batch of a launch has yet, by "topic/partition": from any thread. Raises: JobError."""
    return {place: count for pace in _of(dagger, generation) for place, count in pace.unread().items()}


def _of(dagger: str, generation: int) -> list[Pace]:
    return [pace for query, pace in list(_paces.items()) if query[:2] == (dagger, generation)]
