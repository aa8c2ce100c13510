"""The sink `postgres`: each row is one row of a table of PostgreSQL (15 or later).

Guarantee: effectively once. A row is identified by its key; a batch that is repeated after a crash finds its
own rows there and puts the same in their place. With `mode: append` exactly once: the rows of a partition and
a mark that they are there are one transaction, and an edit repeats none of a batch that was written whole. A
row that the database refuses (a constraint, a value out of range) is quarantined and the others are written;
while the database is away the batch waits.

Rows go as CSV into a temporary table, and from there into the table by one statement: of a key that comes
twice the last row counts, and all writers take the locks of rows in one order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, TypeAlias

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from daggers.v1 import spec_pb2

from daggerspec.columns import TIMES
from daggerspec.row import Row
from daggerspec.selection import Selection
from daggerspec.sinks import postgres as kind
from daggerspec.sinks.postgres import quote_name
from runtime.clients import bisection, pace, postgres, tableneeds
from runtime.clients.batch_marks import PartitionMarker, RefusedRow
from runtime.clients.bisection import RefusalCause, Rows
from runtime.clients.breaker import FloodBreaker
from runtime.clients.postgres import RefusedError
from runtime.encode import extent, samplerow, table_csv
from runtime.encode.readback import from_columns, from_json
from runtime.encode.rows import Refusal, check_texts, keys
from runtime.encode.table_csv import NUMBER
from runtime.errors import JobError, TemporaryError, user
from runtime.sinks import BatchRef, Outcome, Source, Target, Writer

READ_RANK: Final = 1
_OLDEST: Final = 150_000
"""Number of `server_version` of the first release with NULLS NOT DISTINCT."""
_COLUMNS: Final = """
    SELECT attname, attnotnull FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"""
_UNIQUE: Final = """
    SELECT indnullsnotdistinct, array_agg(attname) FROM pg_index, unnest(indkey[:indnkeyatts-1]) AS number
    JOIN pg_attribute ON attnum = number WHERE attrelid = indrelid AND indrelid = to_regclass(%s)
      AND indisunique AND indisvalid AND indpred IS NULL GROUP BY indexrelid, indnullsnotdistinct"""

_TYPES: Final = """
    SELECT array_agg(format_type(atttypid, atttypmod) ORDER BY attnum)::text FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attname = ANY(%s) AND NOT attisdropped"""


def check(target: Target) -> None:
    """Make what is to be made; raise `JobError` for a table that cannot take the rows. Silence is none."""
    table = _PostgresTable(target)
    table_csv.columns(target.layout, target.no_rows)
    try:
        with postgres.open_connection(target.resolved) as connection:
            table.prepare(connection)
    except TemporaryError:
        return


def rehearse(target: Target, row: pa.RecordBatch | None) -> str:
    """Do what a batch does, with a row that is made up, take all of it back, and describe the result.

    Raises: JobError for what no row can pass.
    """
    table = _PostgresTable(target)
    refused = ""
    with postgres.open_connection(target.resolved) as connection, connection.transaction():
        table.prepare(connection)
        if row is not None:
            rows, _ = table.writable(row)
            (table.stage_where_copies_are_refused if table.appends else table.stage)(connection)
            why = table.try_put(connection, rows, table.append if table.appends else table.put)
            refused = f", though not one that is made up ({why.detail.rstrip('.')})" if why else ""
        raise psycopg.Rollback
    return f"The table {table.name} takes rows of these columns{refused}; nothing of it was kept."


def probe(target: Target) -> None:
    """Raise `JobError` while there is no session that may write."""
    with postgres.open_connection(target.resolved) as connection:
        read_only = connection.execute("SHOW transaction_read_only").fetchone()
    if read_only == ("on",):
        postgres.drop(target.resolved)  # by the name of its host another may take writes already
        where = postgres.host_port(target.resolved.sink.postgres.address)
        raise TemporaryError("SINK_READ_ONLY", f"PostgreSQL at {where} takes no writes now: it is read-only.")


def open(target: Target) -> Writer:  # noqa: A001 - the name every sink has
    """Open a writer for one partition of one batch."""
    table = _PostgresTable(target)
    return AppendWriter(table, target) if table.appends else PostgresWriter(table)


def commit(target: Target, batch: BatchRef, receipts: Sequence[bytes]) -> None:
    """Mark a batch as written whole, with its extent: a query after an edit leaves that out."""
    reached = extent.unite(json.loads(receipt) for receipt in receipts)
    with postgres.open_connection(target.resolved) as connection:
        _mark(target, batch, 0).record_extent(connection, reached, is_whole=True)


def _mark(target: Target, batch: BatchRef, part: int) -> PartitionMarker:
    sink = target.resolved.sink
    return PartitionMarker(
        sink.postgres.schema,
        target.dagger,
        target.name,
        batch.checkpoint,
        part,
        batch.batch_id,
        batch.generation,
        sink.when,
    )


class PostgresWriter:
    """Writes rows in statements of a few thousand, and finds the ones that are refused."""

    def __init__(self, table: _PostgresTable) -> None:
        self._table = table

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Write a batch; returns the rows that the database refused."""
        del batch_id
        rows, refusals = self._table.writable(batch)
        with postgres.open_connection(self._table.resolved) as connection:
            self._table.stage(connection)
            refusals += self._table.write(connection, rows, self._table.put)
        return Outcome(refused=refusals)

    def finish(self) -> Outcome:
        """Refuse no more rows: all that were written are durable."""
        return Outcome()


