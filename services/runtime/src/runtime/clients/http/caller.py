"""What a server, of HTTP or gRPC, is shown of who calls: what a secret says, or a token that is asked for."""

from __future__ import annotations

from daggers.v1 import spec_pb2

from runtime.clients.credentials import header
from runtime.clients.http.oauth2 import Tokens


class Caller:
    """Who calls one server. Raises: JobError for a secret that is not there."""

    def __init__(self, auth: bytes, to: str, name: str, egress: bytes | None) -> None:
        """`auth` is a serialised `HttpAuth`; `to` is where the server is, `name` what people call it;
        `egress` is a serialised `Egress`: where tokens may be asked for.
        """
        told = spec_pb2.HttpAuth.FromString(auth)
        self._fixed = header(told, to, name)
        self._tokens = Tokens(told.oauth2, egress) if told.HasField("oauth2") else None

    async def shown(self) -> dict[str, str]:
        """The header. Raises: JobError where no token is to be had."""
        if self._tokens is None:
            return self._fixed
        return {"Authorization": f"Bearer {await self._tokens.token()}"}

    async def close(self) -> None:
        """Close every connection."""
        if self._tokens is not None:
            await self._tokens.close()
