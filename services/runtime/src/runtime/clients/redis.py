"""Connections to Redis, and what its errors mean for rows and for a job."""

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
from runtime.clients.bisection import Refused
from runtime.clients.kept import DENIED
from runtime.clients.secrets import resolve
from runtime.errors import JobError, TemporaryError, external

Command: TypeAlias = tuple[bytes | str | int, ...]

_TIMEOUT_S: Final = 10
# The first word of an error reply says its kind.
_DENIED: Final = frozenset({"NOAUTH", "WRONGPASS", "NOPERM"})
_LATER: Final = frozenset(
    {"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "OOM", "UNBLOCKED"}
)
_CLUSTER: Final = frozenset({"MOVED", "ASK", "CROSSSLOT"})
_WRONG_TYPE: Final = "WRONGTYPE"
"""The key holds a value of another type: an error of its row, whatever passes."""
_NO_RIGHT: Final = "NOPERM"
"""Somebody may not give this command, or not of this key."""
RefusedReply: TypeAlias = redis.ResponseError
"""The reply of a command, which may be for the sake of its key or value: others of its request pass."""


class Connection(redis.Connection):
    """One to addresses that were checked, and no others; the certificate is that of the name."""

    def __init__(self, addresses: Sequence[str], context: ssl.SSLContext | None, **said: Any) -> None:
        super().__init__(**said)  # type: ignore[no-untyped-call]
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


_open: dict[bytes, Connection] = {}
# A connection of a parent is not to be shared: both would read each other's replies.
os.register_at_fork(after_in_child=_open.clear)


@contextmanager
def connected(sink: spec_pb2.ResolvedSink) -> Iterator[Connection]:
    """A connection of this process, kept for the next who asks, and made anew after each error.

    So a password that was rotated is read again. Raises: TemporaryError, JobError.
    """
    key = _key(sink)
    is_whole = False
    try:
        connection = _open.get(key)
        if connection is None:
            connection = _open[key] = _connect(sink)
        yield connection
        is_whole = True
    except (redis.RedisError, OSError) as error:
        raise meaning(error, sink.sink.redis) from None
    finally:
        if not is_whole:  # replies that nobody read may be under way
            drop(sink)


def replies(connection: Connection, commands: Sequence[Command]) -> list[Any]:
    """Send commands at once; the reply of each, an error that may be about its key as a value.

    Raises: redis.RedisError for the first that says something of the server.
    """
    connection.send_packed_command(connection.pack_commands(commands), check_health=False)  # type: ignore[no-untyped-call]
    return [_reply(connection) for _ in commands]


def _reply(connection: Connection) -> Any:
    try:
        return connection.read_response()
    except redis.ResponseError as error:
        kind = code(error)
        if kind in _LATER | _CLUSTER | (_DENIED - {_NO_RIGHT}) or kind == "READONLY":
            raise
        return error


def refusal(error: RefusedReply, own: spec_pb2.RedisSink, rows: Sequence[int]) -> Refused:
    """What an error means for these rows, or for the job where no row passes. It quotes no row."""
    server, kind = f"Redis at {own.address}", code(error)
    if kind == _WRONG_TYPE:
        detail = f"{server} refuses the row: its key holds a value of another type ({kind})."
        return Refused("SINK_REFUSED", detail, rows=rows)
    said = kind if kind.isupper() else "ERR"  # else it may be a word of the row
    return Refused("SINK_REFUSED", f"{server} refuses the row ({said}).", meaning(error, own), rows)


def _connect(sink: spec_pb2.ResolvedSink) -> Connection:
    """A new connection. Raises: redis.RedisError, OSError; JobError for a secret or an address."""
    own = sink.sink.redis
    host, port = host_port(own.address)
    connection = Connection(
        _addresses(sink, host, port),
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
        # A server could name another address by them, which nobody has checked.
        maint_notifications_config=MaintNotificationsConfig(enabled=False),
    )
    try:
        connection.connect()  # type: ignore[no-untyped-call]
    except BaseException:
        connection.disconnect()  # type: ignore[no-untyped-call]
        raise
    return connection


def host_port(address: str) -> tuple[str, int]:
    """Of an address, host:port."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _context(own: spec_pb2.RedisSink) -> ssl.SSLContext:
    """How the server is known: its certificate is verified, and its name. Raises: JobError."""
    try:
        return ssl.create_default_context(cafile=own.tls.ca_file or None)
    except OSError:
        what = f"The certificates {own.tls.ca_file!r} for Redis at {own.address} cannot be read."
        raise external("SINK_TLS", what, retryable=True) from None


def _addresses(sink: spec_pb2.ResolvedSink, host: str, port: int) -> list[str]:
    """Where the host is, as far as it may be reached. Raises: JobError."""
    own = sink.sink.redis
    what = f"Redis at {own.address}"
    held = sink.egress if sink.HasField("egress") else None
    try:
        return egress.addresses(held, what, host, port, "http" if own.plaintext else "https")
    except OSError:
        raise TemporaryError("SINK_UNAVAILABLE", f"{what} has no address.") from None
    except AddressRefused as refused:
        raise external(
            "SINK_ADDRESS_REFUSED", f"{what} may not be reached: {refused}.", retryable=True
        ) from None


def _key(sink: spec_pb2.ResolvedSink) -> bytes:
    """Of a kept connection: what it was made of."""
    made_of = spec_pb2.ResolvedSink(egress=sink.egress if sink.HasField("egress") else None)
    made_of.sink.redis.CopyFrom(sink.sink.redis)
    for field in ("key", "type", "ttl"):
        made_of.sink.redis.ClearField(field)
    return made_of.SerializeToString(deterministic=True)


def drop(sink: spec_pb2.ResolvedSink) -> None:
    """Close what is kept for this sink."""
    connection = _open.pop(_key(sink), None)
    if connection is not None:
        with suppress(redis.RedisError, OSError):
            connection.disconnect()  # type: ignore[no-untyped-call]


@atexit.register
def _close() -> None:
    while _open:
        with suppress(redis.RedisError, OSError):
            _open.popitem()[1].disconnect()  # type: ignore[no-untyped-call]


def code(error: Exception) -> str:
    """The kind of an error reply. redis-py drops the first word of those it has a class for."""
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


def meaning(error: Exception, own: spec_pb2.RedisSink) -> JobError:
    """What an error means for the job. It quotes no row."""
    server = f"Redis at {own.address}"
    cause = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLError) or isinstance(cause, ssl.SSLError):
        what = f"{server} is not the server that its certificates speak of, or does not encrypt"
        return external("SINK_TLS", f"{what}: name their issuer by `ca_file`.", retryable=True)
    kind = code(error)
    if kind == "READONLY":
        return TemporaryError("SINK_READ_ONLY", f"{server} takes no writes now: it is a replica.")
    if kind in _DENIED:
        what = f"{server} refuses {own.user or 'its default user'}"
        return external(DENIED, f"{what}: check its password, and its rights.", retryable=True)
    if kind in _CLUSTER:
        return external(
            "SINK_SCHEMA", f"{server} is part of a cluster: name one that is not.", retryable=True
        )
    if kind in _LATER:
        return TemporaryError("SINK_UNAVAILABLE", f"{server} takes no rows now ({kind}).")
    if isinstance(error, redis.ResponseError):
        what = f"{server} does not take these commands: it is older than Redis 6, or has no such database"
        return external("SINK_SCHEMA", f"{what}.", retryable=True)
    return TemporaryError("SINK_UNAVAILABLE", f"{server} does not answer ({type(error).__name__}).")
