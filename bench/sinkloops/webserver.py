"""A web server that takes whatever it is sent, and the loop that sends requests to one."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from sinkloops import AT_ONCE

# What servers say of requests that were taken whole.
_SAID = {
    "/": b'{"version":{"number":"2.19.4","distribution":"opensearch"}}',
    "/_bulk": b'{"errors":false}',
    "/import": b'{"code":200,"num_records_imported":1,"status":"OK"}',
    "/1/upload": b'{"status":"success","processed":1,"unprocessed":[]}',
}


@asynccontextmanager
async def serve() -> AsyncIterator[str]:
    """Its URL. GET /sum answers a checksum of all bodies since the last one, in whatever order they came."""
    total = 0

    async def taken(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal total
        if request.path == "/sum":
            told, total = total, 0
            return web.Response(text=str(told))
        body = await request.read()
        total += zlib.crc32(body)
        if request.path.endswith("/api/v2/write"):
            return web.Response(status=204)
        return web.Response(body=_SAID.get(request.path, b"{}"), content_type="application/json")

    async with running(taken) as url:
        yield url


@asynccontextmanager
async def running(answered: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """The URL of a server that answers so."""
    runner = web.ServerRunner(web.Server(answered))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@dataclass(frozen=True)
class Request:
    """One request."""

    url: str
    body: bytes
    headers: dict[str, str]
    method: str = "POST"


def send(requests: Iterable[Request], at_once: int = AT_ONCE, **session: Any) -> None:
    """Send them, so many at once."""
    asyncio.run(_sent(deque(requests), at_once, session))


async def _sent(left: deque[Request], at_once: int, session: dict[str, Any]) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), **session) as client:

        async def lane() -> None:
            while left:
                each = left.popleft()
                async with client.request(
                    each.method, each.url, data=each.body, headers=each.headers
                ) as answer:
                    answer.raise_for_status()
                    await answer.read()

        await asyncio.gather(*(lane() for _ in range(at_once)))
