"""What a look at a dagger found about one condition. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from daggers.v1 import events_pb2

from daggerspec.limits import SHARE_ENDS
from fleet.health.advice import Advice
from fleet.health.degradation import Limits
from fleet.health.watch import Watch


class Measure(NamedTuple):
    """A number, beside what it may be at most."""

    value: float
    limit: float
    unit: str
    """As in `AlertFired`: "s", "share" or "count"."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Evidence that a condition holds, or that it does not."""

    active: bool
    summary: str
    """One sentence for a person: what is wrong, or why it is over."""
    since: datetime
    """Since when, as far as is known."""
    final: bool = False
    """Nothing is asked of the dagger any more: an incident is over at once."""
    measure: Measure | None = None
    """What was measured, where a number tells whether the condition holds."""
    advice: Advice | None = None
    """Whose it is and what to do next, where more is known than its condition tells."""

    def until_well_below(self, *, firing: bool) -> Finding:
        """The finding as an incident that fires sees it: a share is over well below its limit, or it would
        come and go at the limit itself.
        """
        measure = self.measure
        if not firing or self.active or self.final or measure is None or measure.unit != "share":
            return self
        return replace(self, active=measure.value > SHARE_ENDS * measure.limit)


def counted_long_enough(watch: Watch, limits: Limits) -> bool:
    """Whether a share of what a driver counted says anything."""
    return bool(watch.samples) and watch.samples[-1].time - watch.samples[0].time >= limits.share_time


# ---- Words and numbers of findings -------------------------------------------------------------------------


def why(error: events_pb2.DaggerError | None) -> str:
    """An error, for the end of a sentence."""
    if error is None:
        return "it left no reason"
    return f"{error.reason}: {error.detail}" if error.detail else error.reason


def seconds(span: timedelta, limit: timedelta) -> Measure:
    """A time beside its limit."""
    return Measure(span.total_seconds(), limit.total_seconds(), "s")
