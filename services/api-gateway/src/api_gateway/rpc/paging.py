"""Pages of a list: their sizes, and tokens of the next page. Pure.

A token contains the last entry of its page and the scope of the list. Entries may be added and removed
between two pages; no two pages have the same entry.
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
# gRPC clients accept messages of 4 MiB unless they are configured otherwise.
MAX_ANSWER_BYTES: Final = 3 * 1024 * 1024
_FIELD: Final = "page_token"


class PageRequest(Protocol):
    """A request for a page."""

    page_size: int
    page_token: str


class ProtoMessage(Protocol):
    """A message of Protobuf."""

    def ByteSize(self) -> int:  # noqa: N802 - Protobuf's name
        """Return the size of the serialised message, in bytes."""


M = TypeVar("M", bound=ProtoMessage | str)


@dataclass(frozen=True, slots=True)
class Page:
    """A requested part of a list: at most `size` entries behind the entry `after`."""

    of: str
    """Scope of the list: a token is valid in the same scope only."""
    after: str
    """The last entry of the page before; empty for the first page."""
    size: int

    @property
    def limit(self) -> int:
        """Number of entries to read: one more tells whether there is another page."""
        return self.size + 1

    def cut(self, entries: Sequence[M], key: Callable[[M], str]) -> tuple[Sequence[M], str]:
        """Return the entries that fit on the page, and the token of the next page; empty on the last."""
        page = fitting(entries[: self.size])
        return page, token(key(page[-1]), self.of) if len(entries) > len(page) else ""


def read_page(request: PageRequest, of: str, *, default: int = PAGE) -> tuple[Page, list[Violation]]:
    """Read the page that a request asks for, and what is wrong with it."""
    after, wrong = read_token(request.page_token, of)
    wrong += request_fields.page_size("page_size", request.page_size)
    return Page(of, after, min(request.page_size, MAX_PAGE) or default), wrong


def token(last: str, of: str) -> str:
    """Build the token of the page behind the entry `last`."""
    return base64.urlsafe_b64encode(f"{last}\n{of}".encode()).decode()


def read_token(text: str, of: str) -> tuple[str, list[Violation]]:
    """Parse a token to the entry that its page begins behind; empty for the first page."""
    if not text:
        return "", []
    try:
        last, _, scope = base64.b64decode(text, altchars=b"-_", validate=True).decode().partition("\n")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return "", [unreadable()]
    if scope != of:
        belongs = "belongs to another list or filter: begin with the first page"
        return "", [Violation(_FIELD, belongs, "INVALID_TOKEN")]
    return last, []


def unreadable() -> Violation:
    """Build the violation for a token that is none."""
    return Violation(_FIELD, "is not a page token: pass the next_page_token of a page", "INVALID_TOKEN")


def fitting(entries: Sequence[M]) -> Sequence[M]:
    """Return as many of the first entries, messages or names, as one response may contain; at least one."""
    size = 0
    for number, entry in enumerate(entries):
        size += len(entry.encode()) + 3 if isinstance(entry, str) else entry.ByteSize()
        if size > MAX_ANSWER_BYTES and number:
            return entries[:number]
    return entries


def name(entry: Any) -> str:
    """Return the name of an entry, or the name that is the entry: the key of most lists."""
    return entry if isinstance(entry, str) else str(entry.name)
