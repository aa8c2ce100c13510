"""Names that a query may use beside streams and columns: reference tables, and message types inside bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, FileDescriptor


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference table that a query reads."""

    name: str
    entries: bool
    """True: it is read as a list of entries; False: as values by key."""
    refresh_hours: int
    """Maximum age of its content; 0: it is read for each batch."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Names that constants in a query may have."""

    references: frozenset[str] | None = None
    """Registered reference tables; None: the caller does not know them, and any name is accepted."""
    streams: tuple[Descriptor, ...] = ()
    """Messages of the streams: every message of their descriptor pools can be named."""
    unknown: frozenset[str] = frozenset()
    """Streams without a known schema: expressions over their columns are not checked."""

    def message(self, name: str) -> Descriptor | None:
        """Find a message type by its full name; None when there is none."""
        for stream in self.streams:
            try:
                return stream.file.pool.FindMessageTypeByName(name)
            except KeyError:
                continue
        return None

    def messages(self) -> Iterator[str]:
        """Yield full names of message types, for suggestions: of the streams' files and all their imports."""
        pending = [stream.file for stream in self.streams]
        seen: set[str] = set()
        while pending:
            file: FileDescriptor = pending.pop()
            if file.name not in seen:
                seen.add(file.name)
                yield from (message_type.full_name for message_type in file.message_types_by_name.values())
                pending += file.dependencies
