"""Dump what the projection of an embedded stack lists: every row, sorted; the same bytes for the same log."""

import json
import sqlite3
from contextlib import closing
from typing import Any

from cli.errors import RefusedError
from devstack.state import Stack

# How far the tables are in the log, and the fold's state there: the log grows by a record with every start.
# What was quarantined is of another topic.
LEFT_OUT = ("projection", "snapshot", "quarantine", "quarantine_outcomes", "quarantine_partitions")


def dump(stack: Stack) -> list[dict[str, Any]]:
    """Return every row of every table, with the table's name, sorted; bytes as hexadecimal.

    Raises RefusedError when there is no projection to be read.
    """
    file = stack.projection
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
            rows = [row for table in _tables(database) for row in _rows(database, table)]
    except sqlite3.Error as error:
        raise RefusedError(
            f"the projection {file} cannot be read ({error}); `daggers local up` makes it anew"
        ) from error
    return sorted(rows, key=line)


def line(row: dict[str, Any]) -> str:
    """Return a row as one line of JSON."""
    return json.dumps(row, ensure_ascii=False)


def _tables(database: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    return [name for (name,) in database.execute(query) if name not in LEFT_OUT]


def _rows(database: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    quoted = table.replace('"', '""')
    rows = database.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608 - a table's own name, from its schema
    names = [column for column, *_ in rows.description]
    return [
        {"table": table} | {name: _plain(value) for name, value in zip(names, row, strict=True)}
        for row in rows
    ]


def _plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value
