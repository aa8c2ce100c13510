"""Each row is one row of a PostgreSQL table (15 or later).

Where `create_table` is not said, `daggers sink ddl -f FILE` prints the SQL that makes the table.

With `mode: append` rows have no key. After an edit, windows up to the last one of a batch that was written
whole are left out, and so are records that were written: the table `daggers_written` beside it says which.

Behind pgbouncer, in transaction mode too, `ignore_startup_parameters = options` has to be set there. How long
a session may wait, or have locks, is the pooler's to say then.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields, state
from daggerspec.capabilities import Capabilities, Guarantee
from daggerspec.columns import Output
from daggerspec.destination import Destination, server_at
from daggerspec.keys import Key
from daggerspec.kind import ValidationContext, no_messages, own_address
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation

CAPABILITIES: Final = Capabilities(
    guarantee=Guarantee.EFFECTIVELY_ONCE,
    because="a row is identified by its key, and one that is repeated takes its place. With `mode: append`"
    " exactly once, by a mark in the same transaction",
    upserts=True,
    repeats_tellable=True,
    max_rows=5_000,
    limits=("rows_per_second", "requests_per_second", "max_in_flight"),
)
TIME_SERIES: Final = False
DEFAULT_PORT: Final = 5432
DEFAULT_SCHEMA: Final = "public"
MADE: Final = "made by daggers (create_table)"
"""The comment of a table that a sink has made, and may extend."""
MARKS: Final = "daggers_written"
"""The table that says which batches were appended."""
KEYS: Final = (
    Key(
        "address",
        "Where the database is, and who writes to it.",
        required=True,
        address=True,
        keys=(
            Key("host", "Name or address of the server.", required=True, address=True),
            Key("port", f"Its port; without it {DEFAULT_PORT}.", least=1, most=65_535, address=True),
            Key("database", "The database.", required=True, address=True),
            Key("user", "The role that writes.", required=True, address=True),
            Key(
                "password",
                "Where its password is; without it none is sent.",
                address=True,
                sent_to=("address.host", "address.port"),
            ),
            Key(
                "ca_file",
                "A file with the certificates that sign the server's; without it the system's.",
                "tls.ca_file",
                address=True,
            ),
        ),
    ),
    Key("schema", f"The table's schema; without it {DEFAULT_SCHEMA}."),
    Key("table", "The table.", required=True),
    Key(
        "mode", "What becomes of a row: upsert or insert_ignore, or append, without a key; without it upsert."
    ),
    Key("key", "The query's columns that are a row's identity; without it those of its window and GROUP BY."),
    Key("columns", "The table's column for a column of the query, where it has another name."),
    Key(
        "create_table",
        "Whether a table that is not there is made, with its unique index, and columns of an edit are added.",
    ),
    Key("add_columns", "Whether columns that the table lacks are added to it, whoever has made it."),
    Key("nul_to_space", "Whether U+0000 is written as a space; else such a row is refused."),
)
resolve = own_address
messages = no_messages
_MAX_NAME: Final = 63
_TYPES: Final = {
    "string": "text",
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "timestamp": "timestamptz",
    "date": "date",
    "binary": "bytea",
}
_DECIMAL: Final = re.compile(r"decimal(\(\d+,\d+\))")
_NESTED: Final = ("array<", "map<", "struct<")
_APPEND: Final = spec_pb2.PostgresSink.MODE_APPEND
_MODES: Final = (spec_pb2.PostgresSink.MODE_UPSERT, _APPEND, spec_pb2.PostgresSink.MODE_INSERT_IGNORE)


def fill(sink: spec_pb2.PostgresSink, dagger: str, spec: spec_pb2.DaggerSpec) -> None:
    """Say its defaults."""
    del dagger, spec
    sink.address.port = sink.address.port or DEFAULT_PORT
    sink.schema = sink.schema or DEFAULT_SCHEMA
    sink.mode = sink.mode or spec_pb2.PostgresSink.MODE_UPSERT


def destination(resolved: spec_pb2.ResolvedSink) -> Destination:
    """Return its table, in a schema of a database."""
    sink, address = resolved.sink.postgres, resolved.sink.postgres.address
    schema = f"{address.database}.{sink.schema}"
    return Destination("postgres", server_at(f"{address.host}:{address.port}"), schema, sink.table)


def overwrites(sink: spec_pb2.PostgresSink) -> bool:
    """Return whether a recomputed row takes the place of the one before."""
    return sink.mode == spec_pb2.PostgresSink.MODE_UPSERT


def violations(path: str, sink: spec_pb2.PostgresSink, context: ValidationContext) -> Iterator[Violation]:
    """Yield the violations of address, table, mode, key and columns."""
    yield from _address(f"{path}.address", sink.address)
    for field in ("schema", "table"):
        yield from _name(f"{path}.{field}", getattr(sink, field))
    if sink.mode not in _MODES:
        yield Violation(f"{path}.mode", f"{sink.mode} is not a mode", "UNKNOWN_ENUM_VALUE")
    elif sink.mode != spec_pb2.PostgresSink.MODE_UPSERT and state.updates(context.spec):
        setting = state.updating_setting(context.spec)
        problem = f"must be upsert for {setting}: its rows come again, and the last is the one that counts"
        yield Violation(f"{path}.mode", problem, "SINK_CANNOT_UPDATE")
    if sink.mode == _APPEND and sink.key:
        yield Violation(f"{path}.key", "goes with upsert and insert_ignore only", "UNEXPECTED")
    if context.output is not None:
        yield from _columns(path, sink, context.output)


def key(sink: spec_pb2.PostgresSink, rows: Output) -> Sequence[str]:
    """Return the query's columns that identify a row; none if neither the sink nor the query names them."""
    return sink.key or rows.key


