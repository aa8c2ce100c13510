"""The token file: one NAME:TOKEN a line. Tokens are kept and looked up by their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_MIN_TOKEN_LENGTH: Final = 16
Tokens = Callable[[], Mapping[bytes, str]]
"""The tokens there are now, as `read_tokens` answers."""


def read_tokens(path: Path) -> dict[bytes, str]:
    """Tokens of a file with one NAME:TOKEN a line: digest of the token -> name. `#` begins a comment line.

    Raises: ValueError naming the line, never its token; OSError.
    """
    return {_digest(token): name for name, token in _token_lines(path)}


def first_token(path: Path) -> str:
    """Read the first token of a file, which a caller uses. Raises: ValueError, OSError."""
    return _token_lines(path)[0][1]


def name_of(token: str, tokens: Mapping[bytes, str]) -> str | None:
    """Find the name of a token; None for an unknown one."""
    # Looked up by digest, so that the time of the look-up reveals nothing about the tokens.
    return tokens.get(_digest(token))


def _token_lines(path: Path) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, _, token = (part.strip() for part in line.partition(":"))
        if not name or len(token) < _MIN_TOKEN_LENGTH:
            raise ValueError(
                f"line {number} of {path} is not NAME:TOKEN with a token of at least"
                f" {_MIN_TOKEN_LENGTH} characters"
            )
        tokens.append((name, token))
    if not tokens:
        raise ValueError(f"{path} holds no token: write one NAME:TOKEN a line")
    return tokens


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
