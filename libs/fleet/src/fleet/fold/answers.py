"""Answers to requests: the same id gets the same answer, whoever folds the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from google.protobuf.message import Message

REUSED = "REQUEST_ID_REUSED"
_WORDS: Final = {"reference": "reference table"}


class Code(StrEnum):
    """The AIP codes a fold can refuse with; each is the name of a gRPC status."""

    ABORTED = "ABORTED"
    """Somebody else's request came first: read again, decide again."""
    ALREADY_EXISTS = "ALREADY_EXISTS"
    """The name is taken."""
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    """Not in the state the subject is in; `detail` says what must happen first."""
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    """The request itself is wrong."""
    NOT_FOUND = "NOT_FOUND"
    """There is no such subject."""
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    """There are as many as there may be."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a request."""

    code: Code
    reason: str
    """UPPER_SNAKE, for programs."""
    detail: str
    """One sentence for a person."""
    metadata: Mapping[str, str]
    """Values of the detail, for programs: which object, which value."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of the fold to a request."""

    sequence: int
    """Sequence of the first record with this request id."""
    digest: bytes
    """Digest of the request's type and body; see `digest`."""
    version: int
    """The subject's version after an accepted request; 0 when refused."""
    refusal: Refusal | None = None
    """None when accepted."""

    @property
    def accepted(self) -> bool:
        """True when the request was applied."""
        return self.refusal is None


def digest(request: Message) -> bytes:
    """Return 16 bytes that tell one request body from another, whatever the order of its map entries."""
    text = request.SerializeToString(deterministic=True)
    return blake2b(text, digest_size=16, person=request.DESCRIPTOR.name.encode()[:16]).digest()


def refuse_reused_id(request_id: str, first: Answer) -> Refusal:
    """Refuse a request id that was used before with another body."""
    return Refusal(
        Code.INVALID_ARGUMENT,
        REUSED,
        f"request_id {request_id!r} was used with another request at sequence {first.sequence};"
        " use a new request_id for a new request",
        {"request_id": request_id, "sequence": str(first.sequence)},
    )


def missing(kind: str, name: str) -> Refusal:
    """Refuse a request about something that does not exist."""
    return Refusal(
        Code.NOT_FOUND, "NOT_FOUND", f"there is no {describe_object(kind, name)}", about(kind, name)
    )


def version_mismatch(kind: str, name: str, expected: int, actual: int) -> Refusal | None:
    """Refuse an expected version that does not hold; return None when it holds.

    `actual` is 0 for a subject that does not exist; a subject reads like "dagger completed_bookings".
    """
    if expected == actual:
        return None
    if actual == 0:
        return missing(kind, name)
    subject = describe_object(kind, name)
    metadata = {**about(kind, name), "expected_version": str(expected), "actual_version": str(actual)}
    if expected == 0:
        text = f"{subject} exists already, at version {actual}"
        return Refusal(Code.ALREADY_EXISTS, "NAME_TAKEN", text, metadata)
    text = f"{subject} is at version {actual}, not {expected}: read it again and decide again"
    return Refusal(Code.ABORTED, "VERSION_MISMATCH", text, metadata)


def describe_object(kind: str, name: str) -> str:
    """Return the words for an object in a sentence."""
    return f"{_WORDS.get(kind, kind)} {name}"


def some(names: list[str], most: int) -> str:
    """Join the first names, and say how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def about(kind: str, name: str) -> dict[str, str]:
    """Return a refusal's metadata about its object: a dagger, cluster, stream, reference or message."""
    return {"kind": kind, "name": name}
