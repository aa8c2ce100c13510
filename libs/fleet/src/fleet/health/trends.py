"""Rules about a span of time: ends, input and lag of a driver. Pure.

The numbers of a heartbeat are of one instant; what is wrong only in the long run shows here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, takewhile
from typing import Final

from chassis.durations import format_span
from fleet.health.degradation import Limits

_PAUSES: Final = 3
_THIRDS: Final = 3


def ends_lately(ends: Sequence[datetime], since: datetime, limits: Limits, now: datetime) -> list[datetime]:
    """Return the ends of a driver that count: those after `since`, when a person last made a request about
    it.
    """
    return [end for end in ends if end > max(since, now - limits.restarts_within)]


@dataclass(frozen=True, slots=True)
class Flow:
    """Flow of records of late. A pause of up to three times the longest before is part of it."""

    begun: datetime
    """Time when the first of them came."""
    last: datetime
    """Time when the newest came."""
    longest: timedelta = timedelta(0)
    """Longest time without any between the two."""

    def patience(self, limits: Limits) -> timedelta:
        """Return the time for which none may come."""
        return max(limits.input_gap, _PAUSES * self.longest)

    def steady(self, limits: Limits) -> bool:
        """Tell whether they came for long enough to be missed."""
        return self.last - self.begun >= limits.input_gap


@dataclass(frozen=True, slots=True)
class Pause:
    """Time without a record, after those of a flow."""

    flow: Flow
    since: datetime
    lasted: timedelta
    limit: timedelta
    """Time that it may last."""

    @property
    def over_limit(self) -> bool:
        """True when it lasts too long, if records are to be missed at all."""
        return self.lasted >= self.limit

    def __str__(self) -> str:
        came, longest = format_span(self.flow.last - self.flow.begun), format_span(self.flow.longest)
        return (
            f"no record has come for {format_span(self.lasted)};"
            f" they had come for {came} without a pause above {longest}"
        )


def flows(flow: Flow | None, now: datetime, limits: Limits) -> Flow:
    """Return the flow after records came. After too long a pause it begins anew."""
    if flow is None or now - flow.last >= flow.patience(limits):
        return Flow(now, now)
    return Flow(flow.begun, now, max(flow.longest, now - flow.last))


@dataclass(frozen=True, slots=True)
class Backlog:
    """Records that one launch had still to read, at one instant."""

    time: datetime
    lag: int
    """Records not read yet."""
    read: int
    """Records read since the launch."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of a lag."""

    first: Backlog
    last: Backlog
    grows: bool
    """True when the least lag of each third of the time is above that of the third before, as in no wave;
    not looked at where it grew by fewer records than matter.
    """

    @property
    def records(self) -> int:
        """Records by which the lag became greater; negative when it shrank."""
        return self.last.lag - self.first.lag

    @property
    def share_left(self) -> float:
        """Share of the records that came which were left unread."""
        came = self.records + self.last.read - self.first.read
        return self.records / came if self.records > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"its lag grew by {self.records:,} to {self.last.lag:,} records in"
            f" {format_span(self.last.time - self.first.time)}: {self.share_left:.1%} of what came was not"
            " read"
        )

    def too_much(self, limits: Limits) -> bool:
        """Tell whether it falls behind for good: the slope counts, not the lag."""
        return self.grows and self.records >= limits.lag_records and self.share_left > limits.lag_share


def growth(backlogs: Sequence[Backlog], limits: Limits) -> Growth | None:
    """Return the growth of the lag over the window; None while not all of it was observed."""
    if not backlogs or backlogs[-1].time - backlogs[0].time < limits.lag_window:
        return None
    begin, first = backlogs[-1].time - limits.lag_window, backlogs[0]
    for backlog in takewhile(lambda backlog: backlog.time <= begin, backlogs):
        first = backlog
    grows = backlogs[-1].lag - first.lag >= limits.lag_records and _grows(backlogs, begin, limits)
    return Growth(first, backlogs[-1], grows)


def _grows(backlogs: Sequence[Backlog], begin: datetime, limits: Limits) -> bool:
    """Tell whether the least lag of each third of the time behind `begin` is above that of the one before."""
    least: list[int | None] = [None] * _THIRDS
    for backlog in backlogs:
        third = min(max(int((backlog.time - begin) / limits.lag_window * _THIRDS), 0), _THIRDS - 1)
        before = least[third]
        least[third] = backlog.lag if before is None else min(before, backlog.lag)
    lows = [low for low in least if low is not None]
    return len(lows) == _THIRDS and all(one < other for one, other in pairwise(lows))
