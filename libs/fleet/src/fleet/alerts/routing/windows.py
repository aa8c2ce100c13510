"""Times of a week in which a route is active: `mon-fri 09:00-18:00 Europe/Berlin`. Pure.

A window is of the local clock: where that is set forward or back, the window is an hour shorter or longer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TEXT: Final = re.compile(
    r"(?:(?P<days>[a-z]{3}(?:-[a-z]{3})?(?:,[a-z]{3}(?:-[a-z]{3})?)*)\s+)?"
    r"(?P<begin>\d\d:\d\d)-(?P<end>\d\d:\d\d)\s+(?P<zone>[A-Za-z0-9_+/-]+)"
)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Times of a week. With an end at or before its begin it lasts until the next day."""

    days: frozenset[int]
    """Days on which it begins: 0 is Monday."""
    begin: time
    end: time
    """The first instant that is not in it."""
    zone: ZoneInfo

    def __str__(self) -> str:
        """Write it as `parse_window` reads it."""
        days = ",".join(_DAYS[day] for day in sorted(self.days))
        return f"{days} {self.begin:%H:%M}-{self.end:%H:%M} {self.zone.key}"

    def contains(self, instant: datetime) -> bool:
        """Tell whether an instant is in the window."""
        local = instant.astimezone(self.zone)
        clock, today = local.time(), local.weekday()
        if self.begin < self.end:
            return today in self.days and self.begin <= clock < self.end
        yesterday = (local - _DAY).weekday()
        return (today in self.days and clock >= self.begin) or (yesterday in self.days and clock < self.end)


def parse_window(text: str) -> TimeWindow:
    """Parse DAYS BEGIN-END ZONE; without days it is of every day. Raises: ValueError that says why not."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"must be such as 'mon-fri 09:00-18:00 Europe/Berlin', and {text[:80]!r} is not")
    try:
        zone = ZoneInfo(match["zone"])
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{match['zone'][:80]} is no time zone such as Europe/Berlin") from None
    days = _parse_days(match["days"]) if match["days"] else frozenset(range(7))
    return TimeWindow(days, _parse_clock(match["begin"]), _parse_clock(match["end"]), zone)


def _parse_days(text: str) -> frozenset[int]:
    days = set[int]()
    for part in text.split(","):
        first, _, last = part.partition("-")
        for name in (first, last or first):
            if name not in _DAYS:
                raise ValueError(f"{name} is no day: there are {', '.join(_DAYS)}")
        begin, length = _DAYS.index(first), (_DAYS.index(last or first) - _DAYS.index(first)) % 7
        days |= {(begin + step) % 7 for step in range(length + 1)}
    return frozenset(days)


def _parse_clock(text: str) -> time:
    hours, minutes = int(text[:2]), int(text[3:])
    if (hours, minutes) == (24, 0):
        return time()
    if hours > 23 or minutes > 59:
        raise ValueError(f"{text} is no time of a day")
    return time(hours, minutes)
