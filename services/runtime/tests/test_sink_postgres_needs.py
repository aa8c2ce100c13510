"""What keeps every row out of a table is said before the first one, with the statement that would help."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_cases.postgres import sink
from services.runtime.tests.sink_postgres_faults import Table
from services.runtime.tests.sinkvalues import TIME

from daggerspec.columns import Column, key_of, role_of
from daggerspec.sinks.postgres import marks, marks_ddl
from runtime import sinks
from runtime.clients import postgres as clients
from runtime.encode.rows import Layout
from runtime.errors import JobError
from runtime.sinks import BatchRef, Part, Target

pytestmark = pytest.mark.integration
Sink = spec_pb2.PostgresSink
ARROW: Final = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": TIME,
    "date": pa.date32(),
    "binary": pa.binary(),
    "array<string>": pa.list_(pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    "struct<a:bigint>": pa.struct([("a", pa.int64())]),
}
VALUES: Final = {
    "string": "7",
    "bigint": 7,
    "double": 0.5,
    "boolean": True,
    "timestamp": 0,
    "date": 0,
    "binary": b"7",
    "array<string>": ["a"],
    "map<string,bigint>": [("a", 1)],
    "struct<a:bigint>": {"a": 1},
}
TYPES: Final = (
    "text", "varchar(40)", "bigint", "numeric", "double precision", "real", "boolean", "timestamptz",
    "timestamp", "date", "time", "interval", "bytea", "jsonb", "json", "text[]", "int4range", "point", "inet",
    "uuid",
)  # fmt: skip


_BY_VALUE: Final = ("string", "double", "bigint", "date", "boolean")
"""Some of whose values fit, and others do not."""


@pytest.fixture
def table(postgres: str, tmp_path: Path) -> Iterator[Table]:
    resolved, url = sink(postgres, tmp_path)
    resolved.sink.postgres.create_table = False
    resolved.sink.postgres.key[:] = ["id"]
    yield Table(resolved, url)
    clients.drop(resolved)


@dataclass
class Query:
    """One with an id, and columns of these types in Spark SQL."""

    types: dict[str, str]

    def target(self, table: Table) -> Target:
        named = {"id": "bigint", **self.types}
        columns = tuple(Column(name, role_of(name), key_of(name), kind) for name, kind in named.items())
        schema = pa.schema([*((name, ARROW[kind]) for name, kind in named.items()), ("__key_0", pa.int64())])
        part = Part(BatchRef("c", 0, 1), 0)
        layout = Layout(columns, ("__key_0",))
        return Target("d", table.resolved.SerializeToString(), layout, schema, b"", updates=False, part=part)

    def write(self, table: Table) -> int:
        """Write a row; how many were refused."""
        aimed = self.target(table)
        values = [7, *(VALUES[kind] for kind in self.types.values()), 7]
        arrays = [pa.array([value], field.type) for value, field in zip(values, aimed.schema, strict=True)]
        writer = sinks.open_writer(aimed)
        outcomes = [writer.write(pa.RecordBatch.from_arrays(arrays, schema=aimed.schema), 0), writer.finish()]
        return sum(len(outcome.refused) for outcome in outcomes)


def said(table: Table, query: Query) -> str:
    """What is said before the first row, which is the same when a sink is tried."""
    with pytest.raises(JobError) as wrong:
        sinks.check(query.target(table))
    with pytest.raises(JobError) as tried:
        sinks.rehearse(query.target(table), None)

    assert (wrong.value.error.reason, wrong.value.error.retryable) == ("SINK_SCHEMA", False)
    assert tried.value.error == wrong.value.error
    return wrong.value.error.detail


@pytest.mark.parametrize("spark", VALUES)
def test_a_type_that_no_value_fits_is_said_and_one_that_is_not_said_takes_the_value(
    table: Table, spark: str
) -> None:
    query = Query({"v": spark})
    for number, kind in enumerate(TYPES):
        table.resolved.sink.postgres.table = f"counts_{number}"
        table.sql(f"CREATE TABLE counts_{number} (id bigint PRIMARY KEY, v {kind})")
        detail = ""
        try:
            sinks.check(query.target(table))
        except JobError as wrong:
            detail = wrong.error.detail
        refused = query.write(table)
        if not detail:
            assert refused == 0 or spark in _BY_VALUE, (spark, kind)
            continue
        assert (refused, "the column v is" in detail) == (1, True), (spark, kind)
        [statement] = re.findall(r"ALTER TABLE .*", detail)
        table.sql(statement.rstrip("."))
        sinks.check(query.target(table))
        assert query.write(table) == 0, (spark, kind)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("v text[]", 'text[], which takes no jsonb: ALTER TABLE "{}"."counts" ALTER COLUMN "v" TYPE'),
        ("v jsonb, owner text NOT NULL", "the column owner is NOT NULL without a default"),
        ("v jsonb GENERATED ALWAYS AS ('1'::jsonb) STORED", "the column v is generated"),
    ],
)  # fmt: skip
def test_a_column_that_is_in_the_way_is_named(table: Table, column: str, words: str) -> None:
    table.sql(f"CREATE TABLE counts (id bigint PRIMARY KEY, {column})")
    query = Query({"v": "array<string>"})

    assert words.format(table.resolved.sink.postgres.schema) in said(table, query)


@pytest.mark.parametrize(
    ("trigger", "changed", "is_filled"),
    [
        ("BEFORE INSERT ON counts FOR EACH ROW", "", True),
        ("BEFORE INSERT OR UPDATE ON counts FOR EACH ROW", "ENABLE ALWAYS", True),
        ("BEFORE INSERT ON counts FOR EACH ROW", "DISABLE", False),
        ("BEFORE UPDATE ON counts FOR EACH ROW", "", False),
        ("AFTER INSERT ON counts FOR EACH ROW", "", False),
    ],
)
def test_a_column_that_a_trigger_may_fill_is_in_nobodys_way(
    table: Table, trigger: str, changed: str, is_filled: bool
) -> None:
    table.sql(
        "CREATE TABLE counts (id bigint PRIMARY KEY, v bigint, owner text NOT NULL)",
        "CREATE FUNCTION owned() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.owner = 'me'; RETURN NEW; END $$",
        f"CREATE TRIGGER owned {trigger} EXECUTE FUNCTION owned()",
        *([f"ALTER TABLE counts {changed} TRIGGER owned"] if changed else []),
    )
    query = Query({"v": "bigint"})
    if not is_filled:
        assert "the column owner is NOT NULL without a default" in said(table, query)
        return
    sinks.check(query.target(table))

    assert query.write(table) == 0


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_a_number_may_be_a_date(table: Table, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VALUES, "bigint", 20_260_101)
    table.sql(f"CREATE TABLE counts (id bigint PRIMARY KEY, v {kind})")
    query = Query({"v": "bigint"})
    sinks.check(query.target(table))

    assert query.write(table) == 0


@pytest.fixture
def writer(table: Table) -> str:
    """The role of the sink, which may do nothing yet."""
    role = f"writer_{os.getpid()}_{table.resolved.sink.postgres.schema}"
    password = Path(table.resolved.sink.postgres.address.password.file).read_text().strip()
    table.sql(
        "CREATE TABLE counts (id bigint PRIMARY KEY, v bigint)",
        f"CREATE ROLE {role} LOGIN PASSWORD '{password}'",
        f"GRANT USAGE ON SCHEMA {table.resolved.sink.postgres.schema} TO {role}",
    )
    table.resolved.sink.postgres.address.user = role
    return role


def test_each_statement_that_is_said_helps_until_rows_are_taken(table: Table, writer: str) -> None:
    table.sql("ALTER TABLE counts ENABLE ROW LEVEL SECURITY")
    query, told = Query({"v": "bigint"}), list[str]()
    while True:
        try:
            sinks.check(query.target(table))
            break
        except JobError as wrong:
            told.append(wrong.error.detail)
            assert len(told) < 5
            for statement in wrong.error.detail.partition("takes none of these rows: ")[2].split("; "):
                table.sql(statement.partition(": ")[2].rstrip("."))

    assert "GRANT INSERT, SELECT, UPDATE ON" in told[0]
    assert "CREATE POLICY daggers ON" in told[0]
    assert query.write(table) == 0
    assert "takes rows of these columns" in sinks.rehearse(query.target(table), None)


@contextmanager
def without_temporary_tables(table: Table, writer: str) -> Iterator[psycopg.Connection]:
    """The table is in a database where nobody may make those; a connection of its owner."""
    database = f"plain_{os.getpid()}"
    address = table.resolved.sink.postgres.address
    with psycopg.connect(table.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {database}")
    try:
        address.database = database
        url = table.url.replace("/postgres?", f"/{database}?")
        with psycopg.connect(url, autocommit=True) as admin:
            schema = table.resolved.sink.postgres.schema
            admin.execute(f"REVOKE TEMP ON DATABASE {database} FROM PUBLIC")
            admin.execute(f"CREATE SCHEMA {schema}")
            admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {writer}")
            admin.execute("CREATE TABLE counts (id bigint PRIMARY KEY, v bigint)")
            yield admin
    finally:
        clients.drop(table.resolved)
        with psycopg.connect(table.url, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {database} WITH (FORCE)")


def test_a_right_to_temporary_tables_is_named(table: Table, writer: str) -> None:
    with without_temporary_tables(table, writer) as admin:
        admin.execute(f"GRANT SELECT, INSERT, UPDATE ON counts TO {writer}")

        told = f'GRANT TEMP ON DATABASE "plain_{os.getpid()}" TO "{writer}"'
        assert told in said(table, Query({"v": "bigint"}))


def test_rows_that_are_added_need_no_temporary_table_but_where_copies_are_refused(
    table: Table, writer: str
) -> None:
    own, query = table.resolved.sink.postgres, Query({"v": "bigint"})
    own.mode = Sink.MODE_APPEND
    del own.key[:]
    row = pa.RecordBatch.from_pylist([{"id": 1, "v": 2, "__key_0": 3}], schema=query.target(table).schema)
    with without_temporary_tables(table, writer) as admin:
        admin.execute(marks_ddl(own.schema))
        admin.execute(f"GRANT SELECT, INSERT, UPDATE ON {marks(own.schema)} TO {writer}")
        admin.execute(f"GRANT INSERT ON counts TO {writer}")
        sinks.check(query.target(table))
        assert "takes rows of these columns; nothing" in sinks.rehearse(query.target(table), row)
        assert query.write(table) == 0

        admin.execute("ALTER TABLE counts ENABLE ROW LEVEL SECURITY")
        admin.execute(f"CREATE POLICY own ON counts FOR ALL TO {writer} USING (true)")
        told = f'GRANT TEMP ON DATABASE "plain_{os.getpid()}" TO "{writer}"'
        assert told in said(table, query)

        admin.execute(told)
        assert "takes rows of these columns; nothing" in sinks.rehearse(query.target(table), row)


def test_what_create_table_made_an_edit_extends_and_what_somebody_else_made_it_does_not(table: Table) -> None:
    own = table.resolved.sink.postgres
    own.create_table = True
    sinks.check(Query({"v": "bigint"}).target(table))
    wider = Query({"v": "bigint", "tags": "array<string>"})
    sinks.check(wider.target(table))
    assert wider.write(table) == 0
    own.table = "others"
    table.sql("CREATE TABLE others (id bigint PRIMARY KEY, v bigint)")

    assert "has no column tags: set add_columns" in said(table, wider)


def test_a_trial_does_what_a_batch_does_and_keeps_nothing(table: Table) -> None:
    table.resolved.sink.postgres.create_table = True
    query = Query({"v": "bigint"})
    row = pa.RecordBatch.from_pylist([{"id": 1, "v": 2, "__key_0": 3}], schema=query.target(table).schema)
    told = sinks.rehearse(query.target(table), row)
    with psycopg.connect(table.url) as connection:
        made = connection.execute("SELECT to_regclass('counts')").fetchone()

    assert (told.endswith("takes rows of these columns; nothing of it was kept."), made) == (True, (None,))


def test_a_made_up_row_that_is_refused_for_its_values_says_so_and_fails_nothing(table: Table) -> None:
    table.sql("CREATE TABLE counts (id bigint PRIMARY KEY, v bigint CHECK (v > 100))")
    query = Query({"v": "bigint"})
    row = pa.RecordBatch.from_pylist([{"id": 1, "v": 2, "__key_0": 3}], schema=query.target(table).schema)

    assert "though not one that is made up" in sinks.rehearse(query.target(table), row)
