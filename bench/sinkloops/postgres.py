"""The sink `postgres`: COPY of Arrow's CSV into a temporary table, and from there into the table. Rows that
are added go straight into it, with a mark that says which they are.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

import psutil
import psycopg
import pyarrow as pa
from daggers.v1 import spec_pb2
from pyarrow import csv

from daggerspec.sinks.postgres import CAPABILITIES
from devstack.demo import database
from devstack.settings import StackSettings
from sinkloops import DAGGER, NAMES, TIME, Trial, key

_AT_ONCE = CAPABILITIES.max_rows or 5_000
_SECRET = "BENCH_PASSWORD"
_KEY = (TIME, "order_number")
_UPSERT, _APPEND = spec_pb2.PostgresSink.MODE_UPSERT, spec_pb2.PostgresSink.MODE_APPEND
_FORM = csv.WriteOptions(include_header=False, quoting_style="needed")
_TABLE = (
    "(tag_city text, vehicle text, n bigint, fare double precision, order_number text,"
    " window_timestamp timestamptz)"
)


@contextmanager
def _serving() -> Iterator[str]:
    with database.serving(StackSettings().tools_dir) as url:
        yield f"{url}/postgres"


def _sink(url: str, mode: spec_pb2.PostgresSink.Mode.ValueType) -> spec_pb2.ResolvedSink:
    parts = urlsplit(url)
    os.environ[_SECRET] = parts.password or ""  # noqa: TID251 - the writer reads it by reference
    own = spec_pb2.PostgresSink(table=f"ours_{mode}", create_table=True, mode=mode)
    own.key.extend(_KEY if mode == _UPSERT else ())
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


def _mark(batch: pa.RecordBatch) -> str:
    """What is the same for the same rows, in whatever order they come: so the writer knows them again."""
    digests = (hashlib.blake2b(key(row).encode(), digest_size=8).digest() for row in batch.to_pylist())
    return f"{sum(int.from_bytes(each) for each in digests) % 2**64:016x}"


def _add(url: str, batch: pa.RecordBatch) -> None:
    """Append, with a mark in the same transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS theirs_added {_TABLE}")
        connection.execute("CREATE TABLE IF NOT EXISTS marks (dagger text, rows bigint, digest text)")
        with connection.transaction():
            for start in range(0, batch.num_rows, _AT_ONCE):
                _copied(
                    connection,
                    f"theirs_added ({', '.join(NAMES)})",
                    batch.select(NAMES).slice(start, _AT_ONCE),
                )
            connection.execute(
                "INSERT INTO marks VALUES (%s, %s, %s)", (DAGGER, batch.num_rows, _mark(batch))
            )


def _server(url: str) -> float:
    """What it and all of its processes have had, those that have ended included."""
    with psycopg.connect(url) as connection:
        postmaster = psutil.Process(connection.info.backend_pid).parent()
        assert postmaster is not None
        processes = (postmaster, *postmaster.children(recursive=True))
        return sum(sum(process.cpu_times()[:4]) for process in processes)


TRIALS = {
    "postgres, upsert": Trial(_serving, partial(_sink, mode=_UPSERT), _send, server=_server),
    "postgres, append": Trial(_serving, partial(_sink, mode=_APPEND), _add),
}
