"""What a query may name beside streams and columns: reference tables, and message types inside bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, FileDescriptor


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference table that a query reads."""

    name: str
    entries: bool
    """Whether it is read as a list of entries, not as values by key."""
    refresh_hours: int
    """How old its content may grow; 0: it is read for each batch."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Names that constants in a query may have."""

    references: frozenset[str] | None = None
    """Registered reference tables; None: whoever asks does not know them, and any name is let through."""
    streams: tuple[Descriptor, ...] = ()
    """The streams' messages: every message that stands in their descriptor pools can be named."""
    unknown: frozenset[str] = frozenset()
    """Tables of which nothing is known but that they are streams: what is read of them is not judged."""

    def message(self, name: str) -> Descriptor | None:
        """The message type of that full name; None when there is none."""
        for stream in self.streams:
            try:
                return stream.file.pool.FindMessageTypeByName(name)
            except KeyError:
                continue
        return None

    def messages(self) -> Iterator[str]:
        """Names of message types, for suggestions: those of the streams' files and all they import."""
        pending = [stream.file for stream in self.streams]
        seen: set[str] = set()
        while pending:
            file: FileDescriptor = pending.pop()
            if file.name not in seen:
                seen.add(file.name)
                yield from (message_type.full_name for message_type in file.message_types_by_name.values())
                pending += file.dependencies
