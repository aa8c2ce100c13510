"""Where a service is reached by gRPC: its address, its certificate, the tokens that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from chassis.interceptors import read_tokens
from chassis.service import Unavailable


class CannotBind(Unavailable):
    """The address is taken, or is not this machine's."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where and how a service is reached."""

    bind: str
    """host:port; port 0 takes a free one."""
    credentials: grpc.ServerCredentials | None = None
    """None: without TLS."""
    tokens: Mapping[bytes, str] | None = field(default=None, repr=False)
    """As `chassis.interceptors.read_tokens` answers; None: everybody is anonymous."""

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
    bind: str, *, certificate: Path | None = None, key: Path | None = None, tokens: Path | None = None
) -> Endpoint:
    """The endpoint that these files make: PEM, and one NAME:TOKEN a line. Without any it is open.

    Raises: OSError, ValueError when a file cannot be used.
    """
    credentials = None
    if certificate is not None and key is not None:
        credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    return Endpoint(bind, credentials, read_tokens(tokens) if tokens else None)
