"""What a driver does about sinks that do not take rows: how long it leaves them alone, and what becomes of
their rows when they stay away. Pure: time and chance are arguments.
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
"""However long a sink asks to be left alone: it may be wrong, or somebody may mend it."""
DAY_BYTES: Final = 1024**3
"""So much of what could not be written in a day is set aside; after that the batch waits all the same."""
_DAY: Final = timedelta(days=1)
OnOutage = spec_pb2.OnOutage


def pause_s(attempt: int, chance: float, retry_after: float | None = None) -> float:
    """Seconds to wait after the attempt of this number, from 1: doubled each time, less by chance in [0, 1).

    Full jitter, so that drivers of one sink do not come back together. What a sink asks for is waited, but
    no longer than five minutes.
    """
    ceiling = min(FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 16), LONGEST_PAUSE_S)
    asked = min(max(retry_after or 0.0, 0.0), LONGEST_ASKED_S)
    return max(ceiling * (1.0 - chance), asked)


def left_s(retry_after: float, passed: float) -> float:
    """Seconds that are left of what a sink asked for, so many after it did."""
    return max(min(retry_after, LONGEST_ASKED_S) - passed, 0.0)


@dataclass(frozen=True, slots=True)
class Outages:
    """Since when sinks do not answer, by name; times are seconds of one monotonic clock."""

    rules: Mapping[str, spec_pb2.OnOutage]
    """What is asked for, by sink."""
    since: Mapping[str, float]
    skipped: tuple[tuple[float, int], ...] = ()
    """When rows were set aside in the last day because of it, and how many bytes."""

    def heard(self, now: float, away: Collection[str], there: Collection[str]) -> Outages:
        """These do not answer, and these have taken rows."""
        since = {sink: began for sink, began in self.since.items() if sink not in there}
        return replace(self, since={**dict.fromkeys(away, now), **since})

    def set_aside(self, now: float, size: int) -> Outages:
        """So many bytes were set aside in place of being written."""
        if not size:
            return self
        kept = [(then, count) for then, count in self.skipped if now - then < _DAY.total_seconds()]
        return replace(self, skipped=(*kept, (now, size)))

    def to_skip(self, now: float) -> frozenset[str]:
        """The sinks whose rows are to be set aside now."""
        spent = sum(size for then, size in self.skipped if now - then < _DAY.total_seconds())
        if spent >= DAY_BYTES:
            return frozenset()
        return self._overdue(now, OnOutage.THEN_SKIP)

    def to_fail(self, now: float) -> frozenset[str]:
        """The sinks that have been away for longer than the driver is to wait."""
        return self._overdue(now, OnOutage.THEN_FAIL)

    def _overdue(self, now: float, then: spec_pb2.OnOutage.Then.ValueType) -> frozenset[str]:
        return frozenset(
            sink for sink, began in self.since.items()
            if (rule := self.rules.get(sink)) and rule.then == then
            and now - began >= rule.after.ToTimedelta().total_seconds()
        )  # fmt: skip
