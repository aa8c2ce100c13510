"""Which partitions of which batches a database has: a mark in the transaction that writes their rows."""

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
"""In place of a partition's number: the mark of a whole batch."""
_WISH: Final = "/"
"""In a digest before which rows the sink wanted."""
_THERE: Final = "WHERE dagger = %s AND checkpoint = %s AND sink = %s AND part = %s"


def digest(keys: Iterable[str]) -> str:
    """64 bits of a partition's rows, by their keys, in whatever order they come."""
    parts = (hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys)
    return f"{sum(int.from_bytes(part) for part in parts) % _ALL:016x}"


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that the database refused when its partition was written."""

    key: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Marker:
    """That one partition of a batch is written; `rows` are everywhere the keys of all its rows."""

    schema: str
    dagger: str
    sink: str
    checkpoint: str
    part: int
    batch: int
    generation: int
    condition: str = ""
    """Which rows the sink wants, where it does not want all."""

    def claim(self, connection: psycopg.Connection, rows: Sequence[str]) -> list[Refused] | None:
        """Set it, in the transaction that is going on; None: now the partition is to be written.

        Where it is written already, the rows that were refused: who wrote it may have died before it could
        tell; also where the sink wanted others then, and an edit has said so since. Raises: JobError where
        other rows were written without that, so that nobody can tell which are there.
        """
        digested = digest(rows) + self._told
        statement = (
            f"INSERT INTO {marks(self.schema)} AS held"  # noqa: S608 - a name
            " (dagger, checkpoint, sink, part, batch, row_count, digest, generation)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (dagger, checkpoint, sink, part)"
            " DO UPDATE SET batch = excluded.batch, row_count = excluded.row_count, digest = excluded.digest,"
            " refused = '[]', generation = excluded.generation, time = now()"
            " WHERE held.batch < excluded.batch RETURNING batch"
        )
        values = (*self._place, self.batch, len(rows), digested, self.generation)
        if connection.execute(statement, values).fetchone() is not None:
            return None
        query = f"SELECT batch, row_count, digest, refused FROM {marks(self.schema)} {_THERE}"  # noqa: S608 - a name
        held = connection.execute(query, self._place).fetchone()
        if held is None or held[0] != self.batch:
            return []  # a later batch is there: whoever asks stood still for long
        is_same_wish = held[2].endswith(self._told) if self._told else _WISH not in held[2]
        if is_same_wish and held[1:3] != (len(rows), digested):
            told = f"part {self.part} with {held[1]} rows, where there are {len(rows)} now"
            raise external(
                "SINK_HAS_OTHER_ROWS",
                f"Batch {self.batch} was written to {self.schema} before, {told}: compare the table with its"
                f" source, then correct its row in {MARKS}.",
            )
        return [Refused(*refusal) for refusal in json.loads(held[3])]

    def written_before(self, connection: psycopg.Connection) -> list[Extent]:
        """How far other queries of the dagger have written to the sink: what an edit, or a removal, ended.

        Windows count of batches that were written whole; records of a partition when that was.
        """
        query = (
            f"SELECT refused FROM {marks(self.schema)}"  # noqa: S608 - a name
            " WHERE dagger = %s AND sink = %s AND checkpoint <> %s AND part < 0"
        )
        rows = connection.execute(query, (self.dagger, self.sink, self.checkpoint)).fetchall()
        return [json.loads(text) for (text,) in rows]

    def reach(self, connection: psycopg.Connection, extent: Extent, *, is_whole: bool) -> None:
        """Keep how far its batch reaches, or its partition alone: a mark beside it, which has a number below
        zero and no rows, and this in place of the refused ones.
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

    def refuse(self, connection: psycopg.Connection, rows: Iterable[Refused]) -> None:
        """Keep with it which rows the database refused."""
        statement = f"UPDATE {marks(self.schema)} SET refused = %s {_THERE}"  # noqa: S608 - a name
        told = json.dumps([astuple(row) for row in rows])
        connection.execute(statement, (told, *self._place))

    @property
    def _told(self) -> str:
        """What a digest has behind it that is of some rows only."""
        if not self.condition:
            return ""
        return _WISH + hashlib.blake2b(self.condition.encode(), digest_size=8).hexdigest()

    @property
    def _place(self) -> tuple[str, str, str, int]:
        return self.dagger, self.checkpoint, self.sink, self.part
