"""What stands around every answer: security headers, and who may ask at all."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; font-src 'self';"
    " img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'"
)
_ALWAYS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_YEAR_S: Final = 31_536_000


class Guarded:
    """Around an ASGI application: its answers have the headers, and `scope["nonce"]` is that of its styles.

    hosts: what browsers may call this portal, as their Host header says; another name is that of a page that
    makes its own name lead here.
    secure: whether it is reached by https only.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], secure: bool) -> None:
        self._app, self._hosts, self._secure = app, frozenset(hosts), secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = scope["nonce"] = secrets.token_urlsafe(16)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_ALWAYS)
                headers["content-security-policy"] = _POLICY.format(nonce=nonce)
                headers.setdefault("cache-control", "no-store")
                if self._secure:
                    headers["strict-transport-security"] = f"max-age={_YEAR_S}"
            await send(message)

        asked = Headers(scope=scope)
        app = self._app
        if asked.get("host", "").lower() not in self._hosts:
            app = PlainTextResponse("The portal has another name.", 421)
        elif scope["method"] not in ("GET", "HEAD") and _foreign(asked):
            app = PlainTextResponse("Another site has asked.", 403)
        await app(scope, receive, sent)


def _foreign(asked: Headers) -> bool:
    """Whether another site's page made a request. Cookies stay off then; this refuses it whatever it has."""
    site = asked.get("sec-fetch-site")
    if site is not None:
        return site != "same-origin"
    return urlsplit(asked.get("origin", "")).netloc.lower() != asked.get("host", "").lower()
