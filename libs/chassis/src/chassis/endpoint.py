"""Endpoint of a gRPC service: address, certificate, and the tokens that it accepts.

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
from chassis.rotation import ReloadedValue
from chassis.service import Unavailable
from chassis.tokenfile import read_tokens

T = TypeVar("T")

# What of a stream stands here before its call is looked at; the rest of a message is sent when it is read.
_UNREAD_BYTES: Final = 16 * 1024
_IDENTITY_ONLY: Final = 1
_HANDSHAKE_MS: Final = round(FIRST_CALL_S * 1000)


def server_options(largest: int, streams: int) -> tuple[tuple[str, int], ...]:
    """Build the options of a gRPC server whose memory callers without a token cannot exhaust.

    largest: bytes of a message. streams: concurrent calls of one connection.
    """
    return (
        ("grpc.so_reuseport", 0),  # a second server on this port is an error, not a half of the calls
        ("grpc.max_receive_message_length", largest),
        # A compressed message may expand a thousandfold: it is refused before it is read.
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
    """Address of a service, and how callers authenticate."""

    bind: str
    """host:port; port 0 takes a free one."""
    credentials: grpc.ServerCredentials | None = None
    """None: without TLS."""
    tokens: Callable[[], Mapping[bytes, str]] | None = field(default=None, repr=False)
    """Asked at each call: as `chassis.tokenfile.read_tokens` answers. None: everybody is anonymous."""
    token_hint: str = ""
    """Text that tells a caller without a token where to find one."""

    @property
    def tls(self) -> bool:
        """True if it accepts TLS only."""
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
    """Build an endpoint from files: PEM, and tokens, one NAME:TOKEN a line. Without any it is open.

    Raises: OSError, ValueError when a file cannot be used.
    """
    credentials = None
    if certificate is not None and key is not None:
        credentials = rotated_credentials(certificate, key)
    newest = reload_files(lambda: read_tokens(tokens), tokens) if tokens else None
    return Endpoint(bind, credentials, newest, token_hint)


def reload_files(read: Callable[[], T], *files: Path) -> ReloadedValue[T]:
    """Read a value from secret files, and again when they change; each change is logged.

    Raises: OSError, ValueError when the first read fails.
    """
    names = ", ".join(map(str, files))
    return ReloadedValue(
        read,
        *files,
        refused=lambda why: logger().warning(
            "endpoint.rotation_refused", files=names, why=why, then="the old one stays"
        ),
        changed=lambda: logger().info("endpoint.rotated", files=names),
    )


def rotated_credentials(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """Build TLS credentials that use the newest files for new connections. Raises: OSError, ValueError."""
    newest = reload_files(lambda: _pair(certificate, key), certificate, key)
    current = newest()

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        nonlocal current
        if (pair := newest()) == current:
            return None
        current = pair
        return grpc.ssl_server_certificate_configuration([pair])

    first = grpc.ssl_server_certificate_configuration([current])
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
