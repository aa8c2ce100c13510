"""Login and sessions: /auth/login, callback, key, logout, me; and the caller of each call to the gateway.

There are three methods: a provider; a key, for the portal of one machine that holds a token of its gateway;
or none, on loopback.

The key itself is in no URL: its owner makes tickets of it (`chassis.tickets`), each valid once. Browsers send
a cookie to every port of a machine, so with a key a session has a second secret, which pages store for their
origin alone and send with each call: a cookie without it is worthless.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from chassis import tickets
from chassis.logging import logger
from portal.bridge import Caller, Metadata, NotLoggedIn
from portal.metrics import Counter, count_nothing
from portal.provider import LoginProvider, LoginRefused, ProviderAway
from portal.refusal_page import build_refusal
from portal.sessions import LOGIN_S, Session, Sessions, Tokens

MARGIN_S: Final = 60.0
"""Tokens are renewed this long before they end, in seconds."""
_TARGET: Final = 2_000
"""Longest path that a login may lead to, in characters."""
_LOG_IN: Final = "Log in first."
_SHOW_KEY: Final = (
    "Open the address that the local stack says when it has come up, or in its status: it is good once."
)
CALL: Final = "x-daggers-call"
"""The header with the second secret."""


@dataclass(frozen=True, slots=True)
class LoginMethod:
    """Method of login. provider: None where nobody logs in. key, token: None where there is none."""

    provider: LoginProvider | None = None
    key: str | None = field(default=None, repr=False)
    token: Callable[[], str] | None = field(default=None, repr=False)
    """Returns the token that authenticates all callers where there is no provider; called for each call."""
    cookie: str = "daggers"
    secure: bool = False
    """True where browsers reach the portal only by https."""

    @property
    def required(self) -> str:
        """Name of what users must present: provider, key or none."""
        if self.provider is not None:
            return "provider"
        return "key" if self.key is not None else "none"


@dataclass(frozen=True, slots=True)
class Links:
    """Links of pages to other sites; None: no link."""

    notebook: str | None = None
    """URL of a notebook on a table, with {path} and {table}."""
    grafana: str | None = None
    """Base URL of a Grafana that has our dashboards and data source."""


class LoginRoutes(Caller):
    """Handles the routes below /auth, and identifies callers."""

    def __init__(
        self,
        login_method: LoginMethod,
        sessions: Sessions,
        clock: Callable[[], float],
        version: str,
        count: Counter = count_nothing,
        links: Links = Links(),
    ) -> None:
        self._login_method, self._sessions, self._clock, self._version = (
            login_method,
            sessions,
            clock,
            version,
        )
        self._links = links
        self._count = count
        self._renewals: dict[bytes, asyncio.Lock] = {}

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/auth/login", self.login),
            Route("/auth/callback", self.callback),
            Route("/auth/key", self.key),
            Route("/auth/logout", self.logout, methods=["POST"]),
            Route("/auth/me", self.me),
        ]

    # ---- as whom the gateway is called ---------------------------------------------------------------------

    async def metadata(self, request: Request) -> Metadata:
        """Return the metadata that the gateway authenticates. Raises: NotLoggedIn."""
        if self._login_method.required != "none":
            session = self._session(request)
            if session is None:
                raise NotLoggedIn(_SHOW_KEY if self._login_method.required == "key" else _LOG_IN)
            request.state.session = session.hash
            if session.tokens is not None:
                return _bearer((await self._renew_tokens(session, session.tokens)).id_token)
        return () if self._login_method.token is None else _bearer(self._login_method.token())

    def still(self, request: Request) -> bool:
        """Return whether the session of a request continues."""
        hash_ = getattr(request.state, "session", None)
        return hash_ is None or self._sessions.get(hash_) is not None

    async def _renew_tokens(self, session: Session, tokens: Tokens) -> Tokens:
        """Return tokens that stay valid for MARGIN_S, renewed where necessary. Raises: NotLoggedIn."""
        provider = self._login_method.provider
        if provider is None or self._clock() < tokens.ends - MARGIN_S:
            return tokens
        # a refresh token may be valid only once: of several calls, one renews
        lock = self._renewals.setdefault(session.hash, asyncio.Lock())
        try:
            async with lock:
                newest = self._sessions.get(session.hash)
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
        secret = request.cookies.get(self._login_method.cookie)
        if not secret:
            return None
        if self._login_method.provider is None and self._login_method.key is not None:
            second_secret = request.headers.get(CALL, "")
            if not secrets.compare_digest(
                second_secret.encode(), _second(self._login_method.key, secret).encode()
            ):
                return None
        return self._sessions.find(secret)

    # ---- routes --------------------------------------------------------------------------------------------

    async def me(self, request: Request) -> Response:
        """Return the user and what a page must know: {"name", "asked", "version"}, and the links.

        name is null where nobody is logged in, a link where it is not set.
        """
        session = self._session(request) if self._login_method.required != "none" else None
        name = "anonymous" if self._login_method.required == "none" else session.name if session else None
        body = {
            "name": name,
            "asked": self._login_method.required,
            "version": self._version,
            **asdict(self._links),
        }
        return JSONResponse(body, headers={"cache-control": "no-store"})

    async def login(self, request: Request) -> Response:
        """Redirect the browser to the provider. `to` is the path it returns to in the end."""
        target = _inside(request.query_params.get("to", "/"))
        provider = self._login_method.provider
        if provider is None:
            if self._login_method.required == "none" or self._session(request) is not None:
                return RedirectResponse(target, 303)
            return build_refusal(request, _SHOW_KEY, 401, target)
        try:
            url, state, login = await provider.begin(target)
        except ProviderAway as why:
            return self._away(request, why, target)
        self._sessions.start_login(state, login)
        answer = RedirectResponse(url, 303)
        self._set(answer, self._of_login(state), state, round(LOGIN_S))
        return answer

    async def callback(self, request: Request) -> Response:
        """Verify the provider's response that the browser brings, and begin a session."""
        query, provider = request.query_params, self._login_method.provider
        state = query.get("state", "")
        cookie = request.cookies.get(self._of_login(state), "")
        login = self._sessions.take_login(state) if secrets.compare_digest(cookie, state) and state else None
        if provider is None or login is None:
            return build_refusal(request, "This login was not begun here, or took too long.", 400)
        if "code" not in query:
            self._log_refusal(query.get("error", "no code")[:100])
            return build_refusal(request, "The provider has not let you in.", 403, login.target)
        try:
            name, tokens = await provider.finish(query["code"], login)
        except LoginRefused as why:
            self._log_refusal(str(why))
            return build_refusal(request, f"You are not logged in: {why}.", 403, login.target)
        except ProviderAway as why:
            return self._away(request, why, login.target)
        answer = self._begin_session(request, name, tokens, login.target)
        answer.delete_cookie(self._of_login(state), path="/", secure=self._login_method.secure, httponly=True)
        return answer

    async def key(self, request: Request) -> Response:
        """Begin a session for a ticket of the key that was not used before."""
        key, now = self._login_method.key, self._clock()
        nonce = None if key is None else tickets.nonce_of(key, request.query_params.get("key", ""), now)
        if key is None or nonce is None:
            self._log_refusal("no ticket of the key, or one that has ended")
            return build_refusal(request, _SHOW_KEY, 403)
        if not self._sessions.use_ticket(nonce, now + tickets.LIFE_S):
            self._log_refusal("a ticket that was used")
            return build_refusal(request, f"This address was used. {_SHOW_KEY}", 403)
        return self._begin_session(request, "administrator", None, "/")

    async def logout(self, request: Request) -> Response:
        """End the session. Responds with 204, since scripts could not follow a redirect to the provider."""
        session = self._session(request)
        if session is not None:
            self._sessions.end(session.hash)
            logger().info("login.ended", name=session.name)
            if session.tokens is not None and self._login_method.provider is not None:
                try:
                    await self._login_method.provider.revoke(session.tokens)
                except ProviderAway as why:
                    logger().warning("token.revocation_failed", why=str(why))
        answer = Response(status_code=204)
        answer.delete_cookie(
            self._login_method.cookie, path="/", secure=self._login_method.secure, httponly=True
        )
        return answer

    def _log_refusal(self, why: str) -> None:
        logger().warning("login.refused", why=why)
        self._count("refused")

    def _away(self, request: Request, why: ProviderAway, target: str) -> Response:
        self._count("away")
        return build_refusal(request, f"The login does not work now: {why}.", 503, target)

    def _begin_session(self, request: Request, name: str, tokens: Tokens | None, target: str) -> Response:
        """Begin a new session, and end the browser's former one: no session is handed to another user."""
        cookie = request.cookies.get(self._login_method.cookie)
        before = self._sessions.find(cookie) if cookie else None
        if before is not None:
            self._sessions.end(before.hash)
        secret = self._sessions.begin(name, tokens)
        logger().info("login.accepted", name=name)
        self._count("entered")
        key = self._login_method.key if self._login_method.provider is None else None
        # a browser sends the part behind # to no server
        answer = RedirectResponse(target if key is None else f"{target}#call={_second(key, secret)}", 303)
        self._set(answer, self._login_method.cookie, secret, None)
        return answer

    def _set(self, answer: Response, name: str, value: str, max_age: int | None) -> None:
        secure = self._login_method.secure
        answer.set_cookie(
            name, value, max_age=max_age, path="/", secure=secure, httponly=True, samesite="lax"
        )
        answer.headers["cache-control"] = "no-store"

    def _of_login(self, state: str) -> str:
        # one cookie per login, since several tabs may log in; only characters that a name of a cookie may
        # have
        part = "".join(letter for letter in state[:8] if letter.isascii() and letter.isalnum())
        return f"{self._login_method.cookie}-login-{part}"


def _second(key: str, secret: str) -> str:
    """Derive the second secret of the session whose cookie holds `secret`, from the key."""
    return tickets.mac(key, f"call {secret}")


def _bearer(token: str) -> Metadata:
    return (("authorization", f"Bearer {token}"),)


def _inside(target: str) -> str:
    """Return a path of this portal; the first page for any other target, as another site."""
    inside = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if inside and len(target) <= _TARGET else "/"
