"""Connections to PostgreSQL, and what its errors mean for rows and for a job."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from daggers.v1 import spec_pb2
from psycopg import errors

from chassis.egress.addresses import AddressRefused
from daggerspec.sinks import postgres
from runtime.clients import egress
from runtime.clients.secrets import resolve
from runtime.errors import JobError, TemporaryError, external

_CONNECT_S: Final = 10
_OPTIONS: Final = "-c statement_timeout=60s -c lock_timeout=20s -c TimeZone=UTC"
# Classes of SQLSTATE that time mends: connections, resources, shutdowns, deadlocks, locks.
_LATER: Final = ("08", "53", "57", "40", "55")
_ROWS: Final = ("22", "23")
_DENIED: Final = ("28", "42501")
_MISSING: Final = ("3D", "3F", "42P01")
# What libpq says when it has no SQLSTATE, in its own words and the server's.
_SAYS_DENIED: Final = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|role .* does not exist"
)
_SAYS_MISSING: Final = re.compile(r"database .* does not exist")
_SAYS_UNTRUSTED: Final = re.compile(r"certificate|SSL|TLS")
_AT_COLUMN: Final = re.compile(r"COPY [^,]+, line \d+, column ([^:]+):")

_open: dict[bytes, psycopg.Connection] = {}


class RefusedError(Exception):
    """The database refuses rows for what is in them. Its text is one sentence without values."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@contextmanager
def connected(sink: spec_pb2.ResolvedSink) -> Iterator[psycopg.Connection]:
    """A connection of this process, kept for the next who asks, and made anew after each error of its own.

    So a password that was rotated is read again. Autocommit is on: `transaction()` begins one.
    Raises: TemporaryError, JobError, RefusedError for what happens inside.
    """
    key = _key(sink)
    try:
        connection = _open.get(key)
        if connection is None or connection.closed:
            connection = _open[key] = _connect(sink)
        yield connection
    except psycopg.Error as error:
        raised = meaning(error, sink.sink.postgres.address)
        if not isinstance(raised, RefusedError):
            drop(sink)
        raise raised from None


def _connect(sink: spec_pb2.ResolvedSink) -> psycopg.Connection:
    """A new connection. Raises: psycopg.Error; JobError for a secret that is not there, or an address."""
    address = sink.sink.postgres.address
    host, checked = _hosts(sink)
    ca = address.tls.ca_file
    trusted = "prefer" if postgres.is_here(address.host) and not ca else "verify-full"
    return psycopg.connect(
        host=host,
        hostaddr=checked,
        port=address.port,
        dbname=address.database,
        user=address.user,
        password=resolve(address.password, place(address)) if address.password.WhichOneof("source") else "",
        passfile=os.devnull,
        sslmode=trusted,
        sslrootcert=(ca or "system") if trusted == "verify-full" else None,
        connect_timeout=_CONNECT_S,
        tcp_user_timeout=1000 * _CONNECT_S,
        application_name="daggers",
        options=_OPTIONS,
        autocommit=True,
    )


def place(address: spec_pb2.PostgresAddress) -> str:
    """The server as host:port."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


def _hosts(sink: spec_pb2.ResolvedSink) -> tuple[str, str | None]:
    """What libpq is told of the host: its name, once for each address that was checked, and these.

    Raises: JobError.
    """
    address = sink.sink.postgres.address
    if not sink.HasField("egress"):
        return address.host, None
    what = f"PostgreSQL at {place(address)}"
    try:
        checked = egress.addresses(sink.egress, what, address.host, address.port)
    except OSError:
        raise TemporaryError("SINK_UNAVAILABLE", f"{what} has no address.") from None
    except AddressRefused as refused:
        raise external(
            "SINK_ADDRESS_REFUSED", f"{what} may not be reached: {refused}.", retryable=True
        ) from None
    return ",".join([address.host] * len(checked)), ",".join(checked)


def _key(sink: spec_pb2.ResolvedSink) -> bytes:
    """Of a kept connection: what it was made of."""
    made_of = spec_pb2.ResolvedSink(egress=sink.egress if sink.HasField("egress") else None)
    made_of.sink.postgres.address.CopyFrom(sink.sink.postgres.address)
    return made_of.SerializeToString(deterministic=True)


def drop(sink: spec_pb2.ResolvedSink) -> None:
    """Close what is kept for this sink."""
    connection = _open.pop(_key(sink), None)
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()


@atexit.register
def _close() -> None:
    while _open:
        with suppress(psycopg.Error):
            _open.popitem()[1].close()


def meaning(error: psycopg.Error, address: spec_pb2.PostgresAddress) -> JobError | RefusedError:
    """What an error of the database means for the rows, or for the job. It quotes no row."""
    server = f"PostgreSQL at {place(address)}"
    state, said = error.sqlstate or "", " ".join(str(error).split())
    if state.startswith(_ROWS):
        return _refused(error, state)
    if state == errors.ReadOnlySqlTransaction.sqlstate:
        return TemporaryError("SINK_READ_ONLY", f"{server} takes no writes now: it is read-only.")
    if state.startswith(_DENIED) or (not state and _SAYS_DENIED.search(said)):
        what = f"{server} refuses {address.user!r} in {address.database!r}"
        return external("SINK_DENIED", f"{what}: check its password, and its rights.", retryable=True)
    if state.startswith(_MISSING) or (not state and _SAYS_MISSING.search(said)):
        what = f"{server} has no such database, schema or table in {address.database!r}"
        return external("SINK_MISSING", f"{what}: make it, or name another.", retryable=True)
    if not state and _SAYS_UNTRUSTED.search(said):
        what = f"{server} is not the server that its certificates speak of"
        return external("SINK_TLS", f"{what}: name their issuer by `ca_file`.", retryable=True)
    if not state or state.startswith(_LATER):
        return TemporaryError("SINK_UNAVAILABLE", f"{server} does not answer ({type(error).__name__}).")
    what = f"{server} cannot take these columns ({type(error).__name__}): somebody changed the table."
    return external("SINK_SCHEMA", what, retryable=True)


def _refused(error: psycopg.Error, state: str) -> RefusedError:
    """Why rows are refused, without the values: the kind of error, and of which column or constraint."""
    diagnosis = error.diag
    column = diagnosis.column_name
    if column is None and (match := _AT_COLUMN.search(diagnosis.context or "")):
        column = match[1]
    place = f" in the column {column}" if column else ""
    if diagnosis.constraint_name:
        place = f" by the constraint {diagnosis.constraint_name}"
    reason = "CONSTRAINT" if state.startswith("23") else "SINK_REFUSED"
    return RefusedError(reason, f"PostgreSQL refuses the row{place} ({type(error).__name__}).")
