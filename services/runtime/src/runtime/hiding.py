"""Secrets do not leave this process in words: what clients, servers and libraries say is looked through.

Servers quote what they refuse, and libraries what they cannot use. Who reads a secret, or makes a client with
one, says so to `hide`; all that is printed or raised passes `hidden`.
"""

from __future__ import annotations

from typing import Final

_SHORTEST: Final = 6
"""A shorter secret is no secret, and is a part of ordinary words."""
_PLACE: Final = "(secret)"
NEWEST: Final = 100
"""So many tokens of one client are hidden: a driver that gets another every hour runs for years."""

_values: dict[str, None] = {}
_tokens: dict[tuple[str, ...], dict[str, None]] = {}


def hide_token(value: str, *client: str) -> None:
    """Nothing of this process says this token, until NEWEST others have followed it for the same client."""
    newest = _tokens.setdefault(client, {})
    newest.pop(value, None)
    if len(value) >= _SHORTEST:
        newest[value] = None
    if len(newest) > NEWEST:
        del newest[next(iter(newest))]


def hide(value: str) -> None:
    """From now on nothing of this process says this."""
    # Parts, too: libraries quote a line, and of `user:password` servers the password.
    for part in (value, *value.splitlines(), value.partition(":")[2]):
        if len(part) >= _SHORTEST:
            _values[part] = None


def hidden(text: str) -> str:
    """The text without what is to be hidden, the longest first."""
    known = [*list(_values), *(token for newest in list(_tokens.values()) for token in list(newest))]
    for value in sorted({value for value in known if value in text}, key=len, reverse=True):
        text = text.replace(value, _PLACE)
    return text
