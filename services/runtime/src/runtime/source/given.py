"""Hold given records in place of topics, for tests of a query: they come in order, and then the stream ends.

A table's records are one partition of its first topic, written at one instant. They are read in parts: a part
ends before a record that would be late if all before it had been read already, so that what is late does not
depend on how many records a batch takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GivenRecords:
    """The given records of one table. Picklable."""

    values: tuple[bytes, ...]
    now_ms: int
    """The clock, and the Kafka time of each record."""
    part_ends: tuple[int, ...] = ()
    """The offsets behind each part, ascending."""

    def next_end(self, offset: int) -> int:
        """Return the end of the part that begins at this offset; the last one's behind it."""
        return next((end for end in self.part_ends if end > offset), len(self.values))


def part_ends(times: Iterable[tuple[int, int]], count: int, delay_ms: int) -> tuple[int, ...]:
    """Return the ends of parts of `count` records, of which `times` has (index, event time in us).

    A part ends before each record that is older than what the watermark has reached, unless it has reached no
    more since the part before.
    """
    ends, newest, reached = [], None, None
    for index, micros in times:
        if newest is not None and micros < newest - delay_ms * 1000 and newest != reached:
            ends.append(index)
            reached = newest
        newest = micros if newest is None else max(newest, micros)
    return (*ends, *([count] if count else []))
