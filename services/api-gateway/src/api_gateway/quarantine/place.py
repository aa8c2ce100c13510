"""Places of records in `daggers.quarantine`, and the position of an index."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from api_gateway.quarantine.topic import Message

Place: TypeAlias = tuple[int, int, int]
"""Place of a record among those of its dagger: Kafka's timestamp, offset, partition."""


@dataclass(frozen=True, slots=True)
class Position:
    """Position of the index in a partition."""

    next: int
    """Offset of the next record to read."""
    last: bytes
    """Digest of the record before it."""


def digest(message: Message) -> bytes:
    """Return 16 bytes that tell a record from another at its place."""
    about = f"{message.time_ms} {message.key.hex()} ".encode()
    return hashlib.blake2b(about + message.value, digest_size=16).digest()
