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
"""How long a ticket is good that nobody has used, in seconds."""
_WRITTEN: Final = re.compile(r"(([0-9]{1,12})-([0-9a-f]{32}))-([0-9a-f]{64})")


def issued(key: str, nonce: bytes, now: float) -> str:
    """A ticket. `nonce`: 16 random bytes; `now`: seconds since 1970."""
    said = f"{int(now) + LIFE_S}-{nonce.hex()}"
    return f"{said}-{mac(key, said)}"


def nonce_of(key: str, ticket: str, now: float) -> str | None:
    """What tells a good ticket from all others; None for one of another key, and one that has ended."""
    match = _WRITTEN.fullmatch(ticket)
    if match is None or not hmac.compare_digest(mac(key, match[1]), match[4]):
        return None
    return match[3] if now < int(match[2]) else None


def mac(key: str, text: str) -> str:
    """HMAC-SHA256 of a text, in hexadecimal digits."""
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
