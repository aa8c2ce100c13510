"""Where a service is reached by gRPC: its address, its certificate, the tokens that it takes.

Certificate and tokens are read again when their files change (ADR 51).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import grpc

from chassis.logging import logger
from chassis.rotation import Rotated
from chassis.service import Unavailable
from chassis.tokenfile import read_tokens

T = TypeVar("T")


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
            "rotation_refused", files=names, why=why, then="the old one stays"
        ),
        changed=lambda: logger().info("rotated", files=names),
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
