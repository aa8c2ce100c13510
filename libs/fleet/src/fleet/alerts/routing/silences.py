"""Silences: matchers that hold incidents back until an instant. Pure.

What a silence holds back is kept, and told when it ends unless it is over by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fleet.alerts.routing.labels import Labels
from fleet.alerts.routing.matching import Matcher, matches_all

LONGEST: Final = timedelta(days=30)
"""Time that a silence may last: what is silent for longer is a condition that nobody wants."""
ENDS_SOON: Final = timedelta(minutes=15)
"""Time before its end at which an end is announced, while the silence still holds something back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Silence that somebody asked for."""

    id: str
    matchers: tuple[Matcher, ...]
    begin: datetime
    end: datetime
    """The first instant at which it holds nothing back."""
    author: str
    reason: str

    def holds(self, labels: Labels, now: datetime) -> bool:
        """Tell whether it holds back an incident with these labels now."""
        return self.begin <= now < self.end and matches_all(self.matchers, labels)


def find_problems(silence: Silence, now: datetime) -> list[str]:
    """List why a silence may not begin, one sentence each; empty when it may."""
    problems = []
    if not silence.matchers:
        problems.append("it has no matcher, and would hold back everything")
    if not silence.reason.strip():
        problems.append("it has no reason: whoever finds it at night needs one")
    if silence.end <= max(now, silence.begin):
        problems.append("it ends before it begins")
    elif silence.end - max(now, silence.begin) > LONGEST:
        problems.append(f"it lasts longer than {LONGEST.days} days")
    return problems


def find_silence(silences: Iterable[Silence], labels: Labels, now: datetime) -> Silence | None:
    """Return the silence that holds an incident back, of several the one that ends last; None without one."""
    holding = [silence for silence in silences if silence.holds(labels, now)]
    return max(holding, key=lambda silence: (silence.end, silence.id), default=None)


def count_matches(silence: Silence, incidents: Iterable[Labels]) -> int:
    """Count the incidents that a silence matches, at whatever time: 0 is worth a word to its author."""
    return sum(matches_all(silence.matchers, labels) for labels in incidents)


def list_ending(silences: Iterable[Silence], incidents: Iterable[Labels], now: datetime) -> list[Silence]:
    """List the silences that are about to end and hold something back, which is told then."""
    labels = list(incidents)
    return [
        silence
        for silence in silences
        if now < silence.end <= now + ENDS_SOON and any(silence.holds(incident, now) for incident in labels)
    ]
