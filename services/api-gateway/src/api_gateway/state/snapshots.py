"""Rows of the snapshot: entries of the fold's state, each with a digest, and a checksum over all digests.

The checksum is a sum, so a transaction that changes some rows need not read the others. Reading a snapshot
finds rows that were changed, added or lost by anybody but a gateway.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import daggers
import google.protobuf
from sqlalchemy import Connection, and_
from sqlmodel import Session, col, delete, insert, select

import daggerspec
import eventlog
import fleet
from api_gateway.state import fold, rows, tables, verdicts
from api_gateway.state.fold import Snapshot
from api_gateway.state.tables import ProjectionRow, SnapshotRow
from eventlog import LogPosition
from fleet.snapshot.entries import EntryChanges, Unusable

NONE: Final = bytes(16)
"""The checksum of no rows."""
_CHUNK: Final = 500
T = TypeVar("T")


def put(connection: Connection, change: EntryChanges, checksum: bytes) -> bytes:
    """Apply a change to the rows whose checksum is given; return their new checksum."""
    total = 0 if change.everything else int.from_bytes(checksum)
    if change.everything:
        connection.execute(delete(SnapshotRow))
    else:
        key = col(SnapshotRow.key)
        stale: list[Any] = [and_(key >= low, key < high) for low, high in change.gone]
        stale += [key.in_(keys) for keys in chunks(list(change.entries))]
        for condition in stale:
            gone = delete(SnapshotRow).where(condition).returning(col(SnapshotRow.digest))
            total -= _sum(connection.execute(gone).scalars())
    new = [
        {"key": key, "digest": digest(key, data), "data": data}
        for key, data in sorted(change.entries.items())
    ]
    if new:
        connection.execute(insert(SnapshotRow), new)
    total += _sum(row["digest"] for row in new)
    return (total % (1 << 128)).to_bytes(16)


def read(session: Session, row: ProjectionRow) -> Snapshot:
    """Read the snapshot whose position `row` has. Raises: Unusable, with the reason."""
    if compute_seal(row.applied, row.history, row.anchors, row.checksum) != row.seal:
        raise Unusable("its position was changed behind the gateway's back")
    entries: dict[str, bytes] = {}
    total = 0
    for key, expected, data in session.exec(select(SnapshotRow.key, SnapshotRow.digest, SnapshotRow.data)):
        if digest(key, data) != expected:
            raise Unusable(f"its row {key} is damaged")
        entries[key] = data
        total += int.from_bytes(expected)
    if (total % (1 << 128)).to_bytes(16) != row.checksum:
        raise Unusable("it has lost rows, or has some that are not its own")
    return Snapshot(LogPosition(row.applied, row.history), read_anchors(row.anchors), entries)


def write_anchors(anchors: Iterable[LogPosition]) -> str:
    """Format positions as text."""
    return " ".join(f"{anchor.sequence}:{anchor.history.hex()}" for anchor in anchors)


def read_anchors(text: str) -> tuple[LogPosition, ...]:
    """Parse a text of `write_anchors`."""
    parts = (part.partition(":") for part in text.split())
    return tuple(LogPosition(int(sequence), bytes.fromhex(history)) for sequence, _, history in parts)


def compute_seal(applied: int, history: bytes, anchors: str, checksum: bytes) -> bytes:
    """Compute the digest of a position together with the checksum of its rows."""
    return digest(f"{applied} {history.hex()} {anchors}", checksum)


def digest(key: str, data: bytes) -> bytes:
    """Return the 16 bytes of a BLAKE2b digest."""
    return hashlib.blake2b(key.encode() + b"\0" + data, digest_size=16).digest()


@cache
def code_digest() -> bytes:
    """Return a digest of all code that decides a state, its entries and its rows.

    Another version of that code may derive another state from the same records, so it reads no snapshot of
    this one.
    """
    files = [Path(module.__file__ or "") for module in (fold, rows, tables, verdicts)]
    hasher = hashlib.blake2b(google.protobuf.__version__.encode(), digest_size=16)
    for package in (daggerspec, eventlog, fleet, daggers):
        sources = sorted(file for place in package.__path__ for file in Path(place).rglob("*.py"))
        # without sources versions cannot be compared: a random digest matches no snapshot
        hasher.update(b"" if sources else os.urandom(16))
        files += sources
    for file in files:
        hasher.update(file.name.encode() + file.read_bytes())
    return hasher.digest()


def chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """Split items into parts that every database accepts as parameters of one statement."""
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))


def _sum(digests: Iterable[Any]) -> int:
    return sum(map(int.from_bytes, digests))
