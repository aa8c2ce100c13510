"""Group quarantined rows by sink and schema into chunks that are written together. Pure.

Every attempt of a replay forms the same chunks under the same numbers. A sink that deduplicates by batch
number so recognises a chunk that an earlier attempt has written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import pyarrow as pa

from runtime.replay.history import QuarantineEntry

MOST_ROWS: Final = 5_000
MOST_BYTES: Final = 16 * 1024 * 1024
"""Limit of all pending rows together, as serialised in the quarantine."""
_BATCHES_PER_CONCAT: Final = 200
_CONTINUES: Final = b"\xff\xff\xff\xff"
_END: Final = _CONTINUES + bytes(4)
Version = tuple[int, int]
"""Generation and batch that a row was quarantined in; a sink that updates rows compares them."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one sink, schema and version that are written as one batch."""

    sink: str
    number: int
    """Position among the chunks of its sink, from 0."""
    version: Version | None
    """Set where the sink compares versions, so that an old row does not replace a newer one."""
    entries: tuple[QuarantineEntry, ...]
    rows: pa.RecordBatch
    """Row `i` belongs to `entries[i]`."""


@dataclass(slots=True)
class _PendingRows:
    entries: list[QuarantineEntry] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    """Arrow IPC messages of each row, without the schema that all of them share."""


class Chunks:
    """Collects rows in the order of the topic and releases them as chunks."""

    def __init__(self, most_rows: int = MOST_ROWS, most_bytes: int = MOST_BYTES) -> None:
        self._most_rows, self._most_bytes = most_rows, most_bytes
        self._pending: dict[tuple[str, Version | None, bytes], _PendingRows] = {}
        self._size = 0
        self._numbers: dict[str, int] = {}

    def add(self, entry: QuarantineEntry, row: bytes, version: Version | None, size: int) -> Iterator[Chunk]:
        """Add a row, an Arrow IPC stream of `size` bytes, and yield the chunks that are full by it.

        Raises: ValueError where `row` is no such stream.
        """
        schema, messages = _split_stream(row)
        key = entry.sink, version, schema
        pending = self._pending.setdefault(key, _PendingRows())
        pending.entries.append(entry)
        pending.messages.append(messages)
        self._size += size
        if self._size >= self._most_bytes:
            yield from self.flush()
        elif len(pending.entries) >= self._most_rows:
            yield self._pop_chunk(key)

    def flush(self) -> Iterator[Chunk]:
        """Yield all pending rows as chunks."""
        for key in list(self._pending):
            yield self._pop_chunk(key)
        self._size = 0

    def _pop_chunk(self, key: tuple[str, Version | None, bytes]) -> Chunk:
        sink, version, schema = key
        pending = self._pending.pop(key)
        number = self._numbers.get(sink, 0)
        self._numbers[sink] = number + 1
        # Read as one stream: a schema object for each row takes more memory than the rows.
        # A few at once: until they are joined each row has arrays of its own, which are larger than the row.
        joined = []
        with pa.ipc.open_stream(b"".join((schema, *pending.messages))) as reader:
            while batches := list(islice(reader, _BATCHES_PER_CONCAT)):
                joined.append(pa.concat_batches(batches))
        return Chunk(sink, number, version, tuple(pending.entries), pa.concat_batches(joined))


def _split_stream(stream: bytes) -> tuple[bytes, bytes]:
    """Split an Arrow IPC stream into its schema message and the messages behind it, without the end mark.

    Raises: ValueError where `stream` does not begin as one.
    """
    if stream[:4] != _CONTINUES:
        raise ValueError("it is no stream of Arrow IPC")
    end = 8 + int.from_bytes(stream[4:8], "little")  # a schema has no body
    return stream[:end], stream[end:].removesuffix(_END)
