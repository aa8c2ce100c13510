"""gRPC's health service, as far as anybody may ask for it: it needs no token, so what it takes is bounded.

grpcio-health-checking keeps whatever name a watch asks for. Here names are read a few at a time, and a name
that no service has is forgotten.
(https://github.com/grpc/grpc/blob/master/doc/health-checking.md)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, TypeAlias, cast

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

SERVICE: Final = "grpc.health.v1.Health"
_MOST_READ: Final = 4
"""Requests that are received at once: each may be as large as any message."""
_PATIENCE_S: Final = 5.0
"""For a request, which is small and comes with its call."""
_LONGEST: Final = 512
"""Bytes of a request that is looked at: longer than any name of a service."""

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Health:
    """Says that these services, and the server as a whole, serve, until they do not."""

    def __init__(self, services: Iterable[str]) -> None:
        self._known = frozenset(["", *services])
        self._ended = asyncio.Event()
        self._reading = asyncio.Semaphore(_MOST_READ)

    def handler(self) -> grpc.GenericRpcHandler:
        """The service, for a server. To gRPC each request is a stream, so that none is received unasked."""
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

    def end(self) -> None:
        """From now on nothing serves."""
        self._ended.set()

    async def _check(self, requests: AsyncIterator[bytes], context: Context) -> HealthCheckResponse:
        name = await self._asked(requests, context)
        if name not in self._known:
            await context.abort(grpc.StatusCode.NOT_FOUND, "there is no service of this name")
        return self._status(known=True)

    async def _watch(
        self, requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[HealthCheckResponse]:
        known = await self._asked(requests, context) in self._known
        if not self._ended.is_set():
            yield self._status(known=known)
            await self._ended.wait()
        yield self._status(known=known)
        await asyncio.Event().wait()  # a watch ends with its caller, or with the server

    def _status(self, *, known: bool) -> HealthCheckResponse:
        if not known:
            return HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)
        ended = self._ended.is_set()
        return HealthCheckResponse(
            status=HealthCheckResponse.NOT_SERVING if ended else HealthCheckResponse.SERVING
        )

    async def _asked(self, requests: AsyncIterator[bytes], context: Context) -> str:
        """The service that somebody asks about; refuses what is none."""
        request = b""
        try:
            async with self._reading, asyncio.timeout(_PATIENCE_S):
                request = await _received(requests)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the request did not come")
        if len(request) > _LONGEST:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no service has a name of this length")
        try:
            return HealthCheckRequest.FromString(request).service
        except DecodeError:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the request is not valid Protobuf")
            raise


async def _received(requests: AsyncIterator[bytes]) -> bytes:
    """As much of a request as is looked at. The rest is let go here, before anything keeps this frame."""
    async for request in requests:
        return request[: _LONGEST + 1]
    return b""
