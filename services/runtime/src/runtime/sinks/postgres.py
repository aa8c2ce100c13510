"""The sink `postgres`: each row is one row of a table of PostgreSQL (15 or later).

Guarantee: effectively once. A row is identified by its key; a batch that is repeated after a crash finds its
own rows there and puts the same in their place. A row that the database refuses (a constraint, a value out of
range) is quarantined and the others are written; while the database is away the batch waits.

Rows go as CSV into a temporary table, and from there into the table by one statement: of a key that comes
twice the last row counts, and all writers take the locks of rows in one order.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from daggers.v1 import spec_pb2
from pyarrow import csv, types

from daggerspec.columns import TIMES
from daggerspec.row import Row
from daggerspec.selection import Selection
from daggerspec.sinks import postgres as kind
from daggerspec.sinks.postgres import quoted
from runtime.clients import postgres
from runtime.clients.postgres import RefusedError
from runtime.encode import json_text
from runtime.encode.readback import from_columns, from_json
from runtime.encode.rows import Layout, Refusal
from runtime.errors import JobError, TemporaryError, user
from runtime.sinks import Outcome, Source, Target

ROWS_PER_STATEMENT: Final = 5000
READ_RANK: Final = 1
_ROW: Final = "daggers_row"
"""The number of a row in what is staged."""
_FORM: Final = csv.WriteOptions(include_header=False, quoting_style="needed")
_TEXT: Final = pa.string()
_NUL: Final = "\0"
_OLDEST: Final = 150_000
"""`server_version` of the first that has NULLS NOT DISTINCT."""
_HELD: Final = """
    SELECT attname, attnotnull FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_UNIQUE: Final = """
    SELECT indnullsnotdistinct, array_agg(attname) FROM pg_index, unnest(indkey[:indnkeyatts-1]) AS number
    JOIN pg_attribute ON attnum = number WHERE attrelid = indrelid AND indrelid = to_regclass(%s)
      AND indisunique AND indisvalid AND indpred IS NULL GROUP BY indexrelid, indnullsnotdistinct"""


def check(target: Target) -> None:
    """Make what is to be made; raise `JobError` for a table that cannot take the rows. Silence is none."""
    table = _Table(target)
    _columns(target.layout, target.no_rows)
    try:
        with postgres.connected(target.resolved) as connection:
            table.prepare(connection)
    except TemporaryError:
        return


def open(target: Target) -> PostgresWriter:  # noqa: A001 - the name every sink has
    """A writer for one partition of one batch."""
    return PostgresWriter(_Table(target))


class PostgresWriter:
    """Writes rows in statements of a few thousand, and finds the ones that are refused."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Write a batch; returns the rows that the database refused."""
        del batch_id
        columns = _columns(self._table.layout, batch)
        rows = pa.table({"row": pa.array(range(batch.num_rows), pa.int64()), **columns})
        rows, refusals = (_spaced(rows), []) if self._table.sink.nul_to_space else _without_nul(rows)
        with postgres.connected(self._table.resolved) as connection:
            self._table.stage(connection)
            for start in range(0, rows.num_rows, ROWS_PER_STATEMENT):
                refusals += self._write(connection, rows.slice(start, ROWS_PER_STATEMENT))
        return Outcome(refused=refusals)

    def _write(self, connection: psycopg.Connection, rows: pa.Table) -> list[Refusal]:
        """Write these rows. Where some are refused, halves are tried until it is known which."""
        try:
            with connection.transaction():
                self._table.put(connection, rows)
        except psycopg.Error as error:
            why = postgres.meaning(error, self._table.address)
            if not isinstance(why, RefusedError):
                raise
            if rows.num_rows == 1:
                return [Refusal(rows["row"][0].as_py(), why.reason, str(why))]
            half = rows.num_rows // 2
            return self._write(connection, rows.slice(0, half)) + self._write(connection, rows.slice(half))
        return []


