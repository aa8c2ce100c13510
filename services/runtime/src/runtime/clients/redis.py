"""Keep connections to Redis open, and interpret its errors: are they about rows, or about the sink?"""

from __future__ import annotations

import atexit
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias

import redis
from daggers.v1 import spec_pb2
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from chassis.egress.addresses import AddressRefused
from runtime.clients import egress
from runtime.clients.bisection import RefusalCause
from runtime.clients.client_pool import DENIED
from runtime.clients.secrets import resolve
from runtime.errors import JobError, TemporaryError, external

Command: TypeAlias = tuple[bytes | str | int, ...]

_TIMEOUT_S: Final = 10
# first words of error replies, which are their kinds
_DENIED: Final = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})
_TEMPORARY: Final = frozenset(
    {"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "OOM", "UNBLOCKED"}
)
_CLUSTER: Final = frozenset({"MOVED", "ASK", "CROSSSLOT"})
_WRONG_TYPE: Final = "WRONGTYPE"
"""The key has a value of another type: always the row's fault."""
_NO_RIGHT: Final = "NOPERM"
"""The user may not run this command, or not on this key."""
RefusedReply: TypeAlias = redis.ResponseError
"""Error reply that may be about a command's key or value; the other commands of the request succeed."""


class CheckedConnection(redis.Connection):
    """Connection to checked addresses only; the certificate is verified for the host's name."""

    def __init__(self, addresses: Sequence[str], context: ssl.SSLContext | None, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._addresses, self._context = addresses, context

    def _connect(self) -> socket.socket:
        trouble = OSError("there is no address")
        for address in self._addresses:
            try:
                plain = socket.create_connection((address, self.port), _TIMEOUT_S)
            except OSError as error:
                trouble = error
                continue
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is None:
                return plain
            try:
                return self._context.wrap_socket(plain, server_hostname=self.host)
            except OSError:
                plain.close()
                raise
        raise trouble


_open: dict[bytes, CheckedConnection] = {}
# a child must not share the parent's connections: each would read the other's replies
os.register_at_fork(after_in_child=_open.clear)


@contextmanager
def open_connection(sink: spec_pb2.ResolvedSink) -> Iterator[CheckedConnection]:
    """Open a connection, or reuse the process's; it is dropped after each error.

    So a rotated password is read again. Raises: TemporaryError, JobError.
    """
    key = _connection_key(sink)
    is_clean = False
    try:
        connection = _open.get(key)
        if connection is None:
            connection = _open[key] = _connect(sink)
        yield connection
        is_clean = True
    except (redis.RedisError, OSError) as error:
        raise interpret_error(error, sink.sink.redis) from None
    finally:
        if not is_clean:  # unread replies may be in flight
            drop(sink)


def send_commands(connection: CheckedConnection, commands: Sequence[Command]) -> list[Any]:
    """Send commands in one pipeline, and return their replies; an error about a key is a reply, too.

    Raises: redis.RedisError, the first error that is about the server.
    """
    connection.send_packed_command(connection.pack_commands(commands), check_health=False)  # type: ignore[no-untyped-call]
    return [_read_reply(connection) for _ in commands]


def _read_reply(connection: CheckedConnection) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        kind = error_code(error)
        if kind in _TEMPORARY | _CLUSTER | (_DENIED - {_NO_RIGHT}) or kind == "READONLY":
            raise
        return error


def refusal_cause(error: RefusedReply, own: spec_pb2.RedisSink, rows: Sequence[int]) -> RefusalCause:
    """Build the cause of refused rows, with the error to report if no row is accepted. It quotes no row."""
    server, kind = f"Redis at {own.address}", error_code(error)
    if kind == _WRONG_TYPE:
        detail = f"{server} refuses the row: its key holds a value of another type ({kind})."
        return RefusalCause("SINK_REFUSED", detail, rows=rows)
    word = kind if kind.isupper() else "ERR"  # any other word may be of the row
    return RefusalCause(
        "SINK_REFUSED", f"{server} refuses the row ({word}).", interpret_error(error, own), rows
    )


def _connect(sink: spec_pb2.ResolvedSink) -> CheckedConnection:
    """Open a new connection. Raises: redis.RedisError, OSError; JobError for a secret or an address."""
    own = sink.sink.redis
    host, port = host_port(own.address)
    connection = CheckedConnection(
        _resolve_addresses(sink, host, port),
        None if own.plaintext else _context(own),
        host=host,
        port=port,
        db=own.database,
        username=own.user or None,
        password=resolve(own.password, own.address) if own.HasField("password") else None,
        socket_timeout=_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        client_name="daggers",
        driver_info=None,
        # by these notifications a server could name an unchecked address
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
    )
    try:
        connection.connect()  # type: ignore[no-untyped-call]
    except BaseException:
        connection.disconnect()  # type: ignore[no-untyped-call]
        raise
    return connection


def host_port(address: str) -> tuple[str, int]:
    """Split host:port; IPv6 addresses come in brackets."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _context(own: spec_pb2.RedisSink) -> ssl.SSLContext:
    """Build the TLS context, which verifies certificate and name. Raises: JobError."""
    try:
        return ssl.create_default_context(cafile=own.tls.ca_file or None)
    except OSError:
        detail = f"The certificates {own.tls.ca_file!r} for Redis at {own.address} cannot be read."
        raise external("SINK_TLS", detail, retryable=True) from None


def _resolve_addresses(sink: spec_pb2.ResolvedSink, host: str, port: int) -> list[str]:
    """Resolve the host to the addresses that egress rules allow. Raises: JobError."""
    own = sink.sink.redis
    detail = f"Redis at {own.address}"
    rules = sink.egress if sink.HasField("egress") else None
    try:
        return egress.resolve_addresses(rules, detail, host, port, "http" if own.plaintext else "https")
    except OSError:
        raise TemporaryError("SINK_UNAVAILABLE", f"{detail} has no address.") from None
    except AddressRefused as refused:
        raise external(
            "SINK_ADDRESS_REFUSED", f"{detail} may not be reached: {refused}.", retryable=True
        ) from None


def _connection_key(sink: spec_pb2.ResolvedSink) -> bytes:
    """Return the key of a connection: the parts of the sink that it depends on, serialised."""
    key_sink = spec_pb2.ResolvedSink(egress=sink.egress if sink.HasField("egress") else None)
    key_sink.sink.redis.CopyFrom(sink.sink.redis)
    for field in ("key", "type", "ttl"):
        key_sink.sink.redis.ClearField(field)
    return key_sink.SerializeToString(deterministic=True)


def drop(sink: spec_pb2.ResolvedSink) -> None:
    """Close the process's connection for this sink."""
    connection = _open.pop(_connection_key(sink), None)
    if connection is not None:
        with suppress(redis.RedisError, OSError):
            connection.disconnect()  # type: ignore[no-untyped-call]


@atexit.register
def _close() -> None:
    while _open:
        with suppress(redis.RedisError, OSError):
            _open.popitem()[1].disconnect()  # type: ignore[no-untyped-call]


def error_code(error: Exception) -> str:
    """Return the first word of an error reply. redis-py drops it where it has a class for the error."""
    match error:
        case redis.exceptions.ReadOnlyError():
            return "READONLY"
        case redis.exceptions.BusyLoadingError():
            return "LOADING"
        case redis.exceptions.OutOfMemoryError():
            return "OOM"
        case redis.exceptions.NoPermissionError():
            return "NOPERM"
        case redis.exceptions.AuthenticationError():
            return "NOAUTH"
        case redis.exceptions.MasterDownError():
            return "MASTERDOWN"
        case redis.exceptions.ClusterDownError():
            return "CLUSTERDOWN"
        case redis.exceptions.TryAgainError():
            return "TRYAGAIN"
        case redis.exceptions.ClusterCrossSlotError():
            return "CROSSSLOT"
        case redis.exceptions.AskError():
            return "MOVED"
    return str(error).partition(" ")[0]


def interpret_error(error: Exception, own: spec_pb2.RedisSink) -> JobError:
    """Interpret an error for the job. It quotes no row."""
    server = f"Redis at {own.address}"
    cause = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLError) or isinstance(cause, ssl.SSLError):
        detail = f"{server} is not the server that its certificates speak of, or does not encrypt"
        return external("SINK_TLS", f"{detail}: name their issuer by `ca_file`.", retryable=True)
    kind = error_code(error)
    if kind == "READONLY":
        return TemporaryError("SINK_READ_ONLY", f"{server} takes no writes now: it is a replica.")
    if kind in _DENIED:
        detail = f"{server} refuses {own.user or 'its default user'}"
        return external(DENIED, f"{detail}: check its password, and its rights.", retryable=True)
    if kind in _CLUSTER:
        return external(
            "SINK_SCHEMA", f"{server} is part of a cluster: name one that is not.", retryable=True
        )
    if kind in _TEMPORARY:
        return TemporaryError("SINK_UNAVAILABLE", f"{server} takes no rows now ({kind}).")
    if isinstance(error, redis.ResponseError):
        detail = f"{server} does not take these commands: it is older than Redis 6, or has no such database"
        return external("SINK_SCHEMA", f"{detail}.", retryable=True)
    return TemporaryError("SINK_UNAVAILABLE", f"{server} does not answer ({type(error).__name__}).")
