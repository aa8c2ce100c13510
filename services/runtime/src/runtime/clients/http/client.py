"""Send requests to one HTTP server over open connections, with its rate limit and credentials.

TemporaryError              the server, or its token server, does not answer: SINK_UNAVAILABLE
JobError, to be waited out  SINK_TLS, SINK_ADDRESS_REFUSED, SINK_DENIED, SECRET_MISSING, SECRET_UNUSABLE
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from daggers.v1 import spec_pb2

from runtime.clients import pace
from runtime.clients.client_pool import ClientPool
from runtime.clients.http.caller import Caller
from runtime.clients.http.connection import Connection, HttpAnswer, Request, Server
from runtime.clients.inflight import InFlightLimit


class HttpClient:
    """Client of one server. Raises: JobError for an unusable certificate or secret."""

    def __init__(self, server: Server) -> None:
        share = spec_pb2.RateLimit.FromString(server.share)
        self.pace = pace.Pace(share)
        self.limit = InFlightLimit(most=min(share.max_in_flight or server.most, server.most))
        """Requests that may be in flight, as learned from answers."""
        self.control: Request | None = None
        self._caller = Caller(server.auth, server.url, server.name, server.egress)
        self._connection = Connection(server)

    async def send(self, request: Request) -> HttpAnswer:
        """Send a request, and return its answer of any status. Raises: the errors of the module's table."""
        return await self._connection.send(request, await self._caller.headers())

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()
        await self._caller.close()


pool: Final = ClientPool(HttpClient)
"""Clients of this process by server, each with its connections."""


def ask(
    server: Server, request: Request, judge: Callable[[HttpAnswer], object] = lambda _: None
) -> HttpAnswer:
    """Send one request, and return its answer.

    Raises: the errors of the module's table, and what `judge` raises of the answer.
    """

    async def send_and_judge(client: HttpClient) -> HttpAnswer:
        answer = await client.send(request)
        judge(answer)
        return answer

    return pool.run(server, send_and_judge)
