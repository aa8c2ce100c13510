"""gRPC's health service, as far as anybody may ask for it: it needs no token, so what it takes is bounded.

It has a port of its own, which takes no large message. At the port for calls, which answers it until 0.3.0, a
message is as large as a schema before anybody knows what it is: there names are read a few at a time, and who
is too many is refused. grpcio-health-checking keeps whatever name a watch asks for; here one that no service
has is forgotten. (https://github.com/grpc/grpc/blob/master/doc/health-checking.md)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, cast

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from chassis.connections import Connections, guarding, peer_of
from chassis.endpoint import Endpoint, server_options
from chassis.messages import MAX_HEALTH, MAX_SHARED_HEALTH

SERVICE: Final = "grpc.health.v1.Health"
_READ_AT_ONCE: Final = 2
"""Requests that are received at once: each may be as large as any message of the port."""
_WAITING: Final = 32
"""Requests that wait for that."""
_PATIENCE_S: Final = 2.0
"""For a request, which is small and comes with its call."""
_STREAMS: Final = 100
_END_S: Final = 0.5

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Health:
    """Says that these services, and the server as a whole, serve, until they do not."""

    def __init__(self, services: Iterable[str]) -> None:
        self._known = frozenset(["", *services])
        self._ended = asyncio.Event()

    def handler(self, connections: Connections, largest: int = MAX_SHARED_HEALTH) -> grpc.GenericRpcHandler:
        """The service, for a server. To gRPC each request is a stream, so that none is received unasked.

        connections: hears of each call. largest: bytes of a request that is looked at.
        """
        return _Servicer(self, connections, largest).handler()

    @property
    def ended(self) -> asyncio.Event:
        """Set once nothing serves any more."""
        return self._ended

    def knows(self, service: str) -> bool:
        """Whether there is a service of this name."""
        return service in self._known

    def end(self) -> None:
        """From now on nothing serves."""
        self._ended.set()

    def status(self, *, known: bool) -> HealthCheckResponse:
        """What is answered now about a service that is known, or is not."""
        if not known:
            return HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        ended = self._ended.is_set()
        return HealthCheckResponse(
            status=HealthCheckResponse.NOT_SERVING if ended else HealthCheckResponse.SERVING
        )


@asynccontextmanager
async def serving(health: Health, bind: str | None) -> AsyncIterator[int | None]:
    """Tell it, and nothing else, at host:port, without TLS and tokens, until the block ends; gives the port.

    bind: None is nowhere. Raises: CannotBind.
    """
    if bind is None:
        yield None
        return
    connections = Connections()
    server = grpc.aio.server(options=server_options(MAX_HEALTH, _STREAMS))
    server.add_generic_rpc_handlers((health.handler(connections, MAX_HEALTH),))
    port = Endpoint(bind).open(server)
    await server.start()
    try:
        async with guarding(connections, port):
            yield port
    finally:
        await server.stop(_END_S)


class _Servicer:
    """Health as one server tells it."""

    def __init__(self, health: Health, connections: Connections, largest: int) -> None:
        self._health, self._connections, self._largest = health, connections, largest
        self._reading, self._waiting = asyncio.Semaphore(_READ_AT_ONCE), 0

    def handler(self) -> grpc.GenericRpcHandler:
        serialize = HealthCheckResponse.SerializeToString
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Check": grpc.stream_unary_rpc_method_handler(
                    cast(Any, self._check), response_serializer=serialize
                ),
                "Watch": grpc.stream_stream_rpc_method_handler(
                    cast(Any, self._watch), response_serializer=serialize
                ),
            },
        )

    async def _check(self, _: AsyncIterator[bytes], context: Context) -> HealthCheckResponse:
        name = await self._asked(context)
        if not self._health.knows(name):
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no service of this name")
        return self._health.status(known=True)

    async def _watch(self, _: AsyncIterator[bytes], context: Context) -> AsyncIterator[HealthCheckResponse]:
        known = self._health.knows(await self._asked(context))
        if not self._health.ended.is_set():
            yield self._health.status(known=known)
            await self._health.ended.wait()
        yield self._health.status(known=known)
        await asyncio.Event().wait()  # a watch ends with its caller, or with the server

    async def _asked(self, context: Context) -> str:
        """The service that somebody asks about; refuses what is none."""
        peer = peer_of(context.peer())
        if peer is not None:
            self._connections.begin(peer)
            # Before anything of the question is received: it may be as large as a message of this port.
            await asyncio.sleep(self._connections.delay_s(peer, time.monotonic()))
        if self._waiting >= _WAITING:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many ask at once: ask again")
        request = None
        self._waiting += 1
        try:
            async with asyncio.timeout(_PATIENCE_S), self._reading:
                request = await self._received(context)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the request did not come")
        finally:
            self._waiting -= 1
        if request is None:
            text = f"a question for health has at most {self._largest} bytes"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        try:
            return HealthCheckRequest.FromString(request).service
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request is not valid Protobuf")
            raise

    async def _received(self, context: Context) -> bytes | None:
        """A request; None for one that is too large, which nothing holds any more then."""
        request = await context.read()
        if request is grpc.aio.EOF:
            return b""
        return request if len(request) <= self._largest else None
