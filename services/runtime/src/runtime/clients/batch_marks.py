"""Mark the partitions of batches that a database has, in the transaction that writes their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import psycopg

from daggerspec.sinks.postgres import MARKS, marks
from runtime.encode.extent import Extent
from runtime.errors import external

_ALL: Final = 1 << 64
_WHOLE: Final = -1
"""`part` of the extent of a whole batch. Extents have negative numbers; -2 - p is partition p's.

The row of an extent has it, as JSON, in the column `refused`: the table has users and old releases, so its
columns stay, and `part < 0` tells the two kinds of rows apart.
"""
_CONDITION_PREFIX: Final = "/"
"""Separates a digest of rows from the digest of the sink's condition."""
_WHERE_PLACE: Final = "WHERE dagger = %s AND checkpoint = %s AND sink = %s AND part = %s"


def digest(keys: Iterable[str]) -> str:
    """Digest a partition's rows by their keys, to 64 bits in hex; the order of the keys does not count."""
    parts = (hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys)
    return f"{sum(int.from_bytes(part) for part in parts) % _ALL:016x}"


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """Row that the database refused when its partition was written."""

    key: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class PartitionMarker:
    """Mark of one partition of one batch. `rows` are in all methods the keys of all its rows."""

    schema: str
    dagger: str
    sink: str
    checkpoint: str
    part: int
    batch: int
    generation: int
    condition: str = ""
    """The sink's condition `when`; empty where it takes all rows."""

    def claim(self, connection: psycopg.Connection, rows: Sequence[str]) -> list[RefusedRow] | None:
        """Set the mark in the open transaction; None: the caller has to write the partition.

        If it is written already, return the rows that were refused then: the writer may have died before it
        reported them. An edited condition may have changed the rows since; other rows under the same
        condition mean that it is unknown which rows are there. Raises: JobError for these.
        """
        rows_digest = digest(rows) + self._condition_digest
        statement = (
            f"INSERT INTO {marks(self.schema)} AS held"  # noqa: S608 - a name
            " (dagger, checkpoint, sink, part, batch, row_count, digest, generation)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (dagger, checkpoint, sink, part)"
            " DO UPDATE SET batch = excluded.batch, row_count = excluded.row_count, digest = excluded.digest,"
            " refused = '[]', generation = excluded.generation, time = now()"
            " WHERE held.batch < excluded.batch RETURNING batch"
        )
        values = (*self._place, self.batch, len(rows), rows_digest, self.generation)
        if connection.execute(statement, values).fetchone() is not None:
            return None
        query = f"SELECT batch, row_count, digest, refused FROM {marks(self.schema)} {_WHERE_PLACE}"  # noqa: S608 - a name
        existing = connection.execute(query, self._place).fetchone()
        if existing is None or existing[0] != self.batch:
            return []  # a later batch is marked: this writer stood still for long
        is_same_condition = (
            existing[2].endswith(self._condition_digest)
            if self._condition_digest
            else _CONDITION_PREFIX not in existing[2]
        )
        if is_same_condition and existing[1:3] != (len(rows), rows_digest):
            detail = f"part {self.part} with {existing[1]} rows, where there are {len(rows)} now"
            raise external(
                "SINK_HAS_OTHER_ROWS",
                f"Batch {self.batch} was written to {self.schema} before, {detail}: compare the table with"
                f" its source, then correct its row in {MARKS}.",
            )
        return [RefusedRow(*refusal) for refusal in json.loads(existing[3])]

    def read_other_extents(self, connection: psycopg.Connection) -> list[Extent]:
        """Read the extents of the dagger's other queries in this sink, which an edit or a removal has ended.

        Windows count once their whole batch is written, records once their partition is.
        """
        query = (
            f"SELECT refused FROM {marks(self.schema)}"  # noqa: S608 - a name
            " WHERE dagger = %s AND sink = %s AND checkpoint <> %s AND part < 0"
        )
        rows = connection.execute(query, (self.dagger, self.sink, self.checkpoint)).fetchall()
        return [json.loads(text) for (text,) in rows]

    def record_extent(self, connection: psycopg.Connection, extent: Extent, *, is_whole: bool) -> None:
        """Record the extent of the batch, or of this partition alone, in a row beside the mark.

        That row has a negative `part`, no rows, and the extent in `refused` (see `_WHOLE`).
        """
        statement = (
            f"INSERT INTO {marks(self.schema)} AS held"  # noqa: S608 - a name
            " (dagger, checkpoint, sink, part, batch, row_count, digest, refused, generation)"
            " VALUES (%s, %s, %s, %s, %s, 0, '', %s, %s) ON CONFLICT (dagger, checkpoint, sink, part)"
            " DO UPDATE SET batch = excluded.batch, refused = excluded.refused,"
            " generation = excluded.generation, time = now() WHERE held.batch <= excluded.batch"
        )
        number = _WHOLE if is_whole else _WHOLE - 1 - self.part
        place = (self.dagger, self.checkpoint, self.sink, number)
        connection.execute(statement, (*place, self.batch, json.dumps(extent), self.generation))

    def record_refused(self, connection: psycopg.Connection, rows: Iterable[RefusedRow]) -> None:
        """Record the rows that the database refused."""
        statement = f"UPDATE {marks(self.schema)} SET refused = %s {_WHERE_PLACE}"  # noqa: S608 - a name
        refusals = json.dumps([astuple(row) for row in rows])
        connection.execute(statement, (refusals, *self._place))

    @property
    def _condition_digest(self) -> str:
        """Suffix of the digest where a condition selects the rows; else empty."""
        if not self.condition:
            return ""
        return _CONDITION_PREFIX + hashlib.blake2b(self.condition.encode(), digest_size=8).hexdigest()

    @property
    def _place(self) -> tuple[str, str, str, int]:
        return self.dagger, self.checkpoint, self.sink, self.part
