"""Limit the requests in flight to a sink by additive increase and multiplicative decrease (AIMD). Pure.

The limit grows by one for each limit's worth of successes, and shrinks by a tenth when the server asks for
less: so it settles at what the server takes. For sinks whose requests are independent of each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

FIRST: Final = 4.0
MOST: Final = 1024.0
_SHRINK_FACTOR: Final = 0.9
_APART_S: Final = 0.1
"""Throttlings within this time count once: their requests went out under one limit."""


@dataclass(frozen=True, slots=True)
class InFlightLimit:
    """The limit after some answers. Times are seconds of one monotonic clock."""

    value: float = FIRST
    most: float = MOST
    """Upper bound that an administrator has set."""
    shrunk_at: float = float("-inf")
    """Last time that the limit shrank."""

    @property
    def requests(self) -> int:
        """Requests that may be in flight: at least one, else no answer would ever change the limit."""
        return max(int(min(self.value, self.most)), 1)

    def grow(self) -> InFlightLimit:
        """Return the limit after a success."""
        # not `replace`: it runs once for each request, and would show in profiles
        return InFlightLimit(min(self.value + 1 / self.value, self.most), self.most, self.shrunk_at)

    def shrink(self, now: float) -> InFlightLimit:
        """Return the limit after the server asked for less (429, RESOURCE_EXHAUSTED) or timed out."""
        if now - self.shrunk_at < _APART_S:
            return self
        return replace(self, value=max(self.value * _SHRINK_FACTOR, 1.0), shrunk_at=now)
