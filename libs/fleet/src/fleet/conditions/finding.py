"""Findings: the evidence for or against one condition at one moment. Pure."""

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
    """Measured value and its limit."""

    value: float
    limit: float
    unit: str
    """Unit of both: "s", "share" or "count" (`AlertFired.unit`)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Evidence that a condition holds (`active`), or that it does not."""

    active: bool
    summary: str
    """Clause for a person: the problem, or the reason why it is over."""
    since: datetime
    """Since when it is so, as far as the evidence goes back."""
    final: bool = False
    """The dagger need not run any more: resolve an incident at once, without `resolve_hold`."""
    measure: Measure | None = None
    """Measure that decides the condition; None where no number does."""
    advice: Advice | None = None
    """Owner and next step, where more specific than those of the condition; None: those."""

    def until_well_below(self, *, firing: bool, clear: float | None = None) -> Finding:
        """Apply hysteresis for an incident that fires: its measure must fall to `clear` to be over, otherwise
        the alert would flap at the limit. None: a share to SHARE_ENDS of its limit, all else to the limit.
        """
        measure = self.measure
        if not firing or self.active or self.final or measure is None:
            return self
        if clear is None and measure.unit != "share":
            return self
        return replace(self, active=measure.value > (SHARE_ENDS * measure.limit if clear is None else clear))


def counted_long_enough(watch: Watch, limits: Limits) -> bool:
    """Tell whether a driver's counters span enough time for a share of them to be evidence."""
    return bool(watch.samples) and watch.samples[-1].time - watch.samples[0].time >= limits.share_time


# ---- Words and numbers of findings -------------------------------------------------------------------------


def why(error: events_pb2.DaggerError | None) -> str:
    """Format an error for the end of a sentence."""
    if error is None:
        return "it left no reason"
    return f"{error.reason}: {error.detail}" if error.detail else error.reason


def seconds(span: timedelta, limit: timedelta) -> Measure:
    """Measure a time against its limit, both in seconds."""
    return Measure(span.total_seconds(), limit.total_seconds(), "s")
