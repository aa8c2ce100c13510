"""The ASGI application: what is served where."""

from __future__ import annotations

from collections.abc import Collection

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from portal.bridge import Bridge
from portal.entry import Entry
from portal.headers import Guarded
from portal.pages import Pages

SERVICE = r"/api/daggers.v1.{service:str}/{method:str}"


def application(
    bridge: Bridge, entry: Entry, pages: Pages, *, hosts: Collection[str], secure: bool
) -> ASGIApp:
    """All of it. hosts: the names that browsers may call it by, host:port; secure: whether by https only."""

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok")

    app = Starlette(
        routes=[
            Route(SERVICE, bridge, methods=["POST"]),
            *entry.routes(),
            Route("/healthz", alive),
            Route("/assets/{name:str}", pages.asset),
            Route("/{path:path}", pages.index),
        ]
    )
    return Guarded(app, hosts, secure)
