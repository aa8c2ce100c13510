"""Tokens by OAuth 2.0 client credentials (RFC 6749, 4.4), kept until shortly before they end.

    TemporaryError              nobody gives one now: SINK_UNAVAILABLE
    JobError, to be waited out  SINK_DENIED, SINK_MISSING, SINK_REDIRECTS, SECRET_UNUSABLE; as for connections

A token that is refused goes with the client that showed it: `sending` makes another one, once. The client's
secret is sent to `token_url`, and the token to the sink's server, by connections of their own.
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

from runtime.clients.credentials import basic
from runtime.clients.http.connection import Answer, Connection, Request, Server
from runtime.clients.secrets import resolve
from runtime.errors import JobError, TemporaryError, external
from runtime.hiding import hide_token

UNSAID_S: Final = 300.0
"""How long a token is kept whose server does not say when it ends."""
_EARLY_S: Final = 30.0
"""So long before it ends another one is asked for; a tenth of its life where that is less."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")
_LATER: Final = frozenset({408, 425, 429})
_ERRORS: Final = frozenset(
    {"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client"}
    | {"unsupported_grant_type", "invalid_scope", "invalid_target"}
)
"""Words of an answer that are quoted: those that RFC 6749 and 8707 have."""


@dataclass(frozen=True, slots=True)
class Token:
    """What a server gave."""

    value: str
    for_s: float
    """How long it is shown."""


class Tokens:
    """The tokens of one client. Raises: JobError for a secret, or certificates, that are not there."""

    def __init__(self, said: spec_pb2.HttpAuth.OAuth2, egress: bytes | None) -> None:
        """`egress` is a serialised `Egress`; None: an administrator vouches for the address."""
        self.name = f"The OAuth2 server at {said.token_url}"
        self._client = (said.token_url, said.client_id)
        self._request = Request("POST", said.token_url, _HEADERS, _form(said).encode())
        secret = resolve(said.client_secret, said.token_url)
        # As RFC 6749, 2.3.1 has it: both are encoded as in a form.
        self._shown = basic(quote_plus(said.client_id), quote_plus(secret))
        self._connection = Connection(Server(self.name, said.token_url, ca_file=said.ca_file, egress=egress))
        self._turn = asyncio.Lock()
        self._token = Token("", 0.0)
        self._until = 0.0

    async def token(self) -> str:
        """One that is good, kept or new. Raises: JobError, as above."""
        async with self._turn:
            if time.monotonic() >= self._until:
                asked_at = time.monotonic()
                self._token = await self.asked()
                self._until = asked_at + self._token.for_s
            return self._token.value

    async def asked(self) -> Token:
        """A new one. Raises: JobError, as above."""
        answer = await self._connection.send(self._request, self._shown)
        if answer.status != 200:
            raise _why(self.name, answer)
        said = _said(answer)
        value, kind = said.get("access_token"), said.get("token_type", "bearer")
        if not isinstance(value, str) or str(kind).lower() != "bearer":
            raise external("SINK_DENIED", f"{self.name} answers 200 without a bearer token.", retryable=True)
        hide_token(value, *self._client)
        if not _TOKEN.fullmatch(value):
            detail = f"{self.name} gives a token that no header can carry."
            raise external("SECRET_UNUSABLE", detail, retryable=True)
        return Token(value, good_for(said.get("expires_in")))

    async def close(self) -> None:
        """Close every connection."""
        await self._connection.close()


def good_for(expires_in: object) -> float:
    """Seconds that a token is shown for, of the `expires_in` that came with it: a number, or its text."""
    try:
        life = float(expires_in)  # type: ignore[arg-type] # whatever the server wrote
    except (TypeError, ValueError, OverflowError):
        return UNSAID_S
    return life - min(_EARLY_S, life / 10) if 0 <= life < float("inf") else 0.0


_HEADERS: Final = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


def _form(said: spec_pb2.HttpAuth.OAuth2) -> str:
    pairs = {"grant_type": "client_credentials", "scope": " ".join(said.scopes), "audience": said.audience}
    return urlencode({name: value for name, value in pairs.items() if value})


def _why(name: str, answer: Answer) -> JobError:
    """Why there is no token. Of the answer nothing is quoted but a word that the standard has."""
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
    error = _said(answer).get("error")
    word = f" ({error})" if isinstance(error, str) and error in _ERRORS else ""
    detail = f"{name} answers {status}{word}: check client_id, client_secret, scopes and audience."
    return external("SINK_DENIED", detail, retryable=True)


def _said(answer: Answer) -> dict[str, Any]:
    """The JSON object of an answer; empty where it has none."""
    try:
        said = json.loads(answer.body) if answer.is_whole else {}
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
