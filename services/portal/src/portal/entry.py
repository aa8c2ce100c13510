"""Who may come in, and how: /auth/login, callback, key, logout, me; and as whom the gateway is called.

Three ways: by a provider; by a key, for the portal of one machine that holds a token of its gateway; or
nobody is asked, on loopback.

The key itself stands in no URL: who has it makes tickets of it (`chassis.tickets`), each good once. Browsers
send a cookie to every port of a machine, so by a key a session has a second secret, which pages keep for
their origin alone and send with each call: a cookie without it is nobody's.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from chassis import tickets
from chassis.logging import logger
from portal.bridge import Caller, Metadata, NotLoggedIn
from portal.metrics import Counted, not_counted
from portal.provider import LoginRefused, Provider, ProviderAway
from portal.sessions import LOGIN_S, Session, Sessions, Tokens

MARGIN_S: Final = 60.0
"""Tokens are renewed this long before they end, in seconds."""
_TARGET: Final = 2_000
"""So long is an address at most that a login leads to, in characters."""
_LOG_IN: Final = "Log in first."
_SHOW_KEY: Final = (
    "Open the address that the local stack says when it has come up, or in its status: it is good once."
)
CALL: Final = "x-daggers-call"
"""The header with the second secret."""
_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Daggers</title>"
    "<h1>Daggers</h1><p>{text}</p><p><a href='{link}'>{again}</a></p></html>"
)


@dataclass(frozen=True, slots=True)
class Ways:
    """How people come in. provider: None where nobody logs in; key, token: None where there is none."""

    provider: Provider | None = None
    key: str | None = field(default=None, repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    """What the gateway is shown for everybody where no provider is; asked at each call."""
    cookie: str = "daggers"
    secure: bool = False
    """Whether browsers reach the portal by https only."""

    @property
    def asked(self) -> str:
        """What somebody has to show: provider, key or none."""
        if self.provider is not None:
            return "provider"
        return "key" if self.key is not None else "none"


@dataclass(frozen=True, slots=True)
class Links:
    """Where pages lead beside themselves. None: nowhere."""

    notebook: str | None = None
    """Where a notebook on a table is opened, with {path} and {table}."""
    grafana: str | None = None
    """Base URL of a Grafana that has our dashboards and data source."""


class Entry(Caller):
    """The routes below /auth, and who makes a call."""

    def __init__(
        self,
        ways: Ways,
        sessions: Sessions,
        clock: Callable[[], float],
        version: str,
        counted: Counted = not_counted,
        links: Links = Links(),
    ) -> None:
        self._ways, self._sessions, self._clock, self._version = ways, sessions, clock, version
        self._links = links
        self._counted = counted
        self._renewals: dict[bytes, asyncio.Lock] = {}

    def routes(self) -> list[Route]:
        """What is served."""
        return [
            Route("/auth/login", self.login),
            Route("/auth/callback", self.callback),
            Route("/auth/key", self.key),
            Route("/auth/logout", self.logout, methods=["POST"]),
            Route("/auth/me", self.me),
        ]

    # ---- as whom the gateway is called ---------------------------------------------------------------------

    async def metadata(self, request: Request) -> Metadata:
        """What the gateway is shown. Raises: NotLoggedIn."""
        if self._ways.asked != "none":
            session = self._session(request)
            if session is None:
                raise NotLoggedIn(_SHOW_KEY if self._ways.asked == "key" else _LOG_IN)
            request.state.session = session.hash
            if session.tokens is not None:
                return _bearer((await self._good(session, session.tokens)).id_token)
        return () if self._ways.token is None else _bearer(self._ways.token())

    def still(self, request: Request) -> bool:
        """Whether the session of a request goes on."""
        hashed = getattr(request.state, "session", None)
        return hashed is None or self._sessions.known(hashed) is not None

    async def _good(self, session: Session, tokens: Tokens) -> Tokens:
        """Tokens that are good a while longer. Raises: NotLoggedIn."""
        provider = self._ways.provider
        if provider is None or self._clock() < tokens.ends - MARGIN_S:
            return tokens
        # A refresh token may be good once: of several calls, one renews.
        lock = self._renewals.setdefault(session.hash, asyncio.Lock())
        try:
            async with lock:
                newest = self._sessions.known(session.hash)
                if newest is None or newest.tokens is None:
                    raise NotLoggedIn(_LOG_IN)
                if self._clock() < newest.tokens.ends - MARGIN_S:
                    return newest.tokens
                try:
                    renewed = await provider.renew(newest.tokens)
                except (LoginRefused, ProviderAway) as why:
                    if self._clock() < newest.tokens.ends:
                        return newest.tokens
                    logger().warning("session.ended", name=session.name, why=str(why))
                    if isinstance(why, LoginRefused):
                        self._sessions.end(session.hash)
                    raise NotLoggedIn(f"The login has ended: {why}.") from why
                self._sessions.renew(session, renewed)
                return renewed
        finally:
            if not lock.locked():
                self._renewals.pop(session.hash, None)

    def _session(self, request: Request) -> Session | None:
        secret = request.cookies.get(self._ways.cookie)
        if not secret:
            return None
        if self._ways.provider is None and self._ways.key is not None:
            shown = request.headers.get(CALL, "")
            if not secrets.compare_digest(shown.encode(), _second(self._ways.key, secret).encode()):
                return None
        return self._sessions.find(secret)

    # ---- routes --------------------------------------------------------------------------------------------

    async def me(self, request: Request) -> Response:
        """Who is logged in, and what the page must know: {"name", "asked", "version"}, and
        the links.

        name is null where nobody is, a link where no setting has one.
        """
        session = self._session(request) if self._ways.asked != "none" else None
        name = "anonymous" if self._ways.asked == "none" else session.name if session else None
        told = {
            "name": name,
            "asked": self._ways.asked,
            "version": self._version,
            **asdict(self._links),
        }
        return JSONResponse(told, headers={"cache-control": "no-store"})

    async def login(self, request: Request) -> Response:
        """Send the browser to the provider. `to` is where it comes back to in the end."""
        target = _inside(request.query_params.get("to", "/"))
        provider = self._ways.provider
        if provider is None:
            if self._ways.asked == "none" or self._session(request) is not None:
                return RedirectResponse(target, 303)
            return _said(_SHOW_KEY, 401, target)
        try:
            url, state, login = await provider.begin(target)
        except ProviderAway as why:
            return self._away(why, target)
        self._sessions.start_login(state, login)
        answer = RedirectResponse(url, 303)
        self._set(answer, self._of_login(state), state, round(LOGIN_S))
        return answer

    async def callback(self, request: Request) -> Response:
        """Take what the browser brings from the provider, and begin a session."""
        said, provider = request.query_params, self._ways.provider
        state = said.get("state", "")
        shown = request.cookies.get(self._of_login(state), "")
        login = self._sessions.take_login(state) if secrets.compare_digest(shown, state) and state else None
        if provider is None or login is None:
            return _said("This login was not begun here, or took too long.", 400)
        if "code" not in said:
            self._refused(said.get("error", "no code")[:100])
            return _said("The provider has not let you in.", 403, login.target)
        try:
            name, tokens = await provider.finish(said["code"], login)
        except LoginRefused as why:
            self._refused(str(why))
            return _said(f"You are not logged in: {why}.", 403, login.target)
        except ProviderAway as why:
            return self._away(why, login.target)
        answer = self._entered(request, name, tokens, login.target)
        answer.delete_cookie(self._of_login(state), path="/", secure=self._ways.secure, httponly=True)
        return answer

    async def key(self, request: Request) -> Response:
        """Let in who shows a ticket of the key that nobody has shown before."""
        key, now = self._ways.key, self._clock()
        nonce = None if key is None else tickets.nonce_of(key, request.query_params.get("key", ""), now)
        if key is None or nonce is None:
            self._refused("no ticket of the key, or one that has ended")
            return _said(_SHOW_KEY, 403)
        if not self._sessions.use_ticket(nonce, now + tickets.LIFE_S):
            self._refused("a ticket that was used")
            return _said(f"This address was used. {_SHOW_KEY}", 403)
        return self._entered(request, "administrator", None, "/")

    async def logout(self, request: Request) -> Response:
        """End the session: 204, and no way to the provider, which scripts could not follow."""
        session = self._session(request)
        if session is not None:
            self._sessions.end(session.hash)
            logger().info("login.ended", name=session.name)
            if session.tokens is not None and self._ways.provider is not None:
                try:
                    await self._ways.provider.revoke(session.tokens)
                except ProviderAway as why:
                    logger().warning("token.revocation_failed", why=str(why))
        answer = Response(status_code=204)
        answer.delete_cookie(self._ways.cookie, path="/", secure=self._ways.secure, httponly=True)
        return answer

    def _refused(self, why: str) -> None:
        logger().warning("login.refused", why=why)
        self._counted("refused")

    def _away(self, why: ProviderAway, target: str) -> Response:
        self._counted("away")
        return _said(f"The login does not work now: {why}.", 503, target)

    def _entered(self, request: Request, name: str, tokens: Tokens | None, target: str) -> Response:
        """A new session, whatever the browser had: nobody's session is handed to somebody else."""
        cookie = request.cookies.get(self._ways.cookie)
        before = self._sessions.find(cookie) if cookie else None
        if before is not None:
            self._sessions.end(before.hash)
        secret = self._sessions.begin(name, tokens)
        logger().info("login.accepted", name=name)
        self._counted("entered")
        key = self._ways.key if self._ways.provider is None else None
        # What stands behind # the browser keeps to itself: no server is sent it.
        answer = RedirectResponse(target if key is None else f"{target}#call={_second(key, secret)}", 303)
        self._set(answer, self._ways.cookie, secret, None)
        return answer

    def _set(self, answer: Response, name: str, value: str, max_age: int | None) -> None:
        secure = self._ways.secure
        answer.set_cookie(
            name, value, max_age=max_age, path="/", secure=secure, httponly=True, samesite="lax"
        )
        answer.headers["cache-control"] = "no-store"

    def _of_login(self, state: str) -> str:
        # One for each login: several tabs may be at it. A made-up state gives no more than a name may have.
        part = "".join(letter for letter in state[:8] if letter.isascii() and letter.isalnum())
        return f"{self._ways.cookie}-login-{part}"


def _second(key: str, secret: str) -> str:
    """The second secret of the session whose cookie holds `secret`: who has that alone cannot make it."""
    return tickets.mac(key, f"call {secret}")


def _bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def _inside(target: str) -> str:
    """A path of this portal; the first page for anything else, another site above all."""
    inside = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if inside and len(target) <= _TARGET else "/"


def _said(text: str, status: int, target: str = "/") -> Response:
    link = f"/auth/login?to={quote(target, safe='')}"
    page = _PAGE.format(text=_escaped(text), link=link, again="Try again")
    return Response(page, status, media_type="text/html", headers={"cache-control": "no-store"})


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
