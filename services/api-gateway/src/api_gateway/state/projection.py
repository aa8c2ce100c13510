"""Tables that follow the control topic, with the applied sequence written in the same transaction.

They serve as the snapshot from which a start continues, and as the list of daggers. A projection can always
be rebuilt from the log: it is dropped where other code wrote it, or where it does not fit the log. Gateways
may share one database; one that is behind does not overwrite one that is ahead.

Calls block: run them in a thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar

from daggers.v1 import gateway_pb2
from sqlalchemy import Connection, MetaData, Table, func, inspect
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable
from sqlmodel import Session, col, delete, insert, select, update

from api_gateway.state import snapshots
from api_gateway.state.database import Database
from api_gateway.state.fold import Snapshot
from api_gateway.state.rows import Change
from api_gateway.state.snapshots import chunks
from api_gateway.state.tables import FORMER, TABLES, DaggerRow, ProjectionRow
from eventlog import LogPosition
from fleet.snapshot.entries import Unusable

T = TypeVar("T")


class Projection:
    """The tables behind one database URL, which `prepare` creates.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when the database does not answer.
    """

    def __init__(self, database_url: str) -> None:
        self.database = Database(database_url)
        self._tables = [kind.__table__ for kind in TABLES]  # type: ignore[attr-defined] # SQLModel's

    @property
    def place(self) -> str:
        """Return the database's URL without the password."""
        return self.database.place

    def snapshot(self) -> Snapshot | None:
        """Read the saved state of the fold; None where there are no tables yet. Call it before `prepare`.

        Raises: Unusable where other code wrote it, or it is damaged.
        """
        try:
            if not inspect(self.database.engine).has_table("projection"):
                return None
            with self.database.reading() as session:
                shape = session.exec(select(ProjectionRow.shape)).one_or_none()
                if shape is None:
                    return None
                if shape != self._shape:
                    raise Unusable("other code made it")
                return snapshots.read(session, session.exec(select(ProjectionRow)).one())
        except SQLAlchemyError as error:
            raise Unusable(f"its tables cannot be read ({type(error).__name__})") from error

    def prepare(self, *, anew: bool = False) -> LogPosition:
        """Create the tables, `anew` or where other code made them. Return the position that
        they had reached.
        """
        applied, shape = self._read_position()
        anew = anew or shape != self._shape
        self.database.create(self._tables, anew=anew)
        if anew:
            for name in FORMER:
                Table(name, MetaData()).drop(self.database.engine, checkfirst=True)
        return applied

    def write(self, change: Change, *, before: int) -> bool:
        """Bring the tables from the sequence `before` to that of the change.

        Returns False where the tables are behind `before`, or written by other code, so that everything must
        be written. Tables ahead of the change, which another gateway keeps, are left as they are.
        """
        applied, everything = change.applied, change.snapshot.everything
        with self.database.writing() as connection:
            row_before = connection.execute(
                select(ProjectionRow.applied, ProjectionRow.checksum, ProjectionRow.shape).with_for_update()
            ).one_or_none()
            sequence, checksum, shape = row_before or (-1, snapshots.NONE, self._shape)
            if shape == self._shape and sequence > applied.sequence:
                return True
            if (sequence < before or shape != self._shape) and not everything:
                return False
            # delete and insert, no upsert: it works alike on every database
            if everything:
                connection.execute(delete(DaggerRow))
            else:
                _remove(connection, [*(row["name"] for row in change.daggers), *change.deleted])
            if change.daggers:
                connection.execute(insert(DaggerRow), change.daggers)
            checksum = snapshots.put(connection, change.snapshot, checksum)
            anchors = snapshots.write_anchors(change.anchors)
            position = {
                "id": 1,
                "applied": applied.sequence,
                "history": applied.history,
                "anchors": anchors,
                "checksum": checksum,
                "seal": snapshots.compute_seal(applied.sequence, applied.history, anchors, checksum),
                "shape": self._shape,
            }
            connection.execute((insert if row_before is None else update)(ProjectionRow).values(position))
        return True

    def daggers(
        self, conditions: Sequence[Any], *, after: str, limit: int
    ) -> tuple[list[gateway_pb2.Dagger], int, int]:
        """Return up to `limit` daggers whose names follow `after`, the number of all that match, and the
        sequence that both are of.
        """
        query = select(DaggerRow).where(col(DaggerRow.name) > after, *conditions)
        number = select(func.count()).select_from(DaggerRow).where(*conditions)
        (rows, total), sequence = self._read(
            lambda session: (
                session.exec(query.order_by(col(DaggerRow.name)).limit(limit)).all(),
                session.exec(number).one(),
            )
        )
        return [gateway_pb2.Dagger.FromString(row.data) for row in rows], total, sequence

    def close(self) -> None:
        """Close the database's connections."""
        self.database.close()

    def _read_position(self) -> tuple[LogPosition, str]:
        columns = ProjectionRow.applied, ProjectionRow.history, ProjectionRow.shape
        try:
            with self.database.reading() as session:
                row = session.exec(select(*columns)).one_or_none()
        except SQLAlchemyError:
            return LogPosition(), ""  # no table yet, or one of an earlier version
        return (LogPosition(), "") if row is None else (LogPosition(row[0], row[1]), row[2])

    @cached_property
    def _shape(self) -> str:
        digest = hashlib.sha256(snapshots.code_digest())
        for table in self._tables:
            digest.update(str(CreateTable(table).compile(dialect=self.database.engine.dialect)).encode())
        return digest.hexdigest()[:32]

    def _read(self, query: Callable[[Session], T]) -> tuple[T, int]:
        """Run a query, and return its result with the sequence of the same moment."""
        with self.database.reading() as session:
            applied = session.exec(select(ProjectionRow.applied)).one_or_none()
            return query(session), -1 if applied is None else applied


def _remove(connection: Connection, names: Sequence[str]) -> None:
    """Delete daggers by name."""
    for part in chunks(names):
        connection.execute(delete(DaggerRow).where(col(DaggerRow.name).in_(part)))
