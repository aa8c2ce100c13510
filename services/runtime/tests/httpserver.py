"""A real HTTP server of a test, which keeps what it gets and answers as it is told."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from daggers.v1 import spec_pb2

from runtime.clients import sending


@dataclass(frozen=True)
class Received:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """What is answered."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    promised: int = 0
    """More bytes than come, before the connection ends."""


Answering = Callable[[Received], Reply]


class Server:
    """What was asked, and what is answered from now on."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answer: Answering = lambda _: Reply()
        self.questions = Reply()
        """The answer to HEAD, which is kept apart."""
        self.most_at_once = 0
        self.url = ""
        self.now = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.now += 1
        self.most_at_once = max(self.most_at_once, self.now)
        try:
            body = await request.content.read()
            got = Received(
                request.method, request.rel_url.raw_path, dict(request.query), request.headers.copy(), body
            )
            if request.method == "HEAD":
                reply = self.questions
            else:
                reply = self.answer(got)
                self.received.append(got)
            await asyncio.sleep(reply.after_s)
            if reply.promised:
                return await self._cut_off(request, reply)
            return web.Response(status=reply.status, body=reply.body, headers=reply.headers)
        finally:
            self.now -= 1

    async def _cut_off(self, request: web.BaseRequest, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        response.content_length = reply.promised
        await response.prepare(request)
        await response.write(reply.body)
        if request.transport is not None:
            request.transport.abort()
        return response


@contextmanager
def serving(port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server on loopback, while the block runs; by TLS, where its certificate is given."""
    loop, made = asyncio.new_event_loop(), Server()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> tuple[web.ServerRunner, web.Server]:
        server = web.Server(made.handle)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        return runner, server

    runner, server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    made.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(_end(runner, server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _end(runner: web.ServerRunner, server: web.Server) -> None:
    """With all that is under way, connections that came in the last moment too, and their transports."""
    for connection in server.connections:
        transport = connection.transport
        if transport is not None and transport.get_extra_info("sslcontext") is not None:
            transport.abort()  # it would wait for the client's goodbye
    await runner.cleanup()
    for _ in range(2):
        for _ in range(5):  # what is accepted or closed ends in the next rounds of the loop
            await asyncio.sleep(0)
        await server.shutdown(0.1)
    for _ in range(5):
        await asyncio.sleep(0)


def at(sink: spec_pb2.ResolvedSink, port: int) -> spec_pb2.ResolvedSink:
    """A sink with a `url`, behind another port of this machine."""
    moved = spec_pb2.ResolvedSink()
    moved.CopyFrom(sink)
    getattr(moved.sink, moved.sink.WhichOneof("kind") or "").url = f"http://127.0.0.1:{port}"
    return moved


@contextmanager
def silence(sink: spec_pb2.ResolvedSink, monkeypatch: pytest.MonkeyPatch) -> Iterator[spec_pb2.ResolvedSink]:
    """A sink with a `url` where nobody listens, given up soon."""
    with monkeypatch.context() as soon:
        soon.setattr(sending, "PATIENCE_S", 0.2)
        yield at(sink, 1)