class AppendWriter:
    """Collects the rows of a partition, and writes them in one transaction with a mark that says so."""

    def __init__(self, table: _PostgresTable, target: Target) -> None:
        self._table = table
        self._target = target
        self._batches: list[pa.RecordBatch] = []
        self._mark = _mark(target, target.writes.batch, target.writes.number)

    def write(self, batch: pa.RecordBatch, batch_id: int) -> Outcome:
        """Collect a batch."""
        del batch_id
        check_texts(batch)
        self._batches.append(batch)
        return Outcome()

    def finish(self) -> Outcome:
        """Write all of them, unless an attempt before did; return the rows that the database refused."""
        if not self._batches:
            return Outcome()
        [whole] = pa.Table.from_batches(self._batches).combine_chunks().to_batches()
        table, (rows, refusals) = self._table, self._table.writable(whole)
        layout, is_replay = self._target.layout, self._target.is_replay
        row_keys, reached = keys(layout, whole), extent.of(layout, whole)
        with postgres.open_connection(table.resolved) as connection, connection.transaction():
            # What is found at the end of a transaction is found with the statement that it is about.
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            if not is_replay:  # rows that were quarantined are those that no query has written
                for other in self._mark.read_other_extents(connection):
                    covered = pc.indices_nonzero(extent.covers(layout, other, whole)).cast(pa.int64())
                    rows = rows.filter(pc.invert(pc.is_in(rows[NUMBER], covered)))
                    written = set(covered.to_pylist())
                    refusals = [refusal for refusal in refusals if refusal.row not in written]
            before = self._mark.claim(connection, row_keys)
            if before is None:
                table.stage_where_copies_are_refused(connection)
                refused = table.write(connection, rows, table.append)
                self._stay_if_flooded(whole.num_rows, refusals + refused)
                if not is_replay and not layout.windowed:
                    self._mark.record_extent(connection, reached, is_whole=False)
                lasting = [
                    RefusedRow(row_keys[refusal.row], refusal.reason, refusal.detail) for refusal in refused
                ]
                if lasting:
                    self._mark.record_refused(connection, lasting)
            else:
                number = {key: row for row, key in enumerate(row_keys)}
                refused = [
                    Refusal(number[refused_.key], refused_.reason, refused_.detail, by_server=True)
                    for refused_ in before
                    if refused_.key in number
                ]
        receipt = b"" if is_replay else json.dumps(reached).encode()
        return Outcome(refused=refusals + refused, rows=whole, receipt=receipt)

    def _stay_if_flooded(self, rows: int, refused: Sequence[Refusal]) -> None:
        """Raise TemporaryError, which rolls the mark back, where none of these rows may be quarantined.

        The mark would say that they were refused for good, also to an attempt after the table is mended.
        """
        breaker = FloodBreaker[None](self._target.max_refused, self._target.may_refuse_all)
        breaker.add(rows, len(refused), None, sum(refusal.by_server for refusal in refused))
        if breaker.is_open:
            raise breaker.flood_error(refusal.reason for refusal in refused)


