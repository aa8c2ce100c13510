"""One database of a gateway: its engine, consistent reads, one writer at a time.

Everything in it can be rebuilt from Kafka. Calls block: run them in a thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, ExceptionContext, event, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, SQLModel, create_engine

T = TypeVar("T")
_FILE: Final = "sqlite:///"
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _sqlalchemy_url(url: str) -> URL:
    """Build the URL for SQLAlchemy. A file's name is taken as it is: in a URL it would end at ?, and %41 be
    an A.
    """
    if url.startswith(_FILE):
        return URL.create("sqlite", database=url.removeprefix(_FILE))
    return make_url(url.replace("postgresql://", "postgresql+psycopg://", 1))


class Database:
    """The database behind one URL: SQLite or PostgreSQL.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when it does not answer.
    """

    def __init__(self, url: str) -> None:
        self.damaged = False
        """Whether its file proved to be none that SQLite can read."""
        self.engine = create_engine(_sqlalchemy_url(url), pool_pre_ping=True)
        self._reading, self._writing = self.engine, self.engine
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", _tune_sqlite)
            event.listen(self.engine, "begin", _begin)
            event.listen(self.engine, "handle_error", self._detect_damage)
            self._writing = self.engine.execution_options(writes=True)
        else:
            self._reading = self.engine.execution_options(isolation_level="REPEATABLE READ")

    @property
    def place(self) -> str:
        """Return its URL without the password."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session whose reads all see one snapshot of the database."""
        with Session(self._reading) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that commits at the end of the block; other writers wait for it."""
        with self._writing.begin() as connection:
            yield connection

    def create(self, tables: list[Any], *, anew: bool) -> None:
        """Create missing tables; with `anew` drop existing ones before.

        A file that SQLite cannot read is removed, since its content can be rebuilt.
        """
        if self.damaged:
            self._remove()
        try:
            self._create(tables, anew=anew)
        except SQLAlchemyError:
            if not self.damaged:
                raise
            self._remove()
            self._create(tables, anew=anew)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _create(self, tables: list[Any], *, anew: bool) -> None:
        if anew:
            SQLModel.metadata.drop_all(self._writing, tables)
        SQLModel.metadata.create_all(self._writing, tables)

    def _detect_damage(self, context: ExceptionContext) -> None:
        code = getattr(context.original_exception, "sqlite_errorcode", 0)
        self.damaged = self.damaged or code & 0xFF in _DAMAGED

    def _remove(self) -> None:
        self.engine.dispose()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.engine.url.database}{suffix}").unlink(missing_ok=True)
        self.damaged = False


def _tune_sqlite(connection: Any, _: Any) -> None:
    """Set SQLite up so that readers do not wait for the writer, and a power cut costs the last transactions
    at most.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    # sqlite3 begins transactions at the first write only, and reads need a snapshot, too
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    # IMMEDIATE: a writer that reads first would fail where another has written meanwhile
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


async def in_thread(work: Callable[[], T]) -> T:
    """Run work in a thread and return its result. A cancelled caller waits for its end: threads cannot be
    cancelled.
    """
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise
