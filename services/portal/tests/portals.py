"""A server of gRPC that answers bytes, and what starts a portal in front of it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from chassis import tickets

INDEX = (
    '<!doctype html><meta name="csp-nonce" content=""><script type="module" src="/assets/app.js"></script>'
)
WITHIN_S = 30
FLOOD_BYTES = 64 * 1024
"""Of each message of a flood."""


@dataclass
class Upstream:
    """Calls that the server of gRPC has seen, and events that it waits for."""

    address: str = ""
    metadata: list[dict[str, Any]] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0
    """Messages of floods."""
    server: Any = None
    """The server that answers, for a test that stops it."""


class Answers(grpc.GenericRpcHandler):
    """Echo answers what it was asked; Refuse refuses with details; Count, Wait and Flood are streams."""

    def __init__(self, seen: Upstream) -> None:
        self._seen = seen

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        one, many = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        handlers = {
            "Echo": one(self._echo),
            "Refuse": one(self._refuse),
            "Behind": one(self._behind),
            "Count": many(self._count),
        }
        handlers |= {"Wait": many(self._wait), "Break": many(self._break), "Flood": many(self._flood)}
        return handlers.get(details.method.removeprefix("/daggers.v1.TestService/"))

    async def _echo(self, request: bytes, context: Any) -> bytes:
        self._seen.metadata.append(dict(context.invocation_metadata()))
        return request

    async def _refuse(self, _: bytes, context: Any) -> bytes:
        info = error_details_pb2.ErrorInfo(reason="FORBIDDEN", metadata={"team": "pricing"})
        detail = any_pb2.Any()
        detail.Pack(info)
        status = status_pb2.Status(code=7, message="no", details=[detail])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        return b""

    async def _behind(self, request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("x-daggers-degraded", "Kafka does not answer"),))
        return request

    async def _count(self, request: bytes, _: Any) -> AsyncIterator[bytes]:
        for number in range(int(request)):
            yield str(number).encode()

    async def _flood(self, request: bytes, _: Any) -> AsyncIterator[bytes]:
        for _number in range(int(request)):
            self._seen.sent += 1
            yield bytes(FLOOD_BYTES)

    async def _break(self, _: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"one"
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much")

    async def _wait(self, _: bytes, __: Any) -> AsyncIterator[bytes]:
        yield b"first"
        try:
            await self._seen.go_on.wait()
        except asyncio.CancelledError:
            self._seen.cancelled.set()
            raise
        yield b"second"


Portal = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]
"""Starts a portal, as the fixture says; gives a client of it."""


def ticket(key: str) -> str:
    """Issue a ticket that lets a browser in once."""
    return tickets.issue_ticket(key, secrets.token_bytes(16), time.time())


async def come_in(client: httpx.AsyncClient, key: str) -> httpx.Response:
    """Open the address that is good once, and send with each call from then on what pages keep of it."""
    answer = await client.get("/auth/key", params={"key": ticket(key)})
    client.headers["x-daggers-call"] = answer.headers["location"].partition("#call=")[2]
    return answer