_Put: TypeAlias = Callable[[psycopg.Connection, pa.Table], None]
"""Writes rows, in the transaction that is going on."""


class _PostgresTable:
    """Table of one sink, and the statements about it."""

    def __init__(self, target: Target) -> None:
        self.resolved = target.resolved
        self.sink = self.resolved.sink.postgres
        self.layout = target.layout
        self._may_refuse = target.may_refuse_all
        self._staged = ""
        """Temporary table that rows go through."""

    @property
    def address(self) -> spec_pb2.PostgresAddress:
        return self.sink.address

    @property
    def appends(self) -> bool:
        """True if rows have no key: each is added."""
        return self.sink.mode == spec_pb2.PostgresSink.MODE_APPEND

    @cached_property
    def name(self) -> str:
        return kind.table(self.sink)

    @cached_property
    def columns(self) -> dict[str, str]:
        """Columns of the table, by those of the query."""
        return kind.columns(self.sink, self.layout)

    @cached_property
    def key(self) -> list[str]:
        """Columns of the table that are a row's identity."""
        return [self.columns[name] for name in kind.key(self.sink, self.layout)]

    def prepare(self, connection: psycopg.Connection) -> None:
        """Make the table and its columns, if it may. Raises: JobError (USER) with the statement."""
        if connection.info.server_version < _OLDEST:
            raise user("SINK_SCHEMA", f"{self._place} is older than PostgreSQL 15.")
        with connection.transaction():
            existing = self._existing_columns(connection)
            if not existing and not self.sink.create_table:
                statements = "; ".join(kind.ddl(self.sink, self.layout))
                raise self._wrong(f"is not there: set create_table, or make it by {statements}")
            if existing:
                self._extend(connection, existing)
            else:
                for statement in kind.ddl(self.sink, self.layout):
                    connection.execute(statement)
            key = () if self.appends else tuple(self.key)
            wanted = tableneeds.requirements_of(self.sink, self._types, key)
            if in_the_way := "; ".join(tableneeds.find_problems(connection, wanted)):
                raise self._wrong(f"takes none of these rows: {in_the_way}")

    @property
    def _types(self) -> dict[str, str]:
        """Types that the columns of the table have where it is made for these rows."""
        return {self.columns[column.name]: kind.type_of(column.type) for column in self.layout.columns}

    def _extend(self, connection: psycopg.Connection, existing: dict[str, bool]) -> None:
        """Add the columns that the table lacks, if it may. Raises: JobError (USER) with the statement."""
        missing = [name for name in self._types if name not in existing]
        added = ", ".join(f"ADD COLUMN {quote_name(name)} {self._types[name]}" for name in missing)
        if missing and not self._may_add(connection):
            lacks = f"has no column {', '.join(missing)}"
            raise self._wrong(f"{lacks}: set add_columns, or ALTER TABLE {self.name} {added}")
        if missing:
            connection.execute(f"ALTER TABLE {self.name} {added}")
        if not self.appends:
            self._require_unique_index(connection, existing)
        self._prepare_marks(connection)

    def _may_add(self, connection: psycopg.Connection) -> bool:
        """Tell whether columns are added: by add_columns, or where create_table has made the table, by a
        comment.
        """
        if self.sink.add_columns:
            return True
        statement = "SELECT obj_description(to_regclass(%s), 'pg_class')"
        return self.sink.create_table and connection.execute(statement, (self.name,)).fetchone() == (
            kind.MADE,
        )

    def _prepare_marks(self, connection: psycopg.Connection) -> None:
        """Make the table of marks, where one is needed. Raises: JobError (USER) with the statement."""
        if not self.appends:
            return
        if self.sink.create_table:
            connection.execute(kind.marks_ddl(self.sink.schema))
        elif not connection.execute(_COLUMNS, (kind.marks(self.sink.schema),)).fetchall():
            raise self._wrong(f"needs a table of marks beside it: {kind.marks_ddl(self.sink.schema)}")

    def _existing_columns(self, connection: psycopg.Connection) -> dict[str, bool]:
        """Read the columns that the table has, and whether each is NOT NULL."""
        return dict(connection.execute(_COLUMNS, (self.name,)).fetchall())

    def _require_unique_index(self, connection: psycopg.Connection, existing: dict[str, bool]) -> None:
        """Require an index of the table that identifies rows as the key does. Raises: JobError (USER)."""
        never_null = all(existing.get(column) for column in self.key)
        for equal_nulls, names in connection.execute(_UNIQUE, (self.name,)):
            if sorted(names) == sorted(self.key) and (equal_nulls or never_null):
                return
        index = kind.index_ddl(self.sink, self.layout)
        raise self._wrong(f"has no unique index of {', '.join(self.key)}: {index}")

    def stage(self, connection: psycopg.Connection) -> None:
        """Make the temporary table that rows go through, unless it is there.

        It stays as long as the connection, one for each table, list of columns and their types: somebody may
        have made a column wider.
        """
        (types,) = connection.execute(_TYPES, (self.name, [*self.columns.values()])).fetchone() or ("",)
        known_by = f"{self.name} {self._list} {types}".encode()
        self._staged = f"daggers_{hashlib.blake2b(known_by, digest_size=8).hexdigest()}"
        rows = f"SELECT {self._list}, 0::bigint AS {NUMBER} FROM {self.name} WITH NO DATA"  # noqa: S608 - names
        connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {self._staged} ON COMMIT DELETE ROWS AS {rows}")

    def writable(self, batch: pa.RecordBatch) -> tuple[pa.Table, list[Refusal]]:
        """Convert rows to their written form, and refuse those that have none."""
        return table_csv.rows(self.layout, batch, nul_to_space=self.sink.nul_to_space)

    def write(
        self,
        connection: psycopg.Connection,
        rows: pa.Table,
        put: _Put,
    ) -> list[Refusal]:
        """Put rows, a few thousand with a statement; return those that the database refused."""
        sink_pace = pace.of(self.resolved)
        most = sink_pace.max_rows(kind.CAPABILITIES.max_rows or rows.num_rows)
        numbers = rows[NUMBER]

        def attempt(part: Rows) -> RefusalCause | None:
            sink_pace.wait(len(part))
            return self.try_put(connection, rows.slice(part[0], len(part)), put)

        every = range(rows.num_rows)
        refused = bisection.divide(
            (every[start : start + most] for start in range(0, rows.num_rows, most)),
            attempt,
            bisection.history_of(self.resolved.SerializeToString(deterministic=True)),
            may_refuse=self._may_refuse,
            is_sound=lambda: self._takes_a_sample(connection, put),
        )
        return [replace(refusal, row=numbers[refusal.row].as_py()) for refusal in refused]

    def try_put(self, connection: psycopg.Connection, rows: pa.Table, put: _Put) -> RefusalCause | None:
        """Put rows, all or none; return why they were refused. Raises: psycopg.Error for what is about no
        row.
        """
        try:
            with connection.transaction():
                put(connection, rows)
        except psycopg.Error as error:
            why = postgres.interpret_error(error, self.address)
            if not isinstance(why, RefusedError):
                raise
            return why.why
        return None

    def _takes_a_sample(self, connection: psycopg.Connection, put: _Put) -> bool:
        """Tell whether the table takes a row that is made up, and taken back."""
        try:
            rows, refusals = self.writable(samplerow.sample(self.layout, datetime.now(UTC)))
        except JobError:  # nothing is made up for its columns
            return False
        if refusals:
            return False
        try:
            with connection.transaction():
                put(connection, rows)
                raise psycopg.Rollback
        except psycopg.Error as error:
            if not isinstance(postgres.interpret_error(error, self.address), RefusedError):
                raise
            return False
        return True

    def put(self, connection: psycopg.Connection, rows: pa.Table) -> None:
        """Write rows, of one key the last, in the transaction that is going on."""
        _copy(
            connection,
            f"{self._staged} ({self._list}, {NUMBER})",
            rows.select([*self.columns, NUMBER]),
        )
        connection.execute(self._insert)

    def append(self, connection: psycopg.Connection, rows: pa.Table) -> None:
        """Write rows, whatever is there, in the transaction that is going on."""
        if not self._staged:
            _copy(connection, f"{self.name} ({self._list})", rows.select([*self.columns]))
            return
        connection.execute(f"DELETE FROM {self._staged}")  # noqa: S608 - names
        _copy(connection, f"{self._staged} ({self._list}, {NUMBER})", rows.select([*self.columns, NUMBER]))
        selection = f"SELECT {self._list} FROM {self._staged} ORDER BY {NUMBER}"  # noqa: S608 - names
        connection.execute(f"INSERT INTO {self.name} ({self._list}) {selection}")

    def stage_where_copies_are_refused(self, connection: psycopg.Connection) -> None:
        """Make a temporary table where row-level security holds: PostgreSQL copies into no such table."""
        if connection.execute("SELECT row_security_active(%s::regclass)", (self.name,)).fetchone() == (True,):
            self.stage(connection)

    @cached_property
    def _list(self) -> str:
        return ", ".join(map(quote_name, self.columns.values()))

    @property
    def _insert(self) -> str:
        key = ", ".join(map(quote_name, self.key))
        others = [quote_name(column) for column in self.columns.values() if column not in self.key]
        upserts = self.sink.mode == spec_pb2.PostgresSink.MODE_UPSERT and others
        put = ", ".join(f"{column} = excluded.{column}" for column in others)
        conflict = f"DO UPDATE SET {put}" if upserts else "DO NOTHING"
        order = "DESC" if self.sink.mode == spec_pb2.PostgresSink.MODE_UPSERT else "ASC"
        rows = f"SELECT DISTINCT ON ({key}) {self._list} FROM {self._staged}"  # noqa: S608 - names
        ordered = f"{rows} ORDER BY {key}, {NUMBER} {order}"
        return f"INSERT INTO {self.name} ({self._list}) {ordered} ON CONFLICT ({key}) {conflict}"

    def _wrong(self, problem: str) -> JobError:
        return user("SINK_SCHEMA", f"The table {self.name} of {self._place} {problem}.")

    @property
    def _place(self) -> str:
        return f"PostgreSQL at {postgres.host_port(self.address)}"


