"""Request tokens by OAuth 2.0 client credentials (RFC 6749, 4.4), and cache them until shortly before they
expire.

    TemporaryError              the token server gives none now: SINK_UNAVAILABLE
    JobError, to be waited out  SINK_DENIED, SINK_MISSING, SINK_REDIRECTS, SECRET_UNUSABLE; as for connections

A token that the sink rejects is dropped with its client: `ClientPool.run` opens another one, once. The secret
goes to `token_url` alone, and the token to the sink's server alone, by separate connections.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from daggers.v1 import spec_pb2

from runtime.clients.credentials import basic_header
from runtime.clients.http.connection import Connection, HttpAnswer, Request, Server
from runtime.clients.secrets import resolve
from runtime.errors import JobError, TemporaryError, external
from runtime.hiding import hide_token

DEFAULT_LIFETIME_S: Final = 300.0
"""Lifetime of a token whose server does not say when it expires."""
_EARLY_S: Final = 30.0
"""Time before its expiry at which a token is replaced; a tenth of its lifetime where that is less."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")
_LATER: Final = frozenset({408, 425, 429})
_ERRORS: Final = frozenset(
    {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client"}
    | {"unsupported_grant_type", "invalid_scope", "invalid_target"}
)
"""Error codes of RFC 6749 and 8707: the only words of an answer that are quoted."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and how long it is used."""

    value: str
    usable_s: float
    """Seconds from its request on."""


class Tokens:
    """Token source of one client. Raises: JobError for a missing secret or unusable certificates."""

    def __init__(self, config: spec_pb2.HttpAuth.OAuth2, egress: bytes | None) -> None:
        """Resolve the secret. egress: a serialised `Egress`; None: an administrator registered the URL."""
        self.name = f"The OAuth2 server at {config.token_url}"
        self._client = (config.token_url, config.client_id)
        self._request = Request("POST", config.token_url, _HEADERS, _form(config).encode())
        secret = resolve(config.client_secret, config.token_url)
        # RFC 6749, 2.3.1: both are form-encoded first
        self._basic_header = basic_header(quote_plus(config.client_id), quote_plus(secret))
        self._connection = Connection(
            Server(self.name, config.token_url, ca_file=config.ca_file, egress=egress)
        )
        self._turn = asyncio.Lock()
        self._token = Token("", 0.0)
        self._until = 0.0

    async def token(self) -> str:
        """Return a valid token, cached or new. Raises: the errors of the module's table."""
        async with self._turn:
            if time.monotonic() >= self._until:
                requested_at = time.monotonic()
                self._token = await self.request_token()
                self._until = requested_at + self._token.usable_s
            return self._token.value

    async def request_token(self) -> Token:
        """Request a new token. Raises: the errors of the module's table."""
        answer = await self._connection.send(self._request, self._basic_header)
        if answer.status != 200:
            raise _error_of(self.name, answer)
        values = _json_object(answer)
        value, kind = values.get("access_token"), values.get("token_type", "bearer")
        if not isinstance(value, str) or str(kind).lower() != "bearer":
            raise external("SINK_DENIED", f"{self.name} answers 200 without a bearer token.", retryable=True)
        hide_token(value, *self._client)
        if not _TOKEN.fullmatch(value):
            detail = f"{self.name} gives a token that no header can carry."
            raise external("SECRET_UNUSABLE", detail, retryable=True)
        return Token(value, usable_s(values.get("expires_in")))

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()


def usable_s(expires_in: object) -> float:
    """Return the seconds that a token is used for. expires_in: a number, or its text, by the server."""
    try:
        life = float(expires_in)  # type: ignore[arg-type] # whatever the server wrote
    except (TypeError, ValueError, OverflowError):
        return DEFAULT_LIFETIME_S
    return life - min(_EARLY_S, life / 10) if 0 <= life < float("inf") else 0.0


_HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


def _form(config: spec_pb2.HttpAuth.OAuth2) -> str:
    pairs = {
        "grant_type": "client_credentials",
        "scope": " ".join(config.scopes),
        "audience": config.audience,
    }
    return urlencode({name: value for name, value in pairs.items() if value})


def _error_of(name: str, answer: HttpAnswer) -> JobError:
    """Build the error of an answer without a token. It quotes nothing but the standard's error codes."""
    status = answer.status
    if status in _LATER or status >= 500:
        detail = f"{name} gives no token now (status {status})."
        return TemporaryError("SINK_UNAVAILABLE", detail, answer.retry_after)
    if status in (404, 405):
        detail = f"{name} answers {status}: there is nobody who gives tokens."
        return external("SINK_MISSING", detail, retryable=True)
    if status < 400:
        detail = f"{name} answers {status}, and gives no token: name where it leads to."
        return external("SINK_REDIRECTS", detail, retryable=True)
    error = _json_object(answer).get("error")
    word = f" ({error})" if isinstance(error, str) and error in _ERRORS else ""
    detail = f"{name} answers {status}{word}: check client_id, client_secret, scopes and audience."
    return external("SINK_DENIED", detail, retryable=True)


def _json_object(answer: HttpAnswer) -> dict[str, Any]:
    """Parse the JSON object of an answer; empty where it has none."""
    try:
        value = json.loads(answer.body) if answer.is_whole else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
