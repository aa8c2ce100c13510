"""Rows of one sink and one schema that are written together: the same ones, under the same number, in every
attempt of a replay. Pure.

A sink that counts batches, and so writes each exactly once, can tell by that what an attempt before has
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import pyarrow as pa

from runtime.replay.history import Kept

MOST_ROWS: Final = 5_000
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of all rows that are held at once, as they are kept in the quarantine."""
_JOINED: Final = 200
_CONTINUES: Final = b"\xff\xff\xff\xff"
_END: Final = _CONTINUES + bytes(4)
Version = tuple[int, int]
"""Generation and batch of a row that is updated."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that are written together."""

    sink: str
    number: int
    """Among those of its sink, from 0."""
    version: Version | None
    """What they were set aside in, where that tells newer rows from older ones."""
    kept: tuple[Kept, ...]
    rows: pa.RecordBatch
    """One row for each of `kept`."""


@dataclass(slots=True)
class _Held:
    kept: list[Kept] = field(default_factory=list)
    rows: list[bytes] = field(default_factory=list)
    """Their messages of Arrow IPC, without the schema, which all of them have."""


class Chunks:
    """Gathers rows, in the order of the topic."""

    def __init__(self, most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES) -> None:
        self._most_rows, self._most_bytes = most_rows, most_bytes
        self._held: dict[tuple[str, Version | None, bytes], _Held] = {}
        self._size = 0
        self._numbers: dict[str, int] = {}

    def add(self, kept: Kept, row: bytes, version: Version | None, size: int) -> Iterator[Chunk]:
        """Hold one more row, an Arrow IPC stream that counts for so many bytes; what is to be written now.

        Raises: ValueError for what is no such stream.
        """
        schema, messages = _parts(row)
        key = kept.sink, version, schema
        held = self._held.setdefault(key, _Held())
        held.kept.append(kept)
        held.rows.append(messages)
        self._size += size
        if self._size >= self._most_bytes:
            yield from self.rest()
        elif len(held.kept) >= self._most_rows:
            yield self._made(key)

    def rest(self) -> Iterator[Chunk]:
        """All that is held."""
        for key in list(self._held):
            yield self._made(key)
        self._size = 0

    def _made(self, key: tuple[str, Version | None, bytes]) -> Chunk:
        sink, version, schema = key
        held = self._held.pop(key)
        number = self._numbers.get(sink, 0)
        self._numbers[sink] = number + 1
        # Read as one stream: a schema object for each row takes more memory than the rows.
        # A few at once: until they are joined each row has arrays of its own, which are larger than the row.
        parts = []
        with pa.ipc.open_stream(b"".join((schema, *held.rows))) as reader:
            while some := list(islice(reader, _JOINED)):
                parts.append(pa.concat_batches(some))
        return Chunk(sink, number, version, tuple(held.kept), pa.concat_batches(parts))


def _parts(stream: bytes) -> tuple[bytes, bytes]:
    """Its schema's message, and those behind it without the mark of the end."""
    if stream[:4] != _CONTINUES:
        raise ValueError("it is no stream of Arrow IPC")
    end = 8 + int.from_bytes(stream[4:8], "little")  # a schema has no body
    return stream[:end], stream[end:].removesuffix(_END)
