"""Rules about a while: how a driver's ends, its input and its lag go on. Pure.

The numbers that a driver tells say how it is at one instant; what is wrong only in the long run shows here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from chassis.durations import format_span
from fleet.health.degradation import Limits

_PAUSES: Final = 3
_THIRDS: Final = 3


def ends_lately(ends: Sequence[datetime], since: datetime, limits: Limits, now: datetime) -> list[datetime]:
    """The ends of a driver that count: not those before `since`, when a person last asked for something."""
    return [end for end in ends if end > max(since, now - limits.restarts_within)]


@dataclass(frozen=True, slots=True)
class Flow:
    """How records have come of late. A pause of up to three times the longest before is part of it."""

    begun: datetime
    """When the first of them came."""
    last: datetime
    """When the newest came."""
    longest: timedelta = timedelta(0)
    """The longest time without any between the two."""

    def patience(self, limits: Limits) -> timedelta:
        """How long none may come."""
        return max(limits.input_gap, _PAUSES * self.longest)

    def steady(self, limits: Limits) -> bool:
        """Whether they came for long enough to be missed."""
        return self.last - self.begun >= limits.input_gap


@dataclass(frozen=True, slots=True)
class Pause:
    """Since when no record came, after those of a flow."""

    flow: Flow
    since: datetime
    lasted: timedelta
    limit: timedelta
    """How long it may last."""

    @property
    def over_limit(self) -> bool:
        """Whether it lasts too long, if records are to be missed at all."""
        return self.lasted >= self.limit

    def __str__(self) -> str:
        came, longest = format_span(self.flow.last - self.flow.begun), format_span(self.flow.longest)
        return (
            f"no record has come for {format_span(self.lasted)};"
            f" they had come for {came} without a pause above {longest}"
        )


def flows(flow: Flow | None, now: datetime, limits: Limits) -> Flow:
    """The flow after records came. After too long a pause it begins anew."""
    if flow is None or now - flow.last >= flow.patience(limits):
        return Flow(now, now)
    return Flow(flow.begun, now, max(flow.longest, now - flow.last))


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one launch had still to read, at one instant."""

    time: datetime
    lag: int
    """Records not read yet."""
    read: int
    """Records read since the launch."""


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much a lag grew."""

    first: Backlog
    last: Backlog
    grows: bool
    """Whether the least lag of each third of the time is above that of the third before, as in no wave."""

    @property
    def records(self) -> int:
        """How much greater the lag became; negative when it shrank."""
        return self.last.lag - self.first.lag

    @property
    def share_left(self) -> float:
        """Of the records that came, those that were left unread."""
        came = self.records + self.last.read - self.first.read
        return self.records / came if self.records > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"its lag grew by {self.records:,} to {self.last.lag:,} records in"
            f" {format_span(self.last.time - self.first.time)}: {self.share_left:.1%} of what came was not"
            " read"
        )

    def too_much(self, limits: Limits) -> bool:
        """Whether it falls behind for good: the slope counts, not the lag."""
        return self.grows and self.records >= limits.lag_records and self.share_left > limits.lag_share


def growth(backlogs: Sequence[Backlog], limits: Limits) -> Growth | None:
    """How the lag grew over the window; None while not all of it was observed."""
    if not backlogs or backlogs[-1].time - backlogs[0].time < limits.lag_window:
        return None
    begin = backlogs[-1].time - limits.lag_window
    least: list[int | None] = [None] * _THIRDS
    first = backlogs[0]
    for backlog in backlogs:
        if backlog.time <= begin:
            first = backlog
        third = min(max(int((backlog.time - begin) / limits.lag_window * _THIRDS), 0), _THIRDS - 1)
        before = least[third]
        least[third] = backlog.lag if before is None else min(before, backlog.lag)
    lows = [low for low in least if low is not None]
    grows = len(lows) == _THIRDS and all(one < other for one, other in pairwise(lows))
    return Growth(first, backlogs[-1], grows)
