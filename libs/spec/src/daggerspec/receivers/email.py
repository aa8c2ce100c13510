"""Mail by SMTP submission, always under TLS."""

import re
from typing import Final

from daggerspec.receivers import Setting

MOST_RECIPIENTS: Final = 20
_ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
"""The addresses that people have: a dot-atom of RFC 5322 at a domain, without names, quotes and comments."""
_LONGEST: Final = 254
"""Characters of an address (RFC 5321, 4.5.3.1.3, without its angle brackets)."""


def parse_addresses(text: str) -> tuple[str, ...]:
    """Split comma-separated addresses. Raises: ValueError that says what is wrong."""
    addresses = tuple(part.strip() for part in text.split(","))
    for address in addresses:
        if len(address) > _LONGEST or not _ADDRESS.fullmatch(address):
            raise ValueError(f"must be addresses such as on-call@example.org, and {address[:80]!r} is none")
    if len(addresses) > MOST_RECIPIENTS:
        raise ValueError(f"must be at most {MOST_RECIPIENTS} addresses: use the address of a list")
    return addresses


def parse_sender(text: str) -> str:
    """Check that there is one address. Raises: ValueError that says what is wrong."""
    addresses = parse_addresses(text)
    if len(addresses) > 1:
        raise ValueError("must be one address")
    return addresses[0]


SECRETS: Final = {"url": True}
SETTINGS: Final = {"to": Setting(parse_addresses), "sender": Setting(parse_sender)}
ACKNOWLEDGES: Final = False
TAKES_ANNOUNCEMENTS: Final = True
