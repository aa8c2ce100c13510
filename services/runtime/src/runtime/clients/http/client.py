"""One HTTP server: connections that stay open, how much it is asked for, what it is shown of who calls.

TemporaryError              it, or who gives tokens for it, does not answer: SINK_UNAVAILABLE
JobError, to be waited out  SINK_TLS, SINK_ADDRESS_REFUSED, SINK_DENIED, SECRET_MISSING, SECRET_UNUSABLE
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from daggers.v1 import spec_pb2

from runtime.clients import pace
from runtime.clients.http.caller import Caller
from runtime.clients.http.connection import Answer, Connection, Request, Server
from runtime.clients.inflight import InFlightLimit
from runtime.clients.kept import Kept


class Client:
    """Connections to one server. Raises: JobError for what its server or its secret is not."""

    def __init__(self, server: Server) -> None:
        share = spec_pb2.RateLimit.FromString(server.share)
        self.pace = pace.Pace(share)
        self.limit = InFlightLimit(most=min(share.max_in_flight or server.most, server.most))
        """Requests that may be under way, as far as is known."""
        self.control: Request | None = None
        self._caller = Caller(server.auth, server.url, server.name, server.egress)
        self._connection = Connection(server)

    async def send(self, request: Request) -> Answer:
        """One request, and its answer, whatever it says. Raises: JobError, as above."""
        return await self._connection.send(request, await self._caller.shown())

    async def close(self) -> None:
        """Close every connection."""
        await self._connection.close()
        await self._caller.close()


kept: Final = Kept(Client)
"""The clients of this process, each with its connections."""


def ask(server: Server, request: Request, judge: Callable[[Answer], object] = lambda _: None) -> Answer:
    """One request by itself. Raises: JobError, as above, and what `judge` raises of its answer."""

    async def answered(client: Client) -> Answer:
        answer = await client.send(request)
        judge(answer)
        return answer

    return kept.run(server, answered)
