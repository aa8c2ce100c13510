"""Where records stand in `daggers.quarantine`, and how far it is read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from api_gateway.quarantine.topic import Message

Place: TypeAlias = tuple[int, int, int]
"""Where a record stands among those of its dagger: Kafka's timestamp, offset, partition."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition is read."""

    next: int
    """Offset of the record to be read next."""
    last: bytes
    """Digest of the record before it."""


def digest(message: Message) -> bytes:
    """16 bytes that tell a record from another at its place."""
    about = f"{message.time_ms} {message.key.hex()} ".encode()
    return hashlib.blake2b(about + message.value, digest_size=16).digest()
