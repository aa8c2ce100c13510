"""The sink `postgres` against a server of the run's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import Case, Counts

from daggerspec.sinks import postgres as kind

SERVES_APART = True
"""Its server is a process of its own, which can be made to stand still."""
POISON = "with \0", 1
"""A text that PostgreSQL cannot hold."""


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, printed
    server: str = request.getfixturevalue("postgres")
    resolved, database = sink(server, request.getfixturevalue("tmp_path"))

    def read() -> Counts:
        table = kind.table(resolved.sink.postgres)
        with psycopg.connect(database) as connection:
            if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
                return {}
            rows = connection.execute(f"SELECT window_timestamp, tag_city, n FROM {table}")
            return {(f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", city): n for time, city, n in rows}

    return resolved, read


def sink(server: str, folder: Path) -> tuple[spec_pb2.ResolvedSink, str]:
    """A sink with a schema of its own, which it makes its table in, and a URL that looks there.

    Not a database of its own: each is a thousand files, and takes a second to remove.
    """
    name = f"sink_{uuid4().hex[:12]}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    url = urlsplit(server)
    secret = folder / "password"
    secret.write_text(f"{url.password}\n")
    made = spec_pb2.Sink(postgres=spec_pb2.PostgresSink(schema=name, table="counts", create_table=True))
    made.postgres.key.extend(["window_timestamp", "tag_city"])
    address = made.postgres.address
    address.host, address.port, address.user = url.hostname or "", url.port or 0, url.username or ""
    address.database, address.password.file = "postgres", str(secret)
    kind.fill(made.postgres, "d", spec_pb2.DaggerSpec())
    return spec_pb2.ResolvedSink(sink=made), f"{server}/postgres?options=-csearch_path%3D{name}"


def at(sink: spec_pb2.ResolvedSink, port: int) -> spec_pb2.ResolvedSink:
    """The sink behind another port of this machine."""
    moved = spec_pb2.ResolvedSink()
    moved.CopyFrom(sink)
    moved.sink.postgres.address.port = port
    return moved


@contextmanager
def silence(sink: spec_pb2.ResolvedSink, _: pytest.MonkeyPatch) -> Iterator[spec_pb2.ResolvedSink]:
    """The sink where nobody listens."""
    yield at(sink, 1)
