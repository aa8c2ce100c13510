"""Pages of a list: how much of it an answer has, and where the next one begins. Pure.

A token names the last entry of its page, and what was asked. Entries come and go between two pages, and no
two pages have the same one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from api_gateway.validate import request_fields
from daggerspec.violation import Violation

PAGE: Final = 100
MAX_PAGE: Final = 1_000
# gRPC clients take messages of 4 MiB unless told otherwise.
MAX_ANSWER_BYTES: Final = 3 * 1024 * 1024
_FIELD: Final = "page_token"


class Asking(Protocol):
    """A request for a page."""

    page_size: int
    page_token: str


class Sized(Protocol):
    """A message."""

    def ByteSize(self) -> int:  # noqa: N802 - Protobuf's name
        """How many bytes it takes."""


M = TypeVar("M", bound=Sized | str)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list that is asked for: at most `size` entries behind the entry `after`."""

    of: str
    """What the list is of: a token is good for the same list only."""
    after: str
    """Empty for the first page."""
    size: int

    @property
    def limit(self) -> int:
        """How many entries to look for: one more tells whether there is another page."""
        return self.size + 1

    def cut(self, entries: Sequence[M], key: Callable[[M], str]) -> tuple[Sequence[M], str]:
        """As many of what was found as the page takes, and the token of the next one; empty on the last."""
        page = fitting(entries[: self.size])
        return page, token(key(page[-1]), self.of) if len(entries) > len(page) else ""


def asked(request: Asking, of: str, *, default: int = PAGE) -> tuple[Page, list[Violation]]:
    """The page that a request is for, and what is wrong with it."""
    after, wrong = read_token(request.page_token, of)
    wrong += request_fields.page_size("page_size", request.page_size)
    return Page(of, after, min(request.page_size, MAX_PAGE) or default), wrong


def token(last: str, of: str) -> str:
    """The token of the page behind the entry `last`."""
    return base64.urlsafe_b64encode(f"{last}\n{of}".encode()).decode()


def read_token(text: str, of: str) -> tuple[str, list[Violation]]:
    """The entry that a page begins behind; empty for the first."""
    if not text:
        return "", []
    try:
        last, _, meant = base64.b64decode(text, altchars=b"-_", validate=True).decode().partition("\n")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", [unreadable()]
    if meant != of:
        belongs = "belongs to another list or filter: begin with the first page"
        return "", [Violation(_FIELD, belongs, "INVALID_TOKEN")]
    return last, []


def unreadable() -> Violation:
    """What is wrong with a token that nobody here has made."""
    return Violation(_FIELD, "is not a page token: pass the next_page_token of a page", "INVALID_TOKEN")


def fitting(entries: Sequence[M]) -> Sequence[M]:
    """As many of the first, messages or names, as one answer takes; never none of some."""
    size = 0
    for number, entry in enumerate(entries):
        size += len(entry.encode()) + 3 if isinstance(entry, str) else entry.ByteSize()
        if size > MAX_ANSWER_BYTES and number:
            return entries[:number]
    return entries


def name(entry: Any) -> str:
    """What most lists are sorted by: the name of an entry, or the name that is the entry."""
    return entry if isinstance(entry, str) else str(entry.name)
