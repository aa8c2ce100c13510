"""What a look at a dagger found about one condition. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from daggers.v1 import events_pb2


class Measure(NamedTuple):
    """A number, beside what it may be at most."""

    value: float
    limit: float
    unit: str
    """As in `AlertFired`: "s" or "share"."""


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
    """What was measured, where a number tells that the condition holds."""
    domain: events_pb2.ErrorDomain.ValueType = events_pb2.ERROR_DOMAIN_UNSPECIFIED
    """Who has to act, where an error stands behind it."""
