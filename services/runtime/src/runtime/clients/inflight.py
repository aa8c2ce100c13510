"""How many requests of a sink may be under way at once: as many as its server takes, found by trying. Pure.

Additive increase, multiplicative decrease: a limit that grows by one for each limit's worth of answers, and
shrinks by a tenth when the server asks for less. For sinks whose requests are independent of each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

FIRST: Final = 4.0
MOST: Final = 1024.0
_SHRUNK: Final = 0.9
_APART_S: Final = 0.1
"""Refusals within this are one: their requests went out under one limit."""


@dataclass(frozen=True, slots=True)
class InFlightLimit:
    """The limit after some answers; times are seconds of one monotonic clock."""

    value: float = FIRST
    most: float = MOST
    """What an administrator allows, at most."""
    shrunk: float = float("-inf")
    """When it shrank last."""

    @property
    def requests(self) -> int:
        """So many may be under way: at least one, or nothing would ever be known."""
        return max(int(min(self.value, self.most)), 1)

    def taken(self) -> InFlightLimit:
        """A request succeeded."""
        # once for each request, where `replace` would take a share of it that is seen
        return InFlightLimit(min(self.value + 1 / self.value, self.most), self.most, self.shrunk)

    def throttled(self, now: float) -> InFlightLimit:
        """The server asked for less (429, RESOURCE_EXHAUSTED), or did not answer in time."""
        if now - self.shrunk < _APART_S:
            return self
        return replace(self, value=max(self.value * _SHRUNK, 1.0), shrunk=now)
