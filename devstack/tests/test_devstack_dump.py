"""`daggers local dump`: every row of the projection, in an order that no database decides."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.errors import RefusedError
from devstack.dump import dump, line
from devstack.state import Stack


def projection(folder: Path, names: list[str]) -> Stack:
    """A stack whose projection holds these daggers, inserted in this order."""
    stack = Stack(folder)
    with closing(sqlite3.connect(stack.projection)) as database, database:
        database.execute("CREATE TABLE projection (id INTEGER PRIMARY KEY, applied INTEGER)")
        database.execute("INSERT INTO projection VALUES (1, ?)", (len(names),))
        database.execute("CREATE TABLE daggers (name TEXT PRIMARY KEY, data BLOB)")
        database.execute('CREATE TABLE "odd ""name" (size REAL)')
        database.executemany("INSERT INTO daggers VALUES (?, ?)", [(name, b"\x00\xff") for name in names])
    return stack


def test_rows_are_sorted_and_bytes_are_hexadecimal(tmp_path: Path) -> None:
    rows = dump(projection(tmp_path, ["b", "ä", "a"]))

    assert [line(row) for row in rows] == [
        '{"table": "daggers", "name": "a", "data": "00ff"}',
        '{"table": "daggers", "name": "b", "data": "00ff"}',
        '{"table": "daggers", "name": "ä", "data": "00ff"}',
    ]


def test_a_dump_leaves_the_projection_as_it_is(tmp_path: Path) -> None:
    stack = projection(tmp_path, ["a"])
    before = stack.projection.read_bytes()

    dump(stack)

    assert stack.projection.read_bytes() == before


def test_a_projection_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    stack = Stack(tmp_path)

    with pytest.raises(RefusedError, match=r"gateway\.sqlite cannot be read"):
        dump(stack)

    assert not stack.projection.exists()