def has_own_key(sink: spec_pb2.PostgresSink, rows: Output) -> bool:
    """Return whether several rows may be one row of the table, of which the last one counts."""
    return sink.mode == spec_pb2.PostgresSink.MODE_UPSERT and not (
        rows.key and set(rows.key) <= set(key(sink, rows))
    )


def columns(sink: spec_pb2.PostgresSink, rows: Output) -> dict[str, str]:
    """Return the table's column for each of the query, in order."""
    return {column.name: sink.columns.get(column.name, column.name) for column in rows.columns}


def type_of(spark: str) -> str:
    """Return the type of a table's column that holds all values of a Spark SQL type."""
    if match := _DECIMAL.fullmatch(spark):
        return f"numeric{match[1]}"
    if spark.startswith(_NESTED):
        return "jsonb"
    return "interval" if spark.startswith("interval") else _TYPES.get(spark, "text")


def ddl(sink: spec_pb2.PostgresSink, rows: Output) -> tuple[str, ...]:
    """Return the statements that create the table, with its key's unique index, or the table of marks."""
    name, named = table(sink), columns(sink, rows)
    definitions = ", ".join(
        f"{quote_name(named[column.name])} {type_of(column.type)}" for column in rows.columns
    )
    create = f"CREATE TABLE IF NOT EXISTS {name} ({definitions})"
    further = marks_ddl(sink.schema) if sink.mode == _APPEND else index_ddl(sink, rows)
    return (
        (create, further, f"COMMENT ON TABLE {name} IS '{MADE}'") if sink.create_table else (create, further)
    )


def index_ddl(sink: spec_pb2.PostgresSink, rows: Output) -> str:
    """Return the statement that creates the unique index of the table's key."""
    named = columns(sink, rows)
    parts = ", ".join(quote_name(named[column]) for column in key(sink, rows))
    return f"CREATE UNIQUE INDEX ON {table(sink)} ({parts}) NULLS NOT DISTINCT"


