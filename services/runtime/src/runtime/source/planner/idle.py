"""Event time of streams that are silent.

A watermark moves only with rows. When a stream falls silent its last windows would stay open until something
arrives, so a reader that has read everything, and has seen nothing new for `idle_timeout`, emits a tick: a
row without data whose rowtime moves the watermark and that is dropped above it.

What a tick may say, and when:

* at most `now - idle_timeout`: a window closes `idle_timeout` + the watermark's delay after its end, no
  sooner;
* at most what closes the last window that holds a record of any stream. A back-fill of last year's events
  that pauses for a minute has the windows it filled closed, and nothing of what follows becomes late;
* at most what the slowest stream that is not silent allows: running ahead of it would close nothing, and
  would make late what comes when the silent stream wakes up;
* only if it closes a window: an idle dagger runs no batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

_NEVER = -(2**62)
# A session may end at any instant: this is how fine its ends are told apart, in ms.
_SESSION_STEP = 1000


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a query, in ms: each `size` long, one beginning every `slide` since the epoch.

    A session has the gap as its size, and no slide: 0.
    """

    size: int
    slide: int

    def last_end(self, time: int) -> int:
        """When the last window ends that a row of this time (ms) belongs to."""
        if not self.slide:
            return time + self.size
        return time // self.slide * self.slide + self.size

    def closes_one(self, before: int, after: int) -> bool:
        """Whether a window ends in (before, after]."""
        step = self.slide or _SESSION_STEP
        return (after - self.size) // step > (before - self.size) // step

    def first_in_time(self, watermark: int) -> int:
        """The earliest time (ms) whose last window is still open at `watermark`: older rows are late."""
        if not self.slide:
            return watermark - self.size + 1
        return ((watermark - self.size) // self.slide + 1) * self.slide


@dataclass(frozen=True, slots=True)
class Clock:
    """What is known of one reader: times in ms, None before the first.

    `reached` is the greatest rowtime its watermark operator has seen during this launch, ticks included;
    `data` the greatest of a record; `delay` the watermark's delay; `silent` that the reader ticks for itself.
    """

    reached: int | None
    data: int | None
    delay: int
    silent: bool

    def after(self, tick: int) -> Clock:
        """This clock, once a tick (ms) has been seen."""
        return replace(self, reached=tick if self.reached is None else max(self.reached, tick))

    @property
    def watermark(self) -> int:
        """How far this reader lets event time go."""
        return _NEVER if self.reached is None else self.reached - self.delay


def next_tick(own: Clock, others: Sequence[Clock], windows: Windows, idle_until: int) -> int | None:
    """The event time (ms) of the tick that a silent reader owes now, or None.

    `idle_until` is now - idle_timeout. The caller sees to it that the reader has been silent for that long,
    with every partition read to its end.
    """
    newest = max((clock.data for clock in (own, *others) if clock.data is not None), default=None)
    if newest is None:
        return None
    allowed = min((clock.watermark for clock in others if not clock.silent), default=None)
    watermark = min(idle_until - own.delay, windows.last_end(newest))
    if allowed is not None:
        watermark = min(watermark, allowed)
    if watermark <= own.watermark:
        return None
    closes = watermark == windows.last_end(newest) or windows.closes_one(own.watermark, watermark)
    if own.reached is not None and not closes:
        return None
    return None if watermark == _NEVER else watermark + own.delay
