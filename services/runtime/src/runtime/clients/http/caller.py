"""Authenticate to an HTTP or gRPC server: by a header of a secret, or by a token that is requested."""

from __future__ import annotations

from daggers.v1 import spec_pb2

from runtime.clients.credentials import header
from runtime.clients.http.oauth2 import Tokens


class Caller:
    """Credentials for one server. Raises: JobError for a secret that is missing."""

    def __init__(self, auth: bytes, to: str, name: str, egress: bytes | None) -> None:
        """Resolve the secret. auth: a serialised `HttpAuth`. to: address of the server. name: for people.

        egress: a serialised `Egress`, the rules for the token server's address.
        """
        http_auth = spec_pb2.HttpAuth.FromString(auth)
        self._fixed = header(http_auth, to, name)
        self._tokens = Tokens(http_auth.oauth2, egress) if http_auth.HasField("oauth2") else None

    async def headers(self) -> dict[str, str]:
        """Return the headers that authenticate a request. Raises: JobError where no token is given."""
        if self._tokens is None:
            return self._fixed
        return {"Authorization": f"Bearer {await self._tokens.token()}"}

    async def close(self) -> None:
        """Close all connections."""
        if self._tokens is not None:
            await self._tokens.close()
