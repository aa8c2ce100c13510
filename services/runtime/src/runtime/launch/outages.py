"""Decide how long to wait for sinks that do not answer, and what to do with their rows if they stay away.
Pure: time and chance are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from daggers.v1 import spec_pb2

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
LONGEST_ASKED_S: Final = 300.0
"""Longest wait that a sink's Retry-After is followed for: it may be wrong, or be fixed earlier."""
DAY_BYTES: Final = 1024**3
"""Bytes of rows that may be quarantined in a day for outages; beyond it the batch waits all the same."""
_DAY: Final = timedelta(days=1)
OnOutage = spec_pb2.OnOutage


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
class Outages:
    """Outages of sinks by name. Times are seconds of one monotonic clock."""

    rules: Mapping[str, spec_pb2.OnOutage]
    """Rules for outages, by sink."""
    since: Mapping[str, float]
    skipped: tuple[tuple[float, int], ...] = ()
    """Time and bytes of rows quarantined for outages within a day."""

    def observe(self, now: float, away: Collection[str], there: Collection[str]) -> Outages:
        """Update the outages: `away` do not answer, `there` have taken rows."""
        since = {sink: began for sink, began in self.since.items() if sink not in there}
        return replace(self, since={**dict.fromkeys(away, now), **since})

    def count_skipped(self, now: float, size: int) -> Outages:
        """Count bytes that were quarantined instead of written."""
        if not size:
            return self
        recent = [(then, count) for then, count in self.skipped if now - then < _DAY.total_seconds()]
        return replace(self, skipped=(*recent, (now, size)))

    def to_skip(self, now: float) -> frozenset[str]:
        """Return the sinks whose rows are to be quarantined now."""
        skipped_bytes = sum(size for then, size in self.skipped if now - then < _DAY.total_seconds())
        if skipped_bytes >= DAY_BYTES:
            return frozenset()
        return self._overdue(now, OnOutage.THEN_SKIP)

    def to_fail(self, now: float) -> frozenset[str]:
        """Return the sinks that have been away for longer than their rules allow."""
        return self._overdue(now, OnOutage.THEN_FAIL)

    def _overdue(self, now: float, then: spec_pb2.OnOutage.Then.ValueType) -> frozenset[str]:
        return frozenset(
            sink for sink, began in self.since.items()
            if (rule := self.rules.get(sink)) and rule.then == then
            and now - began >= rule.after.ToTimedelta().total_seconds()
        )  # fmt: skip
