"""The index of `daggers.quarantine`: its records by dagger, and how far each partition is read.

The topic is the truth: rows come and go with its records, and all are dropped when other code made them.
Calls block: run them in a thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

from daggers.v1 import telemetry_pb2
from sqlalchemy import Connection, tuple_
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable
from sqlmodel import col, delete, insert, select, update

from api_gateway.database import Database
from api_gateway.quarantine.topic import Message
from api_gateway.tables import PartitionRow, QuarantineRow
from daggerspec import fields
from eventlog import read_record

Quarantined = telemetry_pb2.Quarantined
Place: TypeAlias = tuple[int, int, int]
"""Where a record stands among those of its dagger: Kafka's timestamp, offset, partition."""
_STEP: Final = 5_000
_FETCHED: Final = 20


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition is read."""

    next: int
    """Offset of the record to be read next."""
    last: bytes
    """Digest of the record before it."""


class QuarantineIndex:
    """The tables in one database; made ready by `prepare`.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when the database does not answer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        kinds: list[Any] = [PartitionRow, QuarantineRow]
        self._tables = [kind.__table__ for kind in kinds]

    def prepare(self) -> dict[int, Position]:
        """Create the tables, anew when other code made them; answers how far each partition is read."""
        columns = PartitionRow.partition, PartitionRow.next, PartitionRow.last, PartitionRow.shape
        try:
            with self._database.reading() as session:
                rows = session.exec(select(*columns)).all()
        except SQLAlchemyError:
            rows = []
        anew = any(shape != self._shape for *_, shape in rows)
        self._database.create(self._tables, anew=anew)
        return {} if anew else {number: Position(next_, last) for number, next_, last, _ in rows}

    def write(self, messages: Sequence[Message]) -> None:
        """Take in messages that follow what is held; those that are held change nothing."""
        with self._database.writing() as connection:
            held = self._held(connection)
            new = [each for each in messages if each.offset >= held.get(each.partition, 0)]
            rows = [row for each in new if (row := _row(each)) is not None]
            if rows:
                connection.execute(insert(QuarantineRow), rows)
            for last in {each.partition: each for each in new}.values():
                self._move(connection, last.partition, last.offset + 1, digest(last), known=held)

    def forget(self, partition: int, position: Position) -> None:
        """The partition was made anew: drop all of it, unless another gateway did and reads it already."""
        about = col(PartitionRow.partition) == partition
        with self._database.writing() as connection:
            self._held(connection)
            same = connection.execute(
                delete(PartitionRow).where(about, col(PartitionRow.last) == position.last)
            )
            if same.rowcount:
                connection.execute(delete(QuarantineRow).where(col(QuarantineRow.partition) == partition))

    def expire(self, partition: int, first: int) -> None:
        """Drop what stands before the partition's first record."""
        number, offset = col(QuarantineRow.partition), col(QuarantineRow.offset)
        while True:
            with self._database.writing() as connection:
                oldest = select(QuarantineRow.offset).where(number == partition).order_by(offset).limit(1)
                held = connection.execute(oldest).scalar_one_or_none()
                if held is None or held >= first:
                    return
                until = min(first, held + _STEP)
                connection.execute(delete(QuarantineRow).where(number == partition, offset < until))

    def newest(
        self, dagger: str, *, since: int, before: Place | None, limit: int, size: int
    ) -> tuple[list[Quarantined], Place | None]:
        """The newest records of a dagger's launches behind `since`, newest first; those behind `before` only.

        At most `limit`, and no more than `size` bytes, but one. Then where the next page begins; None at the
        end.
        """
        place = tuple_(col(QuarantineRow.time_ms), col(QuarantineRow.offset), col(QuarantineRow.partition))
        query = select(
            QuarantineRow.time_ms, QuarantineRow.offset, QuarantineRow.partition, QuarantineRow.data
        ).where(QuarantineRow.dagger == dagger, QuarantineRow.generation > since)
        if before is not None:
            query = query.where(place < before)
        query = query.order_by(*(each.desc() for each in place)).limit(limit + 1)
        records: list[Quarantined] = []
        last: Place | None = None
        query = query.execution_options(yield_per=_FETCHED)
        with self._database.reading() as session, closing(session.exec(query)) as rows:
            for time_ms, offset, partition, data in rows:
                size -= len(data)
                if len(records) == limit or (records and size < 0):
                    return records, last
                records.append(Quarantined.FromString(data))
                last = time_ms, offset, partition
        return records, None

    def _held(self, connection: Connection) -> dict[int, int]:
        rows = connection.execute(select(PartitionRow.partition, PartitionRow.next).with_for_update())
        return {row[0]: row[1] for row in rows}

    def _move(
        self, connection: Connection, partition: int, next_: int, last: bytes, *, known: dict[int, int]
    ) -> None:
        values = {"partition": partition, "next": next_, "last": last, "shape": self._shape}
        if partition in known:
            connection.execute(
                update(PartitionRow).where(col(PartitionRow.partition) == partition).values(values)
            )
        else:
            connection.execute(insert(PartitionRow).values(values))

    @cached_property
    def _shape(self) -> str:
        digested = hashlib.sha256(telemetry_pb2.DESCRIPTOR.serialized_pb)
        for table in self._tables:
            digested.update(str(CreateTable(table).compile(dialect=self._database.engine.dialect)).encode())
        digested.update(Path(__file__).read_bytes())
        return digested.hexdigest()[:32]


def digest(message: Message) -> bytes:
    """16 bytes that tell a record from another at its place."""
    about = f"{message.time_ms} {message.key.hex()} ".encode()
    return hashlib.blake2b(about + message.value, digest_size=16).digest()


def _row(message: Message) -> dict[str, Any] | None:
    """The row of a message; None for what is no record that was set aside."""
    quarantined = read_record(message.offset, message.headers, message.value).message
    name = message.key.decode(errors="replace")
    if not isinstance(quarantined, Quarantined) or list(fields.name("", name)):
        return None
    return {
        "partition": message.partition,
        "offset": message.offset,
        "dagger": name,
        "generation": quarantined.generation,
        "time_ms": message.time_ms,
        "data": message.value,
    }
