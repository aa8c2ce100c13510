"""Further sinks of the demo's bookings: a table of PostgreSQL, and Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from daggers.v1 import spec_pb2

from chassis.files import replace_text
from devstack.services import files_folder, secrets_folder
from devstack.state import Stack

TABLE = "trips"


def further(stack: Stack, server: str) -> Sequence[spec_pb2.Sink]:
    """Return the sinks; `server` is a PostgreSQL server's URL. Its password becomes a secret of the stack."""
    url = urlsplit(server)
    word = secrets_folder(stack) / "demo-postgres"
    replace_text(word, f"{url.password}\n", private=True)
    table = spec_pb2.PostgresSink(table=TABLE, create_table=True)
    table.address.host, table.address.port = url.hostname or "", url.port or 0
    table.address.database, table.address.user = "postgres", url.username or ""
    table.address.password.file = str(word)
    files = spec_pb2.ParquetSink(location=str(files_folder(stack)), table=TABLE)
    return spec_pb2.Sink(name="db", postgres=table), spec_pb2.Sink(name="files", parquet=files)
