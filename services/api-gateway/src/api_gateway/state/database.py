"""One database of a gateway: its engine, one moment to read as of, one writer at a time.

Everything in it can be made anew from Kafka. Calls block: run them in a thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, ExceptionContext, event, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, SQLModel, create_engine

_FILE: Final = "sqlite:///"
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _address(url: str) -> URL:
    """What SQLAlchemy is told. A file is called as it is called: a URL would end at ?, and %41 be an A."""
    if url.startswith(_FILE):
        return URL.create("sqlite", database=url.removeprefix(_FILE))
    return make_url(url.replace("postgresql://", "postgresql+psycopg://", 1))


class Database:
    """The database behind one URL: SQLite or PostgreSQL.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when it does not answer.
    """

    def __init__(self, url: str) -> None:
        self.damaged = False
        """Whether its file turned out to be none that SQLite can read."""
        self.engine = create_engine(_address(url), pool_pre_ping=True)
        self._reading, self._writing = self.engine, self.engine
        if self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", _tune_sqlite)
            event.listen(self.engine, "begin", _begin)
            event.listen(self.engine, "handle_error", self._look)
            self._writing = self.engine.execution_options(writes=True)
        else:
            self._reading = self.engine.execution_options(isolation_level="REPEATABLE READ")

    @property
    def place(self) -> str:
        """Its URL, without a password."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Everything read in the block is of one moment."""
        with Session(self._reading) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction, committed at the end of the block; other writers wait for it."""
        with self._writing.begin() as connection:
            yield connection

    def create(self, tables: list[Any], *, anew: bool) -> None:
        """Create the tables that are missing; drop them before when they are wanted `anew`.

        A file that SQLite cannot read is removed: nothing in it is the truth.
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
        """Give the connections back."""
        self.engine.dispose()

    def _create(self, tables: list[Any], *, anew: bool) -> None:
        if anew:
            SQLModel.metadata.drop_all(self._writing, tables)
        SQLModel.metadata.create_all(self._writing, tables)

    def _look(self, context: ExceptionContext) -> None:
        code = getattr(context.original_exception, "sqlite_errorcode", 0)
        self.damaged = self.damaged or code & 0xFF in _DAMAGED

    def _remove(self) -> None:
        self.engine.dispose()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.engine.url.database}{suffix}").unlink(missing_ok=True)
        self.damaged = False


def _tune_sqlite(connection: Any, _: Any) -> None:
    """Readers do not wait for the writer. A power cut may cost the last transactions, and nothing else."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.isolation_level = None  # sqlite3 would begin at the first write; a read needs one snapshot too


def _begin(connection: Connection) -> None:
    # A writer that has read first would fail when another wrote meanwhile.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
