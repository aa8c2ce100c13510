"""Where a service is reached by gRPC: its address, its certificate, the tokens that it takes.

Certificate and tokens are read again when their files change (ADR 51).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import grpc

from chassis.connections import FIRST_CALL_S, MAX_CONNECTIONS
from chassis.logging import logger
from chassis.rotation import Rotated
from chassis.service import Unavailable
from chassis.tokenfile import read_tokens

T = TypeVar("T")

# What of a stream stands here before its call is looked at; the rest of a message is sent when it is read.
_UNREAD_BYTES: Final = 16 * 1024
_IDENTITY_ONLY: Final = 1
_HANDSHAKE_MS: Final = round(FIRST_CALL_S * 1000)


def bounded(largest: int, streams: int) -> tuple[tuple[str, int], ...]:
    """The options of a server of gRPC that who shows no token cannot fill.

    largest: bytes of a message. streams: calls of one connection that go on at once.
    """
    return (
        ("grpc.so_reuseport", 0),  # a second server on this port is an error, not a half of the calls
        ("grpc.max_receive_message_length", largest),
        # What is compressed may be a thousand times as much: it is refused unread.
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_ONLY),
        # Else gRPC lets a fast peer send ahead, by as much as the line takes, for each of its calls.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _UNREAD_BYTES),
        ("grpc.max_concurrent_streams", streams),
        ("grpc.max_allowed_incoming_connections", MAX_CONNECTIONS),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        ("grpc.http2.settings_timeout", _HANDSHAKE_MS),
        # A peer whose machine is gone is found out, also between calls.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
    )


class CannotBind(Unavailable):
    """The address is taken, or is not this machine's."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how a service is reached."""

    bind: str
    """host:port; port 0 takes a free one."""
    credentials: grpc.ServerCredentials | None = None
    """None: without TLS."""
    tokens: Callable[[], Mapping[bytes, str]] | None = field(default=None, repr=False)
    """Asked at each call: as `chassis.tokenfile.read_tokens` answers. None: everybody is anonymous."""
    token_hint: str = ""
    """What who shows none of them is told of where one is."""

    @property
    def tls(self) -> bool:
        """Whether it is reached by TLS only."""
        return self.credentials is not None

    def open(self, server: grpc.aio.Server) -> int:
        """Let the server listen here, once it is started; answers the port. Raises: CannotBind."""
        try:
            if self.credentials is None:
                return server.add_insecure_port(self.bind)
            return server.add_secure_port(self.bind, self.credentials)
        except RuntimeError as error:
            raise CannotBind(f"cannot serve on {self.bind}: the address is taken, or not ours") from error


def endpoint(
    bind: str,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    tokens: Path | None = None,
    token_hint: str = "",
) -> Endpoint:
    """The endpoint that these files make: PEM, and one NAME:TOKEN a line. Without any it is open.

    Raises: OSError, ValueError when a file cannot be used.
    """
    credentials = None
    if certificate is not None and key is not None:
        credentials = rotated_credentials(certificate, key)
    newest = rotated(lambda: read_tokens(tokens), tokens) if tokens else None
    return Endpoint(bind, credentials, newest, token_hint)


def rotated(read: Callable[[], T], *files: Path) -> Rotated[T]:
    """What a service reads from secret files, and reads again; the log tells of each change.

    Raises: OSError, ValueError when they cannot be used at first.
    """
    names = ", ".join(map(str, files))
    return Rotated(
        read,
        *files,
        refused=lambda why: logger().warning(
            "endpoint.rotation_refused", files=names, why=why, then="the old one stays"
        ),
        changed=lambda: logger().info("endpoint.rotated", files=names),
    )


def rotated_credentials(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """TLS for new connections with what the two files hold then. Raises: OSError, ValueError."""
    newest = rotated(lambda: _pair(certificate, key), certificate, key)
    shown = newest()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal shown
        if (pair := newest()) == shown:
            return None
        shown = pair
        return grpc.ssl_server_certificate_configuration([pair])

    first = grpc.ssl_server_certificate_configuration([shown])
    return grpc.dynamic_ssl_server_credentials(first, fetch)  # type: ignore[arg-type] # None: unchanged


def _pair(certificate: Path, key: Path) -> tuple[bytes, bytes]:
    """Key and certificate chain, which belong together. Raises: OSError, ValueError."""
    pair = key.read_bytes(), certificate.read_bytes()
    try:
        # The password keeps an encrypted key from asking for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        raise ValueError(
            f"{certificate} and {key} are not a certificate and its key: {error.reason}"
        ) from None
    if pair != (key.read_bytes(), certificate.read_bytes()):
        raise ValueError(f"{certificate} and {key} are being replaced")
    return pair
