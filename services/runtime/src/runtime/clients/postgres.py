"""Keep connections to PostgreSQL open, and interpret its errors: are they about rows, or about the sink?"""

from __future__ import annotations

import atexit
import os
import re
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from daggers.v1 import spec_pb2
from psycopg import errors
from psycopg.abc import PQGen

from chassis.egress.addresses import AddressRefused
from daggerspec.sinks import postgres
from runtime.clients import egress, handshake
from runtime.clients.bisection import RefusalCause
from runtime.clients.secrets import resolve
from runtime.errors import JobError, TemporaryError, external

CONNECT_S: Final = 10
SILENCE_S: Final = 10.0
"""Silence of a server after which a new connection probes whether it is alive."""
_STATEMENT_S: Final = 60
# ends the session of a writer that died or stands still: the next writer waits for its locks
_IDLE_S: Final = 60
OPTIONS: Final = (
    f"-c statement_timeout={_STATEMENT_S}s -c lock_timeout=20s -c TimeZone=UTC"
    f" -c idle_in_transaction_session_timeout={_IDLE_S}s"
    " -c tcp_keepalives_idle=20 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=4"
)
_SERVER_STATES: Final = ("08", "25", "40", "53", "57", "58", "55P03", "55006")
"""SQLSTATEs about the server: connections, read-only, ended transactions, resources, shutdowns, disks, locks.
Any other may be about a row."""
_VALUES: Final = ("22", "23")
"""SQLSTATEs about values: data exceptions, and constraints."""
_POOLER_TEXT: Final = "unsupported startup parameter"
"""pgbouncer's text for session options that it does not know."""
_RIGHTS: Final = "42501"
_DENIED: Final = ("28", _RIGHTS)
_MISSING: Final = ("3D", "3F", "42P01")
_STATEMENT: Final = ("3D", "3F", "42")
"""SQLSTATEs about a statement, which fails before any row is read, unless it is one within a function."""
_CHECKS_RIGHTS: Final = "aclcheck_error"
"""Server function that reports missing rights on a table. Row-level security reports the same SQLSTATE for
single rows, by another function."""
# texts of libpq and of the server where there is no SQLSTATE
_SAYS_DENIED: Final = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|role .* does not exist"
)
_SAYS_MISSING: Final = re.compile(r"database .* does not exist")
_SAYS_UNTRUSTED: Final = re.compile(r"certificate|SSL|TLS")
_AT_COLUMN: Final = re.compile(r"COPY [^,]+, line \d+, column ([^:]+):")

_Result = TypeVar("_Result")


class MonitoredConnection(psycopg.Connection[tuple[Any, ...]]):
    """Connection that stops waiting when its server does not answer a probe, or a statement takes too long.

    A machine that stands still keeps its connections open, and does not enforce its statement timeout.
    """

    parameters: dict[str, Any]
    """Connection parameters, for probes."""

    def wait(self, gen: PQGen[_Result], *args: Any, **kwargs: Any) -> _Result:
        """Wait for a result as psycopg does. Raises: OperationalError where the server stays silent."""
        return super().wait(self._watch_server(gen), *args, **kwargs)

    def _watch_server(self, gen: PQGen[_Result]) -> Generator[Any, Any, _Result]:
        """Drive psycopg's generator, and probe a silent server. psycopg resumes it ten times a second."""
        ready: Any = None
        began = probed = time.monotonic()
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as end:
                result: _Result = end.value
                return result
            ready, now = (yield wanted), time.monotonic()
            if ready:
                began = probed = now
            elif now - probed >= SILENCE_S:
                if now - began >= _STATEMENT_S + SILENCE_S or not self._is_answered():
                    self.close()
                    raise psycopg.OperationalError("the server is silent")
                probed = time.monotonic()

    def _is_answered(self) -> bool:
        """Tell whether the server answers a new connection, if only that it has too many."""
        try:
            psycopg.connect(**self.parameters).close()
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.Error:
            return True
        return True


_open: dict[bytes, MonitoredConnection] = {}


class RefusedError(Exception):
    """Raised where the database refuses rows, perhaps for their values. Its text quotes none."""

    def __init__(self, why: RefusalCause) -> None:
        super().__init__(why.detail)
        self.why = why


@contextmanager
def open_connection(sink: spec_pb2.ResolvedSink) -> Iterator[psycopg.Connection]:
    """Open a connection, or reuse the process's; it is dropped after each error of its own.

    So a rotated password is read again. Autocommit is on: `transaction()` begins a transaction.
    Raises: TemporaryError, JobError, RefusedError for errors inside the block.
    """
    key = _connection_key(sink)
    try:
        connection = _open.get(key)
        if connection is None or connection.closed:
            connection = _open[key] = _connect(sink)
        yield connection
    except psycopg.Error as error:
        raised = interpret_error(error, sink.sink.postgres.address)
        if not isinstance(raised, RefusedError):
            drop(sink)
        raise raised from None


def _connect(sink: spec_pb2.ResolvedSink) -> MonitoredConnection:
    """Open a new connection. Raises: psycopg.Error; JobError for a missing secret or a refused address."""
    address = sink.sink.postgres.address
    host, hostaddr = _resolve_hosts(sink)
    ca = address.tls.ca_file
    trusted = "prefer" if postgres.is_here(address.host) and not ca else "verify-full"
    has_password = address.password.WhichOneof("source") is not None
    parameters: dict[str, Any] = {
        "host": host,
        "hostaddr": hostaddr,
        "port": address.port,
        "dbname": address.database,
        "user": address.user,
        "password": resolve(address.password, host_port(address)) if has_password else "",
        "passfile": os.devnull,
        "sslmode": trusted,
        "sslrootcert": (ca or "system") if trusted == "verify-full" else None,
        "connect_timeout": CONNECT_S,
        "tcp_user_timeout": 1000 * CONNECT_S,
        "application_name": "daggers",
        "options": OPTIONS,
        "autocommit": True,
    }
    connection = MonitoredConnection.connect(**parameters)
    connection.parameters = parameters
    return connection


