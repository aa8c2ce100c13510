"""The ASGI application: its routes."""

from __future__ import annotations

from collections.abc import Collection

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from portal.bridge import Bridge
from portal.entry import LoginRoutes
from portal.headers import RequestGuard
from portal.pages import Pages

SERVICE = r"/api/daggers.v1.{service:str}/{method:str}"


def application(
    bridge: Bridge, entry: LoginRoutes, pages: Pages, *, hosts: Collection[str], secure: bool
) -> ASGIApp:
    """Build the application. hosts: names by which browsers may call it, host:port. secure: only by https."""

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
    return RequestGuard(app, hosts, secure)
