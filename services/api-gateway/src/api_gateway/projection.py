"""The read side: tables that follow the control topic, with the applied sequence in the same transaction.

A projection is never the truth: it is written whole when the gateway starts, and dropped when its tables have
another shape. Gateways may share one database; one that is behind does not overwrite one that is ahead.
Calls block: run them in a thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.schema import CreateTable
from sqlmodel import Session, SQLModel, col, create_engine, delete, insert, select, update

from api_gateway.rows import Change, Row
from api_gateway.tables import (
    CONTENT,
    ClusterRow,
    DaggerRow,
    MessageRow,
    ProjectionRow,
    ReferenceRow,
    SchemaRow,
    StreamRow,
)
from eventlog import LogPosition

# Raise it when rows are made in another way from the same messages.
_REVISION: Final = 2
_CHUNK: Final = 500
T = TypeVar("T")


class Projection:
    """The tables behind one database URL; made ready by `prepare`.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when the database does not answer.
    """

    def __init__(self, database_url: str) -> None:
        url = database_url.replace("postgresql://", "postgresql+psycopg://", 1)
        self._engine = create_engine(url, pool_pre_ping=True)
        self._reading = self._engine
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _tune_sqlite)
            event.listen(self._engine, "begin", _begin)
        else:
            self._reading = self._engine.execution_options(isolation_level="REPEATABLE READ")
        self._tables = [kind.__table__ for kind in (ProjectionRow, *CONTENT)]  # type: ignore[attr-defined] # SQLModel's

    @property
    def place(self) -> str:
        """The database's URL, without a password."""
        return self._engine.url.render_as_string(hide_password=True)

    def prepare(self) -> LogPosition:
        """Create the tables, anew when their shape changed; answers which log they held, and how far."""
        applied, shape = self._found()
        if shape != self._shape:
            SQLModel.metadata.drop_all(self._engine, self._tables)
        SQLModel.metadata.create_all(self._engine, self._tables)
        return applied

    def write(self, change: Change, *, before: int, applied: LogPosition) -> bool:
        """Bring the tables from the sequence `before` to `applied`.

        False when the tables are behind `before`, so that everything must be written. Tables that are ahead
        of `applied`, because another gateway keeps them, are left as they are.
        """
        with self._engine.begin() as connection:
            at = connection.execute(select(ProjectionRow.applied).with_for_update()).scalar_one_or_none()
            if at is not None and at > applied.sequence:
                return True
            if (-1 if at is None else at) < before and not change.everything:
                return False
            for table, rows in change.rows.items():
                self._put(connection, table, rows, everything=change.everything)
            if change.rows[SchemaRow]:  # a registration whose every message has a newer one
                held = select(MessageRow.sequence)
                connection.execute(delete(SchemaRow).where(col(SchemaRow.sequence).not_in(held)))
            for names in _chunks(change.gone):
                connection.execute(delete(DaggerRow).where(col(DaggerRow.name).in_(names)))
            position = {
                "id": 1,
                "applied": applied.sequence,
                "history": applied.history,
                "shape": self._shape,
            }
            connection.execute((insert if at is None else update)(ProjectionRow).values(position))
        return True

    def dagger(self, name: str) -> tuple[gateway_pb2.Dagger | None, int]:
        """One dagger, and the sequence it is of."""
        row, at = self._read(lambda session: session.get(DaggerRow, name))
        return (gateway_pb2.Dagger.FromString(row.data) if row else None), at

    def daggers(
        self, conditions: Sequence[Any], *, after: str, limit: int
    ) -> tuple[list[gateway_pb2.Dagger], int]:
        """Daggers by name, at most `limit`, whose name is behind `after`; and the sequence they are of."""
        query = select(DaggerRow).where(col(DaggerRow.name) > after, *conditions)
        rows, at = self._read(
            lambda session: session.exec(query.order_by(col(DaggerRow.name)).limit(limit)).all()
        )
        return [gateway_pb2.Dagger.FromString(row.data) for row in rows], at

    def clusters(self) -> tuple[list[spec_pb2.Cluster], int]:
        """All clusters by name, and the sequence they are of."""
        rows, at = self._read(
            lambda session: session.exec(select(ClusterRow).order_by(col(ClusterRow.name))).all()
        )
        return [spec_pb2.Cluster.FromString(row.data) for row in rows], at

    def streams(self, message: str) -> tuple[list[spec_pb2.Stream], int]:
        """All streams by name, those of `message` unless it is empty; and the sequence they are of."""
        query = select(StreamRow).order_by(col(StreamRow.name))
        if message:
            query = query.where(StreamRow.message == message)
        rows, at = self._read(lambda session: session.exec(query).all())
        return [spec_pb2.Stream.FromString(row.data) for row in rows], at

    def references(self) -> tuple[list[spec_pb2.ReferenceTable], int]:
        """All reference tables by name, and the sequence they are of."""
        query = select(ReferenceRow).order_by(col(ReferenceRow.name))
        rows, at = self._read(lambda session: session.exec(query).all())
        return [spec_pb2.ReferenceTable.FromString(row.data) for row in rows], at

    def messages(self) -> tuple[list[str], int]:
        """All registered message names, sorted; and the sequence they are of."""
        rows, at = self._read(
            lambda session: session.exec(select(MessageRow.name).order_by(col(MessageRow.name))).all()
        )
        return list(rows), at

    def schema(self, message: str) -> tuple[spec_pb2.Schema | None, int]:
        """The registration that holds a message, and the sequence it is of."""
        query = select(SchemaRow).where(
            col(SchemaRow.sequence) == MessageRow.sequence, MessageRow.name == message
        )
        row, at = self._read(lambda session: session.exec(query).one_or_none())
        return (spec_pb2.Schema.FromString(row.data) if row else None), at

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _found(self) -> tuple[LogPosition, str]:
        try:
            with Session(self._engine) as session:
                row = session.get(ProjectionRow, 1)
        except (OperationalError, ProgrammingError):
            return LogPosition(), ""  # no such table yet, or one of another time
        return (LogPosition(), "") if row is None else (LogPosition(row.applied, row.history), row.shape)

    @cached_property
    def _shape(self) -> str:
        digest = hashlib.sha256(str(_REVISION).encode())
        for table in self._tables:
            digest.update(str(CreateTable(table).compile(dialect=self._engine.dialect)).encode())
        for module in (spec_pb2, events_pb2, gateway_pb2):
            digest.update(module.DESCRIPTOR.serialized_pb)
        return digest.hexdigest()[:32]

    def _read(self, query: Callable[[Session], T]) -> tuple[T, int]:
        """Both parts as of one moment."""
        with Session(self._reading) as session:
            found = session.exec(select(ProjectionRow.applied)).one_or_none()
            return query(session), -1 if found is None else found

    def _put(
        self, connection: Connection, table: type[SQLModel], rows: list[Row], *, everything: bool
    ) -> None:
        """Replace rows by their keys, or all of them: the same on every database."""
        key = next(iter(table.__table__.primary_key))  # type: ignore[attr-defined] # SQLModel's
        if everything:
            connection.execute(delete(table))
        else:
            for part in _chunks(rows):
                connection.execute(delete(table).where(key.in_([row[key.name] for row in part])))
        if rows:
            connection.execute(insert(table), rows)


def _tune_sqlite(connection: Any, _: Any) -> None:
    """A rebuildable file: readers do not wait for the writer, and nothing waits for the disk."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=OFF")
    connection.isolation_level = None  # sqlite3 would begin at the first write; a read needs one snapshot too


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[at : at + _CHUNK] for at in range(0, len(items), _CHUNK))