class _Table:
    """The table of one sink, and the statements about it."""

    def __init__(self, target: Target) -> None:
        self.resolved = target.resolved
        self.sink = self.resolved.sink.postgres
        self.layout = target.layout
        self._dagger = target.dagger

    @property
    def address(self) -> spec_pb2.PostgresAddress:
        return self.sink.address

    @cached_property
    def name(self) -> str:
        return kind.table(self.sink)

    @cached_property
    def columns(self) -> dict[str, str]:
        """The table's column for each of the query."""
        return kind.columns(self.sink, self.layout)

    @cached_property
    def key(self) -> list[str]:
        """The table's columns that are a row's identity."""
        return [self.columns[each] for each in kind.key(self.sink, self.layout)]

    def prepare(self, connection: psycopg.Connection) -> None:
        """Make the table and its columns, if it may. Raises: JobError (USER) with the statement."""
        if connection.info.server_version < _OLDEST:
            raise user("SINK_SCHEMA", f"{self._place} is older than PostgreSQL 15.")
        with connection.transaction():
            held = self._held(connection)
            if not held and self.sink.create_table:
                for statement in kind.ddl(self.sink, self.layout):
                    connection.execute(statement)
                return
            if not held:
                statements = "; ".join(kind.ddl(self.sink, self.layout))
                raise self._wrong(f"is not there: set create_table, or make it by {statements}")
            types_of = {self.columns[each.name]: kind.type_of(each.type) for each in self.layout.columns}
            missing = [each for each in types_of if each not in held]
            added = ", ".join(f"ADD COLUMN {quoted(each)} {types_of[each]}" for each in missing)
            if missing and not self.sink.add_columns:
                lacks = f"has no column {', '.join(missing)}"
                raise self._wrong(f"{lacks}: set add_columns, or ALTER TABLE {self.name} {added}")
            if missing:
                connection.execute(f"ALTER TABLE {self.name} {added}")
            self._keyed(connection, held)

    def _held(self, connection: psycopg.Connection) -> dict[str, bool]:
        """The columns that the table has, and whether each is NOT NULL."""
        return dict(connection.execute(_HELD, (self.name,)).fetchall())

    def _keyed(self, connection: psycopg.Connection, held: dict[str, bool]) -> None:
        """Raises: JobError (USER) where no index of the table tells rows apart as the key does."""
        never_null = all(held.get(each) for each in self.key)
        for equal_nulls, names in connection.execute(_UNIQUE, (self.name,)):
            if sorted(names) == sorted(self.key) and (equal_nulls or never_null):
                return
        index = kind.ddl(self.sink, self.layout)[1]
        raise self._wrong(f"has no unique index of {', '.join(self.key)}: {index}")

    def stage(self, connection: psycopg.Connection) -> None:
        """Make the temporary table that rows go through, once for as long as the connection is."""
        rows = f"SELECT {self._list}, 0::bigint AS {_ROW} FROM {self.name} WITH NO DATA"  # noqa: S608 - names
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {self._staged} ON COMMIT DELETE ROWS AS {rows}")

    def put(self, connection: psycopg.Connection, rows: pa.Table) -> None:
        """Write rows, of one key the last, in the transaction that is going on."""
        text = io.BytesIO()
        csv.write_csv(rows.select([*self.columns, "row"]), text, _FORM)
        copy = f"COPY {self._staged} ({self._list}, {_ROW}) FROM STDIN (FORMAT csv)"
        with connection.cursor() as cursor, cursor.copy(copy) as copying:
            copying.write(text.getbuffer())
        connection.execute(self._insert)

    @cached_property
    def _staged(self) -> str:
        """The temporary table, one for each table and list of columns that a connection writes."""
        return f"daggers_{hashlib.blake2b(f'{self.name} {self._list}'.encode(), digest_size=8).hexdigest()}"

    @cached_property
    def _list(self) -> str:
        return ", ".join(map(quoted, self.columns.values()))

    @cached_property
    def _insert(self) -> str:
        key = ", ".join(map(quoted, self.key))
        others = [quoted(each) for each in self.columns.values() if each not in self.key]
        upserts = self.sink.mode == spec_pb2.PostgresSink.MODE_UPSERT and others
        put = ", ".join(f"{each} = excluded.{each}" for each in others)
        conflict = f"DO UPDATE SET {put}" if upserts else "DO NOTHING"
        order = "DESC" if self.sink.mode == spec_pb2.PostgresSink.MODE_UPSERT else "ASC"
        rows = f"SELECT DISTINCT ON ({key}) {self._list} FROM {self._staged}"  # noqa: S608 - names
        ordered = f"{rows} ORDER BY {key}, {_ROW} {order}"
        return f"INSERT INTO {self.name} ({self._list}) {ordered} ON CONFLICT ({key}) {conflict}"

    def _wrong(self, what: str) -> JobError:
        return user("SINK_SCHEMA", f"The table {self.name} of {self._place} {what}.")

    @property
    def _place(self) -> str:
        return f"PostgreSQL at {postgres.place(self.address)}"


