"""Serve HTTP on a socket: 1.1 in plain text by uvicorn; with a certificate HTTP/2, too, by hypercorn.

Neither bounds the time that a browser may take for its request, nor its connections: `chassis.connections`
does.

Browsers speak HTTP/2 only over TLS. Without it they open six connections per host, and each stream holds one;
with it, all streams share one connection.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, cast

import hypercorn
import uvicorn
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from starlette.types import ASGIApp, Receive, Scope, Send

from chassis.connections import FIRST_CALL_S, Connections, canonical_peer, guarding

_STREAMS: Final = 250
"""Open calls per browser; further calls of its tabs wait."""
_IDLE_S: Final = 120.0
_CLOSE_S: Final = 2.0
_REQUESTS: Final = 2**31
"""Requests after which a connection would end: so many that only idleness ends it, and no stream with it."""


@asynccontextmanager
async def answering(
    app: ASGIApp,
    listener: socket.socket,
    certificate: tuple[Path, Path] | None,
    per_address: int,
    drain_s: float,
) -> AsyncIterator[None]:
    """Serve on a socket while the block runs; calls may take `drain_s` more seconds at its end.

    certificate: files of the chain and its key; without it, plain text. per_address: connections that one
    address may have.
    """
    connections = Connections(per_address, idle_s=_IDLE_S)
    tracker = _ConnectionTracker(app, connections)
    if certificate is None:
        served = _plain(tracker, listener, drain_s)
    else:
        served = _secure(tracker, listener, certificate, drain_s)
    async with guarding(connections, listener.getsockname()[1]), served:
        yield


class _ConnectionTracker:
    """ASGI middleware that reports the beginning and the end of calls to the connections' guard."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        self._app, self._connections = app, connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["client"]:
            await self._app(scope, receive, send)
            return
        browser = canonical_peer(*scope["client"])
        self._connections.begin(browser)
        try:
            await self._app(scope, receive, send)
        finally:
            self._connections.end(browser, time.monotonic())


class _Uvicorn(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the service."""
        yield


@asynccontextmanager
async def _plain(app: ASGIApp, listener: socket.socket, drain_s: float) -> AsyncIterator[None]:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(drain_s)),
    )
    server = _Uvicorn(config)
    going = asyncio.create_task(server.serve([listener]))
    try:
        yield
    finally:
        server.should_exit = True
        await going


class _Connection(TCPServer):
    async def _read_data(self) -> None:
        await super()._read_data()
        # The browser is gone: hypercorn ends calls that wait for its messages, but not those that wait to
        # send.
        for buffer in getattr(self.protocol.protocol, "stream_buffers", {}).values():
            await buffer.close()


@asynccontextmanager
async def _secure(
    app: ASGIApp, listener: socket.socket, certificate: tuple[Path, Path], drain_s: float
) -> AsyncIterator[None]:
    config = hypercorn.Config()
    config.certfile, config.keyfile = (str(file) for file in certificate)
    config.errorlog = logging.getLogger("hypercorn.error")
    config.errorlog.setLevel(logging.WARNING)
    config.include_server_header = False
    config.keep_alive_timeout = _IDLE_S
    config.keep_alive_max_requests = _REQUESTS
    config.h2_max_concurrent_streams = _STREAMS
    served, context = ASGIWrapper(cast("Any", app)), WorkerContext(None)
    loop = asyncio.get_running_loop()
    browsers: dict[asyncio.Task[Any], asyncio.WriteTransport] = {}

    async def handle_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        browser = asyncio.current_task()
        assert browser is not None
        browsers[browser] = writer.transport
        browser.add_done_callback(browsers.pop)
        await _Connection(served, loop, config, context, ConnectionState({}), reader, writer)

    # not hypercorn's serve(): it waits half a minute for browsers that do not answer the end of TLS
    server = await asyncio.start_server(
        handle_connection,
        sock=listener,
        ssl=config.create_ssl_context(),
        ssl_handshake_timeout=FIRST_CALL_S,
        ssl_shutdown_timeout=_CLOSE_S,
    )
    try:
        yield
    finally:
        server.close()
        await context.terminated.set()
        if browsers:
            await asyncio.wait(browsers, timeout=drain_s)
        for browser, connection in list(browsers.items()):
            connection.abort()
            browser.cancel()
        await asyncio.gather(*browsers, return_exceptions=True)
