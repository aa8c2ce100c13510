"""A web server that takes so many requests at once, and answers one more with 429."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from sinkloops.webserver import running

SLOTS: Final = 15
ANSWER_S: Final = 0.1


@asynccontextmanager
async def serve() -> AsyncIterator[str]:
    """Its URL. GET /counts answers how many requests were taken and how many refused since the last one."""
    under_way, counts = 0, [0, 0]

    async def answered(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal under_way, counts
        if request.path == "/counts":
            told, counts = counts, [0, 0]
            return web.Response(text=json.dumps(told))
        await request.read()
        if request.method != "POST":
            return web.Response()
        if under_way >= SLOTS:
            counts[1] += 1
            return web.Response(status=429)
        under_way += 1
        try:
            await asyncio.sleep(ANSWER_S)
        finally:
            under_way -= 1
        counts[0] += 1
        return web.Response()

    async with running(answered) as url:
        yield url
