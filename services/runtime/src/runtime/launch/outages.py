"""Decide how long to wait for sinks that do not answer, and how much may be quarantined of what they have not
taken. Pure: time and chance are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
LONGEST_ASKED_S: Final = 300.0
"""Longest wait that a sink's Retry-After is followed for: it may be wrong, or be fixed earlier."""
DAY_BYTES: Final = 1024**3
"""Bytes of rows of a sink that may be quarantined in a day for outages; beyond it the batch waits."""
_DAY: Final = timedelta(days=1)


def pause_s(attempt: int, chance: float, retry_after: float | None = None) -> float:
    """Return the seconds to wait after attempt `attempt`, from 1: exponential backoff with full jitter.

    chance: random in [0, 1), so that drivers of one sink do not return together. retry_after: seconds that
    the sink asks for; followed up to five minutes.
    """
    ceiling = min(FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 16), LONGEST_PAUSE_S)
    requested = min(max(retry_after or 0.0, 0.0), LONGEST_ASKED_S)
    return max(ceiling * (1.0 - chance), requested)


def left_s(retry_after: float, passed: float) -> float:
    """Return the remaining seconds of a sink's `retry_after`, `passed` seconds after it asked."""
    return max(min(retry_after, LONGEST_ASKED_S) - passed, 0.0)


@dataclass(frozen=True, slots=True)
class DayBudget:
    """Bytes of rows that were quarantined within a day because their log was full."""

    spent: tuple[tuple[float, int], ...] = ()
    """Times, in seconds of one clock, and bytes."""

    def spend(self, now: float, size: int) -> DayBudget:
        """Count bytes that are quarantined now."""
        return DayBudget((*self._recent(now), (now, size)))

    def is_left(self, now: float) -> bool:
        """Tell whether more may be quarantined."""
        return sum(size for _, size in self._recent(now)) < DAY_BYTES

    def _recent(self, now: float) -> list[tuple[float, int]]:
        return [(then, size) for then, size in self.spent if now - then < _DAY.total_seconds()]
