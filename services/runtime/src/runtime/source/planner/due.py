"""Decide whether a batch is due. Pure; times are in ms.

A batch costs a quarter of a second of CPU whatever it reads. Where rows are only written when a window ends,
nobody sees the batches in between: records wait in Kafka until a window may close, or until there are many of
them, or until they have waited for long. Where the end of a window is near they wait for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from runtime.source.plan import BatchRule
from runtime.source.watermark import NEVER, Windows

# Event times are sampled again after half of what is missing to the end of a window, but within these.
_SOONEST, _LATEST = 250, 10_000
# … or after this where none of them can be used.
_UNKNOWN = 1_000
# So many times the records that are worth a batch are a backlog.
_BACKLOG = 10
# Records may wait so many times as long where the end of a window takes them along by then: with 20 s,
# windows of up to a minute have one batch that reads.
_PATIENCE = 4


class Next(Enum):
    """Next step of a query."""

    WAIT = "wait"
    READ = "read"
    READ_AND_CLOSE = "read and close"
    """Read; then Spark closes windows, in the batch that follows."""
    CLOSE = "close"
    """Read nothing: Spark closes windows, if it has any to close."""


@dataclass(frozen=True, slots=True)
class PastBatches:
    """Times and watermarks of the batches so far."""

    begun: int
    """Begin of the last batch that reads."""
    closed: int = NEVER
    """Watermark up to which Spark had a batch to close windows."""
    settled: bool = False
    """True if Spark has no windows to close beyond those."""
    expected: int = NEVER
    """Watermark that the records read to close windows were expected to bring: they need not have."""


@dataclass(frozen=True, slots=True)
class Look:
    """View of all readers of a query at one moment."""

    records: int = 0
    """Count of offsets that are not read yet."""
    since: int = 0
    """First sight of the oldest of them."""
    silent: bool = False
    """True if a topic has unread records and has been silent for its idle_timeout: read, it is idle."""
    advance: bool = False
    """True if an idle advance is due."""
    watermark: int = NEVER
    """Query's watermark by what was read."""
    reach: int = NEVER
    """Query's watermark once everything is read."""
    closes: int | None = None
    """Expected end of a window, as far as that is known (`closing`)."""


def due(rule: BatchRule, windows: Windows | None, past: PastBatches, look: Look, now: int) -> Next:
    """Decide the next step at `now` of a query with these windows."""
    ends = windows if rule.at_ends else None
    rested = now - past.begun >= rule.trigger
    if ends is not None and (not past.settled or ends.closes_one(past.closed, look.watermark)):
        # With a backlog the batch that reads on closes them, too.
        behind = rested and look.records >= _BACKLOG * rule.records
        return Next.READ_AND_CLOSE if behind else Next.CLOSE
    if look.advance and rested:
        return Next.READ_AND_CLOSE
    if look.records and rested:
        if ends is None:
            return Next.READ_AND_CLOSE
        if ends.closes_one(max(past.closed, past.expected, look.watermark), look.reach):
            return Next.READ_AND_CLOSE
        if look.records >= rule.records or look.silent or now - look.since >= _longest_wait(rule, look):
            return Next.READ
    return Next.CLOSE if rested and not past.settled else Next.WAIT


def _longest_wait(rule: BatchRule, look: Look) -> int:
    """Return how long records may wait."""
    most = _PATIENCE * rule.longest_wait
    taken_along = look.closes is not None and look.closes - look.since <= most
    return most if taken_along else rule.longest_wait


def closing(windows: Windows, watermark: int, delay: int, newest: int | None, now: int) -> int | None:
    """Estimate the end of a window by the clock, if event times, now at `newest`, move with it; None:
    unknown.
    """
    return None if newest is None else now + max(0, windows.next_end(watermark) + delay - newest)


def look_again(windows: Windows, watermark: int, delay: int, newest: int | None, now: int) -> int:
    """Return when the event times of waiting records are worth another sample; `newest` is that of the last.

    In a live stream they move with the clock, so looks come closer together towards the end of a window. What
    is new enough to close one waits for another reader: newer records of this one change nothing.
    """
    if newest is None:
        return now + _UNKNOWN
    missing = windows.next_end(watermark) + delay - newest
    return now + (min(max(missing // 2, _SOONEST), _LATEST) if missing > 0 else _LATEST)
