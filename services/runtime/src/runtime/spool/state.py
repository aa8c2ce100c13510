"""Decide by what stands in the log of one sink where its next rows go, and what is written next. Pure.

The model in `tests/simulation/spool.py` runs these decisions in every order of their steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Generic, TypeVar

MOST_BYTES: Final = 1024**3
"""Bytes of whole batches in a log beyond which the next batch waits."""
Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class LogLimit:
    """Limit of a log, beyond which the next batch waits."""

    size: int
    """In bytes of whole batches."""
    age: timedelta
    """Of the oldest whole batch."""


@dataclass(frozen=True, slots=True)
class Whole(Generic[Content]):
    """Batch whose marker stands in the log: Spark has committed it, or will repeat it."""

    end: int
    """Offset behind its marker."""
    size: int
    """Bytes of its rows."""
    marked: float
    """Time at which its marker was appended, or found by this launch, in seconds since 1970."""
    content: Content


@dataclass(frozen=True, slots=True)
class LogState(Generic[Content]):
    """Content of the log of one sink. Rows behind the last marker were never committed."""

    begin: int = 0
    """Offset of the first record: all before it the sink has."""
    end: int = 0
    """Offset behind the last record."""
    batches: tuple[Whole[Content], ...] = ()
    """Whole batches, oldest first."""

    @property
    def is_empty(self) -> bool:
        """True if the sink has everything: its next batch goes to the sink itself."""
        return self.begin >= self.end

    @property
    def first(self) -> Whole[Content] | None:
        """The batch to write to the sink next; None where there is no whole one."""
        return self.batches[0] if self.batches else None

    @property
    def size(self) -> int:
        """Bytes of whole batches. What a kill left of one is in nobody's way."""
        return sum(batch.size for batch in self.batches)

    def is_full(self, bound: LogLimit, now: float) -> bool:
        """Tell whether the next batch has to wait until some of this is taken."""
        if self.first is None:
            return False
        return self.size >= bound.size or now - self.first.marked >= bound.age.total_seconds()

    def take_together(self, most_bytes: int, fit: Callable[[Content, Content], bool]) -> int:
        """Count the first batches that may be written as one: at most so many bytes, unless the first has
        more, and each fitting the first.
        """
        count = size = 0
        for batch in self.batches:
            size += batch.size
            if count and (size > most_bytes or not fit(self.batches[0].content, batch.content)):
                break
            count += 1
        return count

    def append_marker(self, batch: Whole[Content]) -> LogState[Content]:
        """Add the marker of a batch, behind all of its rows."""
        return replace(self, end=max(self.end, batch.end), batches=(*self.batches, batch))

    def delete_first(self) -> LogState[Content]:
        """Take off the first whole batch, which the sink has, and all that stands before its marker."""
        return replace(self, begin=self.batches[0].end, batches=self.batches[1:])


def read_state(begin: int, end: int, batches: Iterable[Whole[Content]]) -> LogState[Content]:
    """Build the state of a log that was found: its bounds, and the markers in it."""
    return LogState(begin, end, tuple(batches))
