"""HTTP for callbacks: a port of its own, whose requests have bounds of size, time and number.

    POST /callbacks/slack           the request URL of an app's interactivity
    POST /callbacks/pagerduty/TEAM  the URL of a webhook subscription

It has no TLS: a proxy stands before it. Refusals are paced, as those of a gateway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from aiohttp import web

from chassis.binding import host_and_port
from chassis.connections import Connections, Peer, canonical_peer, guarding, network
from chassis.endpoint import CannotBind
from chassis.logging import logger
from health_monitor import callbacks
from health_monitor.callbacks import CallbackRequest
from health_monitor.listen.acknowledgements import Acknowledgements, CallbackAnswer
from health_monitor.receivers import make_printable

MOST_BYTES: Final = 64 * 1024
"""Of a body: PagerDuty's have 55 KB at most but for rare ones, Slack's a few."""
_BODY_S: Final = 5.0
_MOST_CONNECTIONS: Final = 200
"""Of one address as of all: proxies stand before it."""
_IDLE_S: Final = 30.0
_DRAIN: Final = timedelta(seconds=5)
_LONGEST_PATH: Final = 100

Count = Callable[[str, str], None]
"""Counts an answer, by kind and result."""


@asynccontextmanager
async def serving(
    bind: str, acknowledgements: Acknowledgements, count: Count, *, body_s: float = _BODY_S
) -> AsyncIterator[int]:
    """Listen at host:port while the block runs; yield the port. Nowhere when `bind` is empty.

    body_s: seconds that the body of a request may take.
    Raises: CannotBind.
    """
    if not bind:
        yield 0
        return
    connections = Connections(_MOST_CONNECTIONS, most=_MOST_CONNECTIONS, idle_s=_IDLE_S)
    application = web.Application(client_max_size=MOST_BYTES)
    handler = _Handler(acknowledgements, connections, count, body_s)
    application.router.add_route("*", "/{path:.*}", handler.handle)
    # A body is read as it came: it is signed so, and a compressed one may expand a thousandfold.
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1, auto_decompress=False)
    await runner.setup()
    host, port = host_and_port(bind)
    try:
        try:
            await web.TCPSite(runner, host.strip("[]"), port).start()
        except OSError as error:
            raise CannotBind(f"cannot take callbacks on {bind}: {error.strerror or error}") from error
        port = runner.addresses[0][1]
        logger().info("callbacks.awaited", port=port)
        async with guarding(connections, port):
            yield port
    finally:
        await runner.cleanup()
        await acknowledgements.drain(_DRAIN)


class _Handler:
    def __init__(
        self, acknowledgements: Acknowledgements, connections: Connections, count: Count, body_s: float
    ) -> None:
        self._acknowledgements, self._connections = acknowledgements, connections
        self._count, self._body_s = count, body_s

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a request; one that is refused waits where there are many of its network."""
        peer = _find_peer(request)
        self._connections.begin(peer)
        try:
            kind, answer = await self._answer(request)
            if answer.is_refusal:
                await asyncio.sleep(self._connections.delay_s(peer, time.monotonic()))
                path = make_printable(request.path)[:_LONGEST_PATH]
                logger().warning("callback.refused", path=path, network=network(peer[0]), why=answer.detail)
            else:
                self._connections.trust(peer)
            self._count(kind, answer.result)
        finally:
            self._connections.end(peer, time.monotonic())
        headers = {"retry-after": "5"} if answer.status == 503 else {}
        document = {"result": answer.result, "detail": answer.detail}
        return web.json_response(document, status=answer.status, headers=headers)

    async def _answer(self, request: web.Request) -> tuple[str, CallbackAnswer]:
        """Return the kind that the path names, and the answer."""
        parts = request.path.strip("/").split("/")
        if parts[0] != "callbacks" or len(parts) not in (2, 3) or parts[1] not in callbacks.names():
            return "none", CallbackAnswer(404, "refused", "there is nothing at this path")
        if request.method != "POST":
            return parts[1], CallbackAnswer(405, "refused", "callbacks come by POST")
        if request.headers.get("content-encoding"):
            return parts[1], CallbackAnswer(415, "refused", "its body is compressed")
        try:
            async with asyncio.timeout(self._body_s):
                body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return parts[1], CallbackAnswer(
                413, "refused", f"its body has more than {MOST_BYTES // 1024} KiB"
            )
        except TimeoutError:
            return parts[1], CallbackAnswer(408, "refused", "its body took too long")
        headers = {name.lower(): value for name, value in request.headers.items()}
        team = parts[2] if len(parts) == 3 else ""
        return parts[1], await self._acknowledgements.take(parts[1], CallbackRequest(team, headers, body))


def _find_peer(request: web.Request) -> Peer:
    address = request.transport.get_extra_info("peername") if request.transport else None
    return canonical_peer(*address[:2]) if address else ("", 0)
