"""Sum what a dagger's heartbeats count, minute by minute, over the last day. Pure: time is an argument.

Heartbeats count from their launch on, so a minute has the differences between those that came in it. What was
counted while nobody heard is in the minute in which it was told.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from daggers.v1 import telemetry_pb2

Heartbeat = telemetry_pb2.Heartbeat

MINUTES: Final = 24 * 60
"""Length of the ring, in minutes."""
HOUR: Final = 60
"""Minutes of a block that `MinuteSums.block` packs."""
UNKNOWN: Final = -1
"""The number of a minute of which nothing was heard."""
FIELDS: Final = ("records", "rows", "late_rows", "quarantined", "lag", "freshness_p95_ms")
"""The numbers of a minute, as ReadMetricsResponse names them: sums, the largest lag, the last freshness."""
_SUMS: Final = 4
_LAG: Final = 4
_FRESHNESS: Final = 5
_WIDTH: Final = len(FIELDS)
_UNHEARD: Final = array("q", [UNKNOWN]) * _WIDTH
# A heartbeat that was overtaken by less is late; beyond it, the driver's clock was set back.
_LATE_US: Final = 60_000_000


def minute_of(time: datetime) -> int:
    """Return the minute of an instant, counted since 1970."""
    return int(time.timestamp() // 60)


@dataclass(frozen=True, slots=True)
class _Counters:
    """Counts of a launch in one of its heartbeats."""

    generation: int
    told_us: int
    counts: tuple[int, ...] = (0,) * _SUMS

    def is_before(self, other: _Counters) -> bool:
        """Return whether `other` is news after this."""
        if self.generation != other.generation:
            return self.generation < other.generation
        return not 0 <= self.told_us - other.told_us < _LATE_US


class MinuteSums:
    """The minutes of one dagger: a ring of numbers, 48 bytes a minute."""

    def __init__(self) -> None:
        self.newest = -1
        """The newest minute, since 1970; -1 before the first."""
        self._ring = _UNHEARD * MINUTES
        self._before: _Counters | None = None
        self._first_open = 0
        """Minutes before this one came from a block, and are complete."""

    @property
    def size_bytes(self) -> int:
        """Return what the numbers take in memory."""
        return len(self._ring) * self._ring.itemsize

    def add(self, heartbeat: Heartbeat, time: datetime) -> None:
        """Add a heartbeat that came at `time`. One of an older launch, or overtaken by another, is none."""
        counters = _Counters(heartbeat.generation, heartbeat.time.ToMicroseconds(), _counts(heartbeat))
        before = self._before
        if before is not None and not before.is_before(counters):
            return
        self._before = counters
        minute = max(minute_of(time), self.newest)
        if minute < self._first_open:
            return
        self._advance(minute)
        slot = _slot(minute)
        # Of the first that is heard nobody knows what it had counted before; a later launch begins at zero.
        base = counters.counts if before is None else (0,) * _SUMS
        if before is not None and before.generation == counters.generation:
            base = before.counts
        for number, (count, earlier) in enumerate(zip(counters.counts, base, strict=True)):
            self._ring[slot + number] = max(self._ring[slot + number], 0) + max(count - earlier, 0)
        if heartbeat.lag:
            self._ring[slot + _LAG] = max(self._ring[slot + _LAG], sum(heartbeat.lag.values()))
        recent = [
            fresh.recent_p95_ms for fresh in heartbeat.freshness.values() if fresh.HasField("recent_p95_ms")
        ]
        if recent:
            self._ring[slot + _FRESHNESS] = max(recent)

    def since(self, minute: int) -> tuple[int, Sequence[Sequence[int]]]:
        """Return the first known minute from `minute` on, and each field's numbers from there to the newest.

        (-1, one empty sequence a field) where nothing is known.
        """
        for first in range(max(minute, self.newest - MINUTES + 1, 0), self.newest + 1):
            if any(number != UNKNOWN for number in self._numbers(first)):
                rows = [self._numbers(later) for later in range(first, self.newest + 1)]
                return first, list(zip(*rows, strict=True))
        return -1, [()] * _WIDTH

    def block(self, hour: int) -> bytes:
        """Pack the minutes of an hour, counted since 1970, as integers of 64 bits."""
        first = hour * HOUR
        inside = range(max(first, self.newest - MINUTES + 1), min(first + HOUR, self.newest + 1))
        if not inside:
            return (_UNHEARD * HOUR).tobytes()
        slot = _slot(inside.start)  # a day has whole hours, so that the ring has each in one piece
        numbers = self._ring[slot : slot + len(inside) * _WIDTH]
        before, after = inside.start - first, first + HOUR - inside.stop
        return (_UNHEARD * before + numbers + _UNHEARD * after).tobytes()

    def restore(self, hour: int, block: bytes, *, before: int) -> None:
        """Take the minutes of an hour from its block, as far as they are before a minute: these are complete.

        Hours come in order. A block of another size has nothing that can be read.
        """
        self._first_open = before
        minutes = range(hour * HOUR, min((hour + 1) * HOUR, before))
        numbers = _read_numbers(block)[: len(minutes) * _WIDTH]
        last = _find_last_known(numbers)
        if last >= 0:
            self._advance(minutes[last])
            slot, size = _slot(minutes.start), (last + 1) * _WIDTH
            self._ring[slot : slot + size] = numbers[:size]

    def _advance(self, minute: int) -> None:
        """Make a minute the newest; those between are unknown."""
        if self.newest >= 0:  # a new ring knows of no minute
            for passed in range(max(self.newest, minute - MINUTES) + 1, minute + 1):
                slot = _slot(passed)
                self._ring[slot : slot + _WIDTH] = _UNHEARD
        self.newest = minute

    def _numbers(self, minute: int) -> Sequence[int]:
        slot = _slot(minute)
        return self._ring[slot : slot + _WIDTH]


def newest_in(hour: int, block: bytes) -> int:
    """Return the newest minute of a block of which something is known; -1 where there is none."""
    last = _find_last_known(_read_numbers(block))
    return last if last < 0 else hour * HOUR + last


def _read_numbers(block: bytes) -> array[int]:
    """Read the numbers of a block; none of a block of another size."""
    numbers = array("q")
    if len(block) == HOUR * _WIDTH * numbers.itemsize:
        numbers.frombytes(block)
    return numbers


def _find_last_known(numbers: Sequence[int]) -> int:
    """Return the index of the last minute of which something is known; -1 where there is none."""
    for index in range(len(numbers) - 1, -1, -1):
        if numbers[index] != UNKNOWN:
            return index // _WIDTH
    return -1


def _slot(minute: int) -> int:
    return minute % MINUTES * _WIDTH


def _counts(heartbeat: Heartbeat) -> tuple[int, ...]:
    return (
        heartbeat.rows_in,
        max(heartbeat.rows_out, default=0),
        heartbeat.late_rows,
        sum(heartbeat.quarantined.values()),
    )