def _columns(layout: Layout, batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of a batch as CSV can hold them and PostgreSQL reads them."""
    return {column.name: _plain(values) for column, values in layout.visible(batch)}


def _plain(values: pa.Array) -> pa.Array:
    kept = values.type
    if types.is_binary(kept) or types.is_large_binary(kept):
        return pa.array([None if each is None else f"\\x{each.hex()}" for each in values.to_pylist()], _TEXT)
    if types.is_nested(kept):
        return pa.array([None if text == json_text.NULL else text for text in json_text.texts(values)], _TEXT)
    if types.is_duration(kept):
        texts = [text.strip('"') for text in json_text.texts(values)]
        return pa.array([None if text == json_text.NULL else text for text in texts], _TEXT)
    return values


def _without_nul(rows: pa.Table) -> tuple[pa.Table, list[Refusal]]:
    """The rows without U+0000 in their texts, and why the others are refused."""
    column: dict[int, str] = {}
    for name, texts in _texts(rows):
        has = pc.fill_null(pc.match_substring(texts, _NUL), False)
        column |= dict.fromkeys(rows["row"].filter(has).to_pylist(), name)
    refusals = [
        Refusal(row, "NUL_CHARACTER", f"The column {name} has U+0000, which PostgreSQL cannot hold.")
        for row, name in sorted(column.items())
    ]
    return rows.filter(pc.invert(pc.is_in(rows["row"], pa.array(column, pa.int64())))), refusals


def _spaced(rows: pa.Table) -> pa.Table:
    """The rows with a space in place of each U+0000."""
    for name, texts in _texts(rows):
        spaced = pc.replace_substring(texts, _NUL, " ")
        rows = rows.set_column(rows.column_names.index(name), name, spaced)
    return rows


def _texts(rows: pa.Table) -> Iterator[tuple[str, pa.ChunkedArray]]:
    """The columns of text."""
    for name in rows.column_names:
        if types.is_string(rows[name].type) or types.is_large_string(rows[name].type):
            yield name, rows[name]


def read(source: Source, wanted: Selection) -> list[Row]:
    """The newest rows by their times; without a time as the table has them."""
    sink = source.resolved.sink.postgres
    with postgres.connected(source.resolved) as connection, connection.transaction():
        return wanted.first(row for row in _rows(connection, sink) if wanted.wants(row))


def _rows(connection: psycopg.Connection, sink: spec_pb2.PostgresSink) -> Iterator[Row]:
    """The rows of the table, the newest first, read as far as somebody asks."""
    renamed = {held: name for name, held in sink.columns.items()}
    held = [name for (name,) in connection.execute(_HELD.replace(", attnotnull", ""), (kind.table(sink),))]
    times = [each for each in held if renamed.get(each, each) in TIMES]
    order = f" ORDER BY {quoted(times[0])} DESC NULLS LAST" if times else ""
    statement = f"SELECT row_to_json(t)::text FROM {kind.table(sink)} AS t{order}"  # noqa: S608 - names
    with connection.cursor("daggers_rows") as cursor:
        cursor.execute(statement)
        for (text,) in cursor:
            values: dict[str, Any] = from_json(text)
            yield from_columns({renamed.get(name, name): value for name, value in values.items()})
