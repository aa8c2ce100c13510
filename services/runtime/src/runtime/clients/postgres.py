"""Connections to PostgreSQL, and what its errors mean for rows and for a job."""

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
from runtime.clients.bisection import Refused
from runtime.clients.secrets import resolve
from runtime.errors import JobError, TemporaryError, external

CONNECT_S: Final = 10
SILENCE_S: Final = 10.0
"""After so long without a byte of an answer the server is asked whether it is there."""
_STATEMENT_S: Final = 60
# A session whose writer is gone, or stands still, gives its locks back: the next writer waits for them.
_LEFT_S: Final = 60
OPTIONS: Final = (
    f"-c statement_timeout={_STATEMENT_S}s -c lock_timeout=20s -c TimeZone=UTC"
    f" -c idle_in_transaction_session_timeout={_LEFT_S}s"
    " -c tcp_keepalives_idle=20 -c tcp_keepalives_interval=10 -c tcp_keepalives_count=4"
)
_STATE: Final = ("08", "25", "40", "53", "57", "58", "55P03", "55006")
"""SQLSTATEs of a server's state: connections, read-only, transactions that ended, resources, shutdowns,
disks, locks. Whatever else it says may be for the sake of a row."""
_VALUES: Final = ("22", "23")
_POOLER: Final = "unsupported startup parameter"
"""What pgbouncer says to who sets more of a session than it knows."""
"""Those of values: data exceptions, and constraints."""
_RIGHTS: Final = "42501"
_DENIED: Final = ("28", _RIGHTS)
_MISSING: Final = ("3D", "3F", "42P01")
_STATEMENT: Final = ("3D", "3F", "42")
"""Those of a statement, which is refused before any row is looked at, unless it is one within a function."""
_CHECKS_RIGHTS: Final = "aclcheck_error"
"""Where in the server it is found that somebody may not write, whichever the row; of row-level security it is
found elsewhere, with the same SQLSTATE."""
# What libpq says when it has no SQLSTATE, in its own words and the server's.
_SAYS_DENIED: Final = re.compile(
    r"password authentication failed|no password supplied|no pg_hba\.conf entry|role .* does not exist"
)
_SAYS_MISSING: Final = re.compile(r"database .* does not exist")
_SAYS_UNTRUSTED: Final = re.compile(r"certificate|SSL|TLS")
_AT_COLUMN: Final = re.compile(r"COPY [^,]+, line \d+, column ([^:]+):")

_Result = TypeVar("_Result")


class Attentive(psycopg.Connection[tuple[Any, ...]]):
    """Waits for a server as long as that is there, and not much longer than a statement may take.

    A machine that stands still keeps its connections open, and no statement's timeout ends there.
    """

    told: dict[str, Any]
    """What it was opened with."""

    def wait(self, gen: PQGen[_Result], *args: Any, **kwargs: Any) -> _Result:
        """As psycopg does. Raises: OperationalError where the server is silent."""
        return super().wait(self._heard(gen), *args, **kwargs)

    def _heard(self, gen: PQGen[_Result]) -> Generator[Any, Any, _Result]:
        """What psycopg waits for, until there is nobody to wait for; it comes by ten times a second."""
        ready: Any = None
        began = asked = time.monotonic()
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as end:
                result: _Result = end.value
                return result
            ready, now = (yield wanted), time.monotonic()
            if ready:
                began = asked = now
            elif now - asked >= SILENCE_S:
                if now - began >= _STATEMENT_S + SILENCE_S or not self._is_answered():
                    self.close()
                    raise psycopg.OperationalError("the server is silent")
                asked = time.monotonic()

    def _is_answered(self) -> bool:
        """Whether the server says anything to somebody new, if only that it is full."""
        try:
            psycopg.connect(**self.told).close()
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.Error:
            return True
        return True


_open: dict[bytes, Attentive] = {}


class RefusedError(Exception):
    """The database refuses rows, perhaps for what is in them. Its text is one sentence without values."""

    def __init__(self, why: Refused) -> None:
        super().__init__(why.detail)
        self.why = why


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


