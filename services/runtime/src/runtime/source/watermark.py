"""Event time: the windows of a query, and the watermark of each reader. Pure; times are in ms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

import numpy as np
import numpy.typing as npt

import daggersql

NEVER = -(2**62)
"""The watermark before the first row."""
# A session may end at any instant: this is how fine its ends are told apart.
_SESSION_STEP = 1000
_MILLISECOND = timedelta(milliseconds=1)
# A partner may come until the bound itself has passed: a moment later the wait is over.
_JOIN_MARGIN = timedelta(seconds=1)
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a query: each `size` long, one beginning every `slide` since the epoch.

    A session has the gap as its size, and no slide: 0. A window ends at each of its `gates`, which are times
    behind its own end, and is closed at the last of them.
    """

    size: int
    slide: int
    gates: tuple[int, ...] = (0,)

    @property
    def allowed_lateness(self) -> int:
        """Time behind its own end at which a window is closed."""
        return self.gates[-1]

    def last_end(self, time: int) -> int:
        """Return the end of the last window that a row of this time belongs to."""
        return (time // self.slide * self.slide if self.slide else time) + self.size

    def last_gate(self, time: int) -> int:
        """Return when all windows are closed that a row of this time belongs to."""
        return self.last_end(time) + self.allowed_lateness

    def closes_one(self, before: int, after: int) -> bool:
        """Tell whether a window ends in (before, after]."""
        step = self.slide or _SESSION_STEP
        sizes = (self.size + gate for gate in self.gates)
        return any((after - size) // step > (before - size) // step for size in sizes)

    def next_end(self, watermark: int) -> int:
        """Return the first end of a window that comes after `watermark`."""
        step = self.slide or _SESSION_STEP
        sizes = (self.size + gate for gate in self.gates)
        return min(((watermark - size) // step + 1) * step + size for size in sizes)

    def first_open(self, watermark: int) -> int:
        """Return the earliest time whose last window is still open at `watermark`: older rows are in none."""
        watermark -= self.allowed_lateness
        if not self.slide:
            return watermark - self.size + 1
        return ((watermark - self.size) // self.slide + 1) * self.slide

    def first_on_time_us(self, watermark: int) -> int:
        """Return the earliest time (us) all of whose windows are open at `watermark`: older rows are late."""
        watermark -= self.allowed_lateness
        if not self.slide:
            return (watermark - self.size) * 1000 + 1
        return ((watermark - self.size) // self.slide * self.slide + self.size) * 1000

    def count_missed(self, times_us: _Ints, watermark: int) -> _Ints:
        """Count the windows of each row that are closed at `watermark`, by its time: Spark drops it there.

        A row counts as a session of its own, as long as the gap, whichever session it would have joined.
        """
        if not self.slide:
            return (times_us < self.first_on_time_us(watermark)).astype(np.int64)
        size, slide = self.size * 1000, self.slide * 1000
        first, last = (times_us - size) // slide + 1, times_us // slide
        closed = ((watermark - self.allowed_lateness) * 1000 - size) // slide
        return np.maximum(np.minimum(last, closed) - first + 1, 0)

    def earliest_starts_us(self, times_us: _Ints) -> _Ints:
        """Return when the first window of each row starts (us), by its time: a session starts with it."""
        if not self.slide:
            return times_us
        return ((times_us - self.size * 1000) // (self.slide * 1000) + 1) * self.slide * 1000


def windows(window: daggersql.Window) -> Windows:
    """Convert a window of a plan. One that ends at any instant (a session, a join) has no slide."""
    slide = window.slide if window.kind in ("TUMBLE", "HOP") else timedelta()
    gates = tuple(gate // _MILLISECOND for gate in window.gates)
    return Windows(window.size // _MILLISECOND, slide // _MILLISECOND, gates or (0,))


def windows_of(plan: daggersql.Plan) -> Windows | None:
    """Return the windows that wait for event time in a plan; None for a plan that keeps nothing.

    Sessions, joins, and windows over windows end at any instant, a horizon after their last record.
    """
    sized = daggersql.fixed_size(plan.window)
    if sized is not None:
        return windows(sized)
    margin = _JOIN_MARGIN if plan.window is None else timedelta()
    return Windows((plan.horizon + margin) // _MILLISECOND, 0) if plan.horizon else None


@dataclass(frozen=True, slots=True)
class Lateness:
    """Closed windows for the rows of one batch: those of `windows` that are closed at `watermark` (ms)."""

    windows: tuple[Windows, ...]
    watermark: int

    @property
    def first_on_time_us(self) -> int:
        """Earliest time (us) at which a row is late for nothing."""
        return max((one.first_on_time_us(self.watermark) for one in self.windows), default=NEVER)

    def count_missed(self, times_us: _Ints) -> list[_Ints]:
        """Count the windows of each kind that rows of these times are missing from."""
        return [one.count_missed(times_us, self.watermark) for one in self.windows]


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """Progress of one partition: `newest` is the greatest event time of its records, None before the first.

    Nothing waits for one that is `idle`.
    """

    newest: int | None
    idle: bool = False


def event_time(partitions: Iterable[PartitionTime]) -> int | None:
    """Return the event time of a stream: the least of its partitions' times, without those that are idle.

    None where that is not known: all of them are idle, or one that is not has had no record yet.
    """
    least: int | None = None
    for partition in partitions:
        if partition.idle:
            continue
        if partition.newest is None:
            return None
        least = partition.newest if least is None else min(least, partition.newest)
    return least


@dataclass(frozen=True, slots=True)
class WatermarkState:
    """Progress of event time for one reader. None before the first row.

    `observed` is the event time that its watermark goes by, idle advances included, as far as it came during
    this launch; `newest_record` the greatest event time of a record; `delay` the watermark's delay; `idle`
    that the reader advances its watermark itself.
    """

    observed: int | None
    newest_record: int | None
    delay: int
    idle: bool

    def after(self, advance: int) -> WatermarkState:
        """Return this state after an idle advance to `advance`."""
        return replace(self, observed=advance if self.observed is None else max(self.observed, advance))

    @property
    def watermark(self) -> int:
        """Event time up to which this reader lets windows close."""
        return NEVER if self.observed is None else self.observed - self.delay
