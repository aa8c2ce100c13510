"""Receivers: a module is a kind of receiver, and speaks its receiver's language. Pure.

Each has `PACE` (least time between two calls), `request(notify, key)` (the JSON body) and
`outcome(status, body, after)` (what an answer means). The monitor sends; what is here knows no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Sent:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """It may not have it; trying again may help."""

    reason: str
    """UPPER_SNAKE."""
    detail: str
    """One sentence for a person; no address, no key."""
    after: timedelta | None = None
    """The receiver asks to be left alone for this long."""
    throttled: bool = False
    """It takes nothing at all until then: it limits rates."""


@dataclass(frozen=True, slots=True)
class Permanent:
    """It will never take this."""

    reason: str
    """UPPER_SNAKE."""
    detail: str
    """One sentence for a person; no address, no key."""


Outcome: TypeAlias = Sent | Temporary | Permanent


def refused(status: int, said: str, after: timedelta | None) -> Temporary | Permanent:
    """What an answer that is not a success means: 429 and 5xx may pass, anything else will not.

    `said`: what the receiver said, safe to be shown.
    """
    detail = f"it answered {status}{f': {said}' if said else ''}"
    if status == 429:
        return Temporary("THROTTLED", detail, after, throttled=True)
    if status >= 500:
        return Temporary("RECEIVER_ERROR", detail, after)
    if 300 <= status < 400:
        return Permanent("REDIRECTED", f"{detail}; redirects are not followed: give the final address")
    return Permanent("REFUSED", detail)