def marks_ddl(schema: str) -> str:
    """Return the statement that creates the table of marks."""
    return (
        f"CREATE TABLE IF NOT EXISTS {marks(schema)} (dagger text, checkpoint text, sink text, part bigint,"
        " batch bigint NOT NULL, row_count bigint NOT NULL, digest text NOT NULL,"
        " refused text NOT NULL DEFAULT '[]', generation bigint NOT NULL,"
        " time timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (dagger, checkpoint, sink, part))"
    )


def table(sink: spec_pb2.PostgresSink) -> str:
    """Return the table's whole name, quoted."""
    return f"{quote_name(sink.schema)}.{quote_name(sink.table)}"


def marks(schema: str) -> str:
    """Return the whole name of the table of marks, quoted; it is in the schema of tables with mode append."""
    return f"{quote_name(schema)}.{MARKS}"


def quote_name(name: str) -> str:
    """Quote an identifier of PostgreSQL."""
    return '"' + name.replace('"', '""') + '"'


def is_here(host: str) -> bool:
    """Return whether a host is this machine, by its name."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _address(path: str, address: spec_pb2.PostgresAddress) -> Iterator[Violation]:
    if not fields.is_host_port(f"{address.host}:{address.port}") and not _is_ipv6(address.host):
        yield Violation(f"{path}.host", "must be the name or address of a server", "INVALID_ADDRESS")
    if not 0 < address.port < 65_536:
        yield Violation(f"{path}.port", "must be from 1 to 65535", "OUT_OF_RANGE")
    for field in ("database", "user"):
        yield from _name(f"{path}.{field}", getattr(address, field))
    if address.HasField("password"):
        yield from fields.secret(f"{path}.password", address.password)
    if address.tls.ca_file and not address.tls.ca_file.startswith("/"):
        yield Violation(f"{path}.tls.ca_file", "must be an absolute path", "INVALID_REFERENCE")


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def _name(path: str, name: str) -> Iterator[Violation]:
    if not name:
        yield Violation(path, "is required", "REQUIRED")
    elif len(name.encode()) > _MAX_NAME:  # PostgreSQL cuts it, and another column may be meant
        yield Violation(path, f"must not be longer than {_MAX_NAME} bytes", "TOO_LONG")
    elif not name.isprintable():
        yield Violation(path, "must be printable characters", "INVALID_CHARACTER")


def _columns(path: str, sink: spec_pb2.PostgresSink, rows: Output) -> Iterator[Violation]:
    query_columns = [column.name for column in rows.columns]
    for field, listed in (("key", list(sink.key)), ("columns", sorted(sink.columns))):
        for number, name in enumerate(listed):
            if name not in query_columns:
                where = f"{path}.key[{number}]" if field == "key" else f"{path}.columns.{name}"
                others = hint(nearest(name, query_columns), f": it has {', '.join(query_columns)}")
                yield Violation(where, f"the query has no column {name}{others}", "UNKNOWN_COLUMN")
    named = columns(sink, rows)
    for name, column in named.items():
        yield from _name(f"{path}.columns.{name}" if name in sink.columns else path, column)
    twice = sorted({name for name in named.values() if list(named.values()).count(name) > 1})
    for repeated in twice:
        yield Violation(
            f"{path}.columns", f"two columns of the query cannot be the column {repeated}", "DUPLICATE_COLUMN"
        )
    if sink.mode != _APPEND and not key(sink, rows):
        problem = "is required: the query does not show what tells its rows apart; name columns that do"
        yield Violation(f"{path}.key", problem, "SINK_KEY_MISSING")


def new_column(sink: spec_pb2.PostgresSink, column: str) -> str:
    """Describe what happens to the table when rows get a column."""
    table_column = sink.columns.get(column, column)
    if sink.add_columns:
        return f"the table {sink.table} is altered where it lacks {table_column}"
    if sink.create_table:
        return f"the table {sink.table} is altered where it lacks {table_column}, if create_table made it"
    return f"the table {sink.table} must have {table_column} before, or the driver fails"
