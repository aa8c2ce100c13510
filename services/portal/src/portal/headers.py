"""Security headers of all responses, and the check of a request's host and origin."""

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


class RequestGuard:
    """ASGI middleware that adds security headers, and sets `scope["nonce"]` for styles.

    hosts: names by which browsers may call this portal, compared with the Host header; a page that points its
    own name here is refused.
    secure: True where it is reached only by https.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], secure: bool) -> None:
        self._app, self._hosts, self._secure = app, frozenset(hosts), secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        nonce = scope["nonce"] = secrets.token_urlsafe(16)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                response_headers = MutableHeaders(scope=message)
                response_headers.update(_ALWAYS)
                response_headers["content-security-policy"] = _POLICY.format(nonce=nonce)
                response_headers.setdefault("cache-control", "no-store")
                if self._secure:
                    response_headers["strict-transport-security"] = f"max-age={_YEAR_S}"
            await send(message)

        headers = Headers(scope=scope)
        app = self._app
        if headers.get("host", "").lower() not in self._hosts:
            app = PlainTextResponse("The portal has another name.", 421)
        elif scope["method"] not in ("GET", "HEAD") and _foreign(headers):
            app = PlainTextResponse("Another site has asked.", 403)
        await app(scope, receive, send_with_headers)


def _foreign(headers: Headers) -> bool:
    """Return whether a page of another site made a request. Browsers withhold cookies then; this refuses it
    anyway.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site != "same-origin"
    return urlsplit(headers.get("origin", "")).netloc.lower() != headers.get("host", "").lower()
