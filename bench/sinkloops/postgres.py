"""The sink `postgres`: COPY of Arrow's CSV into a temporary table, and from there into the table."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
from daggers.v1 import spec_pb2
from pyarrow import csv

from daggerspec.sinks.postgres import CAPABILITIES
from devstack.demo import database
from sinkloops import NAMES, TIME, Trial

_AT_ONCE = CAPABILITIES.max_rows or 5_000
_SECRET = "BENCH_PASSWORD"
_KEY = (TIME, "order_number")
_FORM = csv.WriteOptions(include_header=False, quoting_style="needed")
_TABLE = (
    "(tag_city text, vehicle text, n bigint, fare double precision, order_number text,"
    " window_timestamp timestamptz)"
)


@contextmanager
def _serving() -> Iterator[str]:
    with database.serving() as url:
        yield f"{url}/postgres"


def _sink(url: str) -> spec_pb2.ResolvedSink:
    parts = urlsplit(url)
    os.environ[_SECRET] = parts.password or ""  # noqa: TID251 - the writer reads it by reference
    own = spec_pb2.PostgresSink(table="ours", create_table=True)
    own.key.extend(_KEY)
    own.address.host, own.address.port = parts.hostname or "", parts.port or 0
    own.address.database, own.address.user = "postgres", parts.username or ""
    own.address.password.env = _SECRET
    return spec_pb2.ResolvedSink(sink=spec_pb2.Sink(postgres=own))


def _copied(connection: psycopg.Connection, table: str, rows: pa.RecordBatch) -> None:
    out = io.BytesIO()
    csv.write_csv(rows, out, _FORM)
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copying:
        copying.write(out.getbuffer())


def _send(url: str, batch: pa.RecordBatch) -> None:
    """Upsert; of a key that comes twice the last row counts."""
    names, key = ", ".join(NAMES), ", ".join(_KEY)
    put = ", ".join(f"{column} = excluded.{column}" for column in NAMES if column not in _KEY)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS theirs {_TABLE}")
        connection.execute(f"CREATE UNIQUE INDEX IF NOT EXISTS theirs_key ON theirs ({key})")
        connection.execute("CREATE TEMP TABLE staged (LIKE theirs, place bigint) ON COMMIT DELETE ROWS")
        for start in range(0, batch.num_rows, _AT_ONCE):
            rows = batch.select(NAMES).slice(start, _AT_ONCE)
            numbered = rows.append_column("place", pa.array(range(rows.num_rows)))
            with connection.transaction():
                _copied(connection, f"staged ({names}, place)", numbered)
                connection.execute(
                    f"INSERT INTO theirs ({names}) SELECT DISTINCT ON ({key}) {names} FROM staged"
                    f" ORDER BY {key}, place DESC ON CONFLICT ({key}) DO UPDATE SET {put}"
                )


TRIALS = {"postgres": Trial(_serving, _sink, _send)}
