"""Silences: matchers that hold incidents back until an instant. Pure.

What a silence holds back is kept, and told when it ends unless it is over by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2

from fleet.alerts.routing.labels import Labels
from fleet.alerts.routing.matching import Matcher, matches_all, parse_matcher

LONGEST: Final = timedelta(days=30)
"""Time that a silence may last: what is silent for longer is a condition that nobody wants."""
ENDS_SOON: Final = timedelta(minutes=15)
"""Time before its end at which the end of a silence is announced, while it still holds something back. One
that is not longer is not announced: its author has not forgotten it.
"""


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
    team: str = ""
    """Team whose incidents it holds back; empty: all."""
    ended_by: str = ""
    """Principal that ended it before its time; empty where nobody did."""

    def matches(self, labels: Labels) -> bool:
        """Tell whether it is of an incident with these labels, at whatever time."""
        return self.team in ("", labels.get("team", "")) and matches_all(self.matchers, labels)

    def is_active(self, now: datetime) -> bool:
        """Tell whether it has begun, and is not over."""
        return self.begin <= now < self.end

    def holds(self, labels: Labels, now: datetime) -> bool:
        """Tell whether it holds back an incident with these labels now."""
        return self.is_active(now) and self.matches(labels)


def parse_silence(message: alerts_pb2.AlertSilence) -> Silence:
    """Convert the message of a silence. Raises: ValueError."""
    try:
        return Silence(
            id=message.id,
            matchers=tuple(map(parse_matcher, message.matchers)),
            begin=message.begin.ToDatetime(tzinfo=UTC),
            end=message.end.ToDatetime(tzinfo=UTC),
            author=message.author,
            reason=message.reason,
            team=message.team,
        )
    except OverflowError as error:
        raise ValueError("its times are no instants") from error


def build_message(silence: Silence) -> alerts_pb2.AlertSilence:
    """Convert a silence to its message."""
    message = alerts_pb2.AlertSilence(
        id=silence.id,
        team=silence.team,
        matchers=map(str, silence.matchers),
        author=silence.author,
        reason=silence.reason,
    )
    message.begin.FromDatetime(silence.begin)
    message.end.FromDatetime(silence.end)
    return message


def expire(silence: Silence, actor: str, time: datetime) -> Silence:
    """End a silence; one that is over stays as it is."""
    return silence if silence.end <= time else replace(silence, end=time, ended_by=actor)


def find_problems(silence: Silence, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield why a silence may not begin: the field, and what is wrong with it; nothing when it may."""
    begin = max(now, silence.begin)
    if not silence.matchers:
        yield "matchers", "must be at least one: without any it would hold back everything"
    if not silence.reason.strip():
        yield "reason", "must say why, for whoever finds the silence at night"
    if begin - now > LONGEST:
        yield "begin", f"must not be more than {LONGEST.days} days ahead"
    if silence.end <= begin:
        yield "duration", "must end after now, and after the begin"
    elif silence.end - begin > LONGEST:
        yield "duration", f"must not be longer than {LONGEST.days} days"


def find_silence(silences: Iterable[Silence], labels: Labels, now: datetime) -> Silence | None:
    """Return the silence that holds an incident back, of several the one that ends last; None without one."""
    holding = [silence for silence in silences if silence.holds(labels, now)]
    return max(holding, key=lambda silence: (silence.end, silence.id), default=None)


def find_release(silences: Iterable[Silence], labels: Labels, now: datetime) -> datetime | None:
    """Return the newest end of those that held an incident back before now; None where none did."""
    ends = (
        silence.end for silence in silences if silence.begin < silence.end <= now and silence.matches(labels)
    )
    return max(ends, default=None)


def count_matches(silence: Silence, incidents: Iterable[Labels]) -> int:
    """Count the incidents that a silence matches, at whatever time: 0 is worth a word to its author."""
    return sum(map(silence.matches, incidents))


def list_ending(silences: Iterable[Silence], now: datetime) -> list[Silence]:
    """List the silences that are about to end, whether or not they hold something back."""
    return [
        silence
        for silence in silences
        if silence.is_active(now) and silence.end - now <= ENDS_SOON < silence.end - silence.begin
    ]


def find_freed(silence: Silence, silences: Collection[Silence], incidents: Sequence[Labels]) -> list[int]:
    """Return the places of those incidents that a silence holds back, and none of all silences goes on to
    hold back at its end.
    """
    return [
        number
        for number, labels in enumerate(incidents)
        if silence.matches(labels) and find_silence(silences, labels, silence.end) is None
    ]