def _copy(connection: psycopg.Connection, into: str, rows: pa.Table) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {into} FROM STDIN (FORMAT csv)") as copying:
        copying.write(table_csv.text(rows))


def read(source: Source, wanted: Selection) -> list[Row]:
    """Read the newest rows by their times; without a time as the table has them."""
    sink = source.resolved.sink.postgres
    with postgres.open_connection(source.resolved) as connection, connection.transaction():
        return wanted.first(row for row in _rows(connection, sink) if wanted.wants(row))


def _rows(connection: psycopg.Connection, sink: spec_pb2.PostgresSink) -> Iterator[Row]:
    """Yield the rows of the table, the newest first, read as far as the caller goes on."""
    renamed = {column: name for name, column in sink.columns.items()}
    existing = [
        name for (name,) in connection.execute(_COLUMNS.replace(", attnotnull", ""), (kind.table(sink),))
    ]
    times = [column for column in existing if renamed.get(column, column) in TIMES]
    order = f" ORDER BY {quote_name(times[0])} DESC NULLS LAST" if times else ""
    statement = f"SELECT row_to_json(t)::text FROM {kind.table(sink)} AS t{order}"  # noqa: S608 - names
    with connection.cursor("daggers_rows") as cursor:
        cursor.execute(statement)
        for (text,) in cursor:
            values: dict[str, Any] = from_json(text)
            yield from_columns({renamed.get(name, name): value for name, value in values.items()})
