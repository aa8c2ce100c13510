"""The table of minute sums: for each dagger a block of numbers an hour, so that a start reads few heartbeats.

The heartbeats topic is the truth: gateways that share a database write the same blocks. Calls block: run them
in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, LargeBinary
from sqlmodel import Field, SQLModel, col, delete, insert, select

from api_gateway.state.database import Database
from api_gateway.state.snapshots import chunks


class MinutesRow(SQLModel, table=True):
    """The minutes of a dagger in one hour."""

    __tablename__ = "dagger_minutes"

    dagger: str = Field(primary_key=True)
    hour: int = Field(primary_key=True, index=True)
    """Since 1970."""
    created: int = Field(sa_type=BigInteger)
    """Sequence of the dagger's creation: one of the same name is another dagger."""
    data: bytes = Field(sa_type=LargeBinary)
    """Numbers that `fleet.health.minutes.MinuteSums.block` has packed."""


@dataclass(frozen=True, slots=True)
class Block:
    """A row of the table."""

    dagger: str
    hour: int
    created: int
    data: bytes


class MinuteTable:
    """The table in one database.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when the database does not answer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def _create(self) -> None:
        table: Any = MinutesRow.__table__  # type: ignore[attr-defined] # SQLModel's
        self._database.create([table], anew=False)

    def hours(self, since: int) -> Sequence[int]:
        """Create the table where it is missing, and list the hours of its blocks from an hour on, sorted."""
        self._create()
        query = select(MinutesRow.hour).where(col(MinutesRow.hour) >= since).distinct()
        with self._database.reading() as session:
            return sorted(session.exec(query))

    def read(self, hour: int) -> Sequence[Block]:
        """Read the blocks of an hour."""
        columns = MinutesRow.dagger, MinutesRow.hour, MinutesRow.created, MinutesRow.data
        with self._database.reading() as session:
            return [Block(*row) for row in session.exec(select(*columns).where(MinutesRow.hour == hour))]

    def write(self, blocks: Iterable[Block], *, before_hour: int) -> None:
        """Put blocks in the place of those of the same dagger and hour, and drop all of before an hour.

        The table is created where it is missing: a database that is damaged is removed while a gateway runs.
        """
        self._create()
        by_hour: dict[int, list[Block]] = {}
        for block in blocks:
            by_hour.setdefault(block.hour, []).append(block)
        with self._database.writing() as connection:
            connection.execute(delete(MinutesRow).where(col(MinutesRow.hour) < before_hour))
            for hour, of_hour in by_hour.items():
                for part in chunks(of_hour):
                    names = [block.dagger for block in part]
                    same = (col(MinutesRow.hour) == hour, col(MinutesRow.dagger).in_(names))
                    connection.execute(delete(MinutesRow).where(*same))
                    rows = [
                        {"dagger": block.dagger, "hour": hour, "created": block.created, "data": block.data}
                        for block in part
                    ]
                    connection.execute(insert(MinutesRow), rows)