def _connect(sink: spec_pb2.ResolvedSink) -> Attentive:
    """A new connection. Raises: psycopg.Error; JobError for a secret that is not there, or an address."""
    address = sink.sink.postgres.address
    host, checked = _hosts(sink)
    ca = address.tls.ca_file
    trusted = "prefer" if postgres.is_here(address.host) and not ca else "verify-full"
    is_known = address.password.WhichOneof("source") is not None
    told: dict[str, Any] = {
        "host": host,
        "hostaddr": checked,
        "port": address.port,
        "dbname": address.database,
        "user": address.user,
        "password": resolve(address.password, place(address)) if is_known else "",
        "passfile": os.devnull,
        "sslmode": trusted,
        "sslrootcert": (ca or "system") if trusted == "verify-full" else None,
        "connect_timeout": CONNECT_S,
        "tcp_user_timeout": 1000 * CONNECT_S,
        "application_name": "daggers",
        "options": OPTIONS,
        "autocommit": True,
    }
    connection = Attentive.connect(**told)
    connection.told = told
    return connection


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
    """What an error of the database means for the job, or perhaps for rows. It quotes no row."""
    server = f"PostgreSQL at {place(address)}"
    state, said = error.sqlstate or "", " ".join(str(error).split())
    if state.startswith(_VALUES):
        return RefusedError(_refused(error, state, None))
    if _POOLER in said:
        what = "is a pooler that takes no options of a session: let it ignore them, for pgbouncer by"
        return TemporaryError("SINK_UNAVAILABLE", f"{server} {what} ignore_startup_parameters = options.")
    if state == errors.ReadOnlySqlTransaction.sqlstate:
        return TemporaryError("SINK_READ_ONLY", f"{server} takes no writes now: it is read-only.")
    if state == errors.LockNotAvailable.sqlstate:
        return TemporaryError("SINK_UNAVAILABLE", f"{server} makes rows wait: another session has a lock.")
    if state.startswith(_STATE):
        return TemporaryError("SINK_UNAVAILABLE", f"{server} does not answer ({type(error).__name__}).")
    otherwise = _otherwise(error, state, said, server, address)
    if not state or _is_of_statement(error, state):
        return otherwise
    return RefusedError(_refused(error, state, otherwise))


def _is_of_statement(error: psycopg.Error, state: str) -> bool:
    """Whether it is about what was asked, whichever the rows: no function of a trigger has asked it."""
    if state.startswith("28"):
        return True
    if state == _RIGHTS:
        return error.diag.source_function == _CHECKS_RIGHTS and not error.diag.context
    return state.startswith(_STATEMENT) and not error.diag.context


def _otherwise(
    error: psycopg.Error, state: str, said: str, server: str, address: spec_pb2.PostgresAddress
) -> JobError:
    """What an error means where it is about no row."""
    if state.startswith(_DENIED) or (not state and _SAYS_DENIED.search(said)):
        what = f"{server} refuses {address.user!r} in {address.database!r}"
        return external("SINK_DENIED", f"{what}: check its password, and its rights.", retryable=True)
    if state.startswith(_MISSING) or (not state and _SAYS_MISSING.search(said)):
        what = f"{server} has no such database, schema or table in {address.database!r}"
        return external("SINK_MISSING", f"{what}: make it, or name another.", retryable=True)
    if not state and _SAYS_UNTRUSTED.search(said):
        return handshake.untrusted(server)
    if not state:
        return TemporaryError("SINK_UNAVAILABLE", f"{server} does not answer ({type(error).__name__}).")
    what = f"{server} takes no row ({type(error).__name__}): somebody changed the table, or what it calls."
    return external("SINK_SCHEMA", what, retryable=True)


def _refused(error: psycopg.Error, state: str, otherwise: JobError | None) -> Refused:
    """Why rows are refused, without the values: the kind of error, and of which column or constraint."""
    diagnosis = error.diag
    column = diagnosis.column_name
    if column is None and (match := _AT_COLUMN.search(diagnosis.context or "")):
        column = match[1]
    place = f" in the column {column}" if column else ""
    if diagnosis.constraint_name:
        place = f" by the constraint {diagnosis.constraint_name}"
    reason = "CONSTRAINT" if state.startswith("23") else "SINK_REFUSED"
    return Refused(reason, f"PostgreSQL refuses the row{place} ({type(error).__name__}).", otherwise)