def host_port(address: spec_pb2.PostgresAddress) -> str:
    """Format the server as host:port."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


def _resolve_hosts(sink: spec_pb2.ResolvedSink) -> tuple[str, str | None]:
    """Return libpq's `host` and `hostaddr`: the name, repeated for each checked address, and these.

    Without egress rules libpq resolves the name itself. Raises: JobError.
    """
    address = sink.sink.postgres.address
    if not sink.HasField("egress"):
        return address.host, None
    detail = f"PostgreSQL at {host_port(address)}"
    try:
        hostaddr = egress.resolve_addresses(sink.egress, detail, address.host, address.port)
    except OSError:
        raise TemporaryError("SINK_UNAVAILABLE", f"{detail} has no address.") from None
    except AddressRefused as refused:
        raise external(
            "SINK_ADDRESS_REFUSED", f"{detail} may not be reached: {refused}.", retryable=True
        ) from None
    return ",".join([address.host] * len(hostaddr)), ",".join(hostaddr)


def _connection_key(sink: spec_pb2.ResolvedSink) -> bytes:
    """Return the key of a connection: the parts of the sink that it depends on, serialised."""
    key_sink = spec_pb2.ResolvedSink(egress=sink.egress if sink.HasField("egress") else None)
    key_sink.sink.postgres.address.CopyFrom(sink.sink.postgres.address)
    return key_sink.SerializeToString(deterministic=True)


def drop(sink: spec_pb2.ResolvedSink) -> None:
    """Close the process's connection for this sink."""
    connection = _open.pop(_connection_key(sink), None)
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()


@atexit.register
def _close() -> None:
    while _open:
        with suppress(psycopg.Error):
            _open.popitem()[1].close()


def interpret_error(error: psycopg.Error, address: spec_pb2.PostgresAddress) -> JobError | RefusedError:
    """Interpret an error of the database: RefusedError where it may be about rows. It quotes no row."""
    server = f"PostgreSQL at {host_port(address)}"
    state, text = error.sqlstate or "", " ".join(str(error).split())
    if state.startswith(_VALUES):
        return RefusedError(_refusal_cause(error, state, None))
    if _POOLER_TEXT in text:
        detail = "is a pooler that takes no options of a session: let it ignore them, for pgbouncer by"
        return TemporaryError("SINK_UNAVAILABLE", f"{server} {detail} ignore_startup_parameters = options.")
    if state == errors.ReadOnlySqlTransaction.sqlstate:
        return TemporaryError("SINK_READ_ONLY", f"{server} takes no writes now: it is read-only.")
    if state == errors.LockNotAvailable.sqlstate:
        return TemporaryError("SINK_UNAVAILABLE", f"{server} makes rows wait: another session has a lock.")
    if state.startswith(_SERVER_STATES):
        return TemporaryError("SINK_UNAVAILABLE", f"{server} does not answer ({type(error).__name__}).")
    otherwise = _destination_error(error, state, text, server, address)
    if not state or _is_of_statement(error, state):
        return otherwise
    return RefusedError(_refusal_cause(error, state, otherwise))


def _is_of_statement(error: psycopg.Error, state: str) -> bool:
    """Tell whether an error is about the statement itself, and not of one within a trigger's function."""
    if state.startswith("28"):
        return True
    if state == _RIGHTS:
        return error.diag.source_function == _CHECKS_RIGHTS and not error.diag.context
    return state.startswith(_STATEMENT) and not error.diag.context


def _destination_error(
    error: psycopg.Error, state: str, text: str, server: str, address: spec_pb2.PostgresAddress
) -> JobError:
    """Build the job's error for a database error that is not about rows."""
    if state.startswith(_DENIED) or (not state and _SAYS_DENIED.search(text)):
        detail = f"{server} refuses {address.user!r} in {address.database!r}"
        return external("SINK_DENIED", f"{detail}: check its password, and its rights.", retryable=True)
    if state.startswith(_MISSING) or (not state and _SAYS_MISSING.search(text)):
        detail = f"{server} has no such database, schema or table in {address.database!r}"
        return external("SINK_MISSING", f"{detail}: make it, or name another.", retryable=True)
    if not state and _SAYS_UNTRUSTED.search(text):
        return handshake.untrusted_error(server)
    if not state:
        return TemporaryError("SINK_UNAVAILABLE", f"{server} does not answer ({type(error).__name__}).")
    detail = f"{server} takes no row ({type(error).__name__}): somebody changed the table, or what it calls."
    return external("SINK_SCHEMA", detail, retryable=True)


def _refusal_cause(error: psycopg.Error, state: str, otherwise: JobError | None) -> RefusalCause:
    """Build the cause of refused rows: kind of error, and column or constraint, without values."""
    diagnosis = error.diag
    column = diagnosis.column_name
    if column is None and (match := _AT_COLUMN.search(diagnosis.context or "")):
        column = match[1]
    where = f" in the column {column}" if column else ""
    if diagnosis.constraint_name:
        where = f" by the constraint {diagnosis.constraint_name}"
    reason = "CONSTRAINT" if state.startswith("23") else "SINK_REFUSED"
    return RefusalCause(reason, f"PostgreSQL refuses the row{where} ({type(error).__name__}).", otherwise)
