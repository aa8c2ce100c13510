"""Tickets: what who holds a key makes, and who has the same key takes once, until it ends. Pure.

    END-NONCE-MAC     END: seconds since 1970; MAC: HMAC-SHA256 by the key of what stands before it

A ticket may stand in a URL, where a key that is good for ever may not: whoever finds it later finds nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Final

LIFE_S: Final = 12 * 3600
"""Validity of an unused ticket, in seconds."""
_WRITTEN: Final = re.compile(r"(([0-9]{1,12})-([0-9a-f]{32}))-([0-9a-f]{64})")


def issue_ticket(key: str, nonce: bytes, now: float) -> str:
    """Issue a ticket. `nonce`: 16 random bytes; `now`: seconds since 1970."""
    payload = f"{int(now) + LIFE_S}-{nonce.hex()}"
    return f"{payload}-{mac(key, payload)}"


def nonce_of(key: str, ticket: str, now: float) -> str | None:
    """Return the nonce of a valid ticket; None for one of another key, or an expired one."""
    match = _WRITTEN.fullmatch(ticket)
    if match is None or not hmac.compare_digest(mac(key, match[1]), match[4]):
        return None
    return match[3] if now < int(match[2]) else None


def mac(key: str, text: str) -> str:
    """HMAC-SHA256 of a text, in hexadecimal digits."""
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
