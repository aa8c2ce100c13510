"""Redact secrets in all that this process prints or raises, whatever clients, servers and libraries say.

Servers quote what they refuse, and libraries what they cannot use. Code that reads a secret, or makes a
client with one, passes it to `hide`; all that is printed or raised passes `redact`.
"""

from __future__ import annotations

from typing import Final

_SHORTEST: Final = 6
"""Least length: a shorter secret is no secret, and is a part of ordinary words."""
_PLACE: Final = "(secret)"
NEWEST: Final = 100
"""Tokens of one client that are hidden: a driver that gets another every hour runs for years."""

_values: dict[str, None] = {}
_tokens: dict[tuple[str, ...], dict[str, None]] = {}


def hide_token(value: str, *client: str) -> None:
    """Hide a token, until NEWEST others have followed it for the same client."""
    newest = _tokens.setdefault(client, {})
    newest.pop(value, None)
    if len(value) >= _SHORTEST:
        newest[value] = None
    if len(newest) > NEWEST:
        del newest[next(iter(newest))]


def hide(value: str) -> None:
    """Hide a secret, and its parts, from now on."""
    # Parts, too: libraries quote a line, and of `user:password` servers the password.
    for part in (value, *value.splitlines(), value.partition(":")[2]):
        if len(part) >= _SHORTEST:
            _values[part] = None


def redact(text: str) -> str:
    """Replace hidden secrets in a text, the longest first."""
    secrets = [*list(_values), *(token for newest in list(_tokens.values()) for token in list(newest))]
    for value in sorted({value for value in secrets if value in text}, key=len, reverse=True):
        text = text.replace(value, _PLACE)
    return text
