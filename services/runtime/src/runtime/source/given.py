"""Read given records in place of topics, for tests of a query: they come in order, and then the stream ends.

A table's records are one partition of its first topic, written at one instant. They are read in parts: a part
ends before a record that would be late if all before it had been read already, so that what is late does not
depend on how many records a batch takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.source.records import Records
from runtime.source.tasks import OffsetRange


@dataclass(frozen=True, slots=True)
class GivenRecords:
    """The given records of one table. Picklable."""

    values: tuple[bytes, ...]
    now_ms: int
    """The clock, and the Kafka time of each record."""
    part_ends: tuple[int, ...] = ()
    """The offsets behind each part, ascending."""

    def read(self, wanted: OffsetRange) -> Iterator[Records]:
        """Yield the records of a range, none if it is empty."""
        if wanted.end > wanted.start:
            yield records_of(self.values[wanted.start : wanted.end], self.now_ms, wanted.start)

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


def records_of(values: Sequence[bytes], now_ms: int, first: int = 0) -> Records:
    """Make records of values: of one instant, and with offsets from `first` on."""
    count = len(values)
    return Records(
        np.arange(first, first + count),
        np.full(count, now_ms, np.int64),
        pa.array(values, pa.binary()),
        pa.nulls(count, pa.binary()),
    )
