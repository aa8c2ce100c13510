"""Verify ID tokens of an OpenID Connect provider, and store none of them.

The provider's keys are read where its discovery document says, cached, and read again when they are old, or
when a token names an unknown key; at most once in `_PAUSE_S`, whatever tokens arrive. While the provider is
unreachable the cached keys stay valid.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import jwt
from jwt import PyJWK

from access import Principal
from access.principal import GROUP, USER
from chassis.egress.addresses import PORTS, AddressRefused, EgressRules
from chassis.egress.proxies import Proxies
from chassis.egress.transport import CheckedTransport
from chassis.logging import logger

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
"""Algorithms whose signing key only the provider has: nothing symmetric, and never none."""
LEEWAY: Final = timedelta(seconds=60)
_LONGEST: Final = 16 * 1024
_KEEP_S: Final = 600.0
_PAUSE_S: Final = 30.0
_PATIENCE_S: Final = 5.0
_MAX_DOCUMENT: Final = 1024 * 1024
_NAME: Final = re.compile(r"[\x21-\x7e]{1,200}")

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Reads a JSON document. Raises: OSError, ValueError."""


class TokenRejected(Exception):  # noqa: N818 - reads as what happened
    """The token proves nothing; the message is one clause for the gateway's log, without the token."""


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """The provider whose tokens are accepted, and the claims that are read."""

    issuer: str
    """Issuer as tokens name it; `/.well-known/openid-configuration` lies below it."""
    audience: str
    """Audience of accepted tokens: the client id of this platform, by which its command logs people in."""
    name_claim: str = "sub"
    """The claim that names a person. `email` counts only where the provider has verified it."""
    groups_claim: str = "groups"
    """The claim that lists the groups of a person."""
    scope: str = ""
    """Scopes that clients request at a login, separated by spaces; empty: the client's own choice."""
    others: tuple[str, ...] = ()
    """Further client ids of this platform, such as that of its pages."""

    @property
    def login(self) -> Mapping[str, str]:
        """Return what a client must know to get a token, as metadata of an error."""
        metadata = {"oidc_issuer": self.issuer, "oidc_client_id": self.audience, "oidc_scope": self.scope}
        return {name: value for name, value in metadata.items() if value}


class Verifier:
    """Verifies ID tokens of a provider."""

    def __init__(
        self,
        provider: OidcProvider,
        fetch: Fetch,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Remember the provider. `fetch` reads its documents; `clock`: now, UTC."""
        self.provider, self._clock = provider, clock
        self._keys = Keys(provider.issuer, fetch, lambda: clock().timestamp())

    async def principal(self, token: str) -> Principal:
        """Return the person whose token it is. Raises: TokenRejected."""
        if len(token) > _LONGEST:
            raise TokenRejected(f"it has more than {_LONGEST} characters")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError as error:
            raise TokenRejected("it is no token of a provider") from error
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRejected("its algorithm is not one that is taken")
        key = await self._keys.key(kid if isinstance(kid, str) else "")
        if key is None or key.algorithm_name != algorithm:
            raise TokenRejected("the provider has no such key")
        return self._build_principal(self._claims(token, key))

    def _claims(self, token: str, key: PyJWK) -> Mapping[str, Any]:
        try:
            # times are checked below, by the clock that was passed in
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=(self.provider.audience, *self.provider.others),
                issuer=self.provider.issuer,
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except (jwt.InvalidTokenError, ValueError, TypeError) as error:
            raise TokenRejected(f"it is not good: {type(error).__name__}") from error
        now, leeway = self._clock().timestamp(), LEEWAY.total_seconds()
        if not _number(claims["exp"]) or claims["exp"] + leeway <= now:
            raise TokenRejected("it has ended")
        if "nbf" in claims and (not _number(claims["nbf"]) or claims["nbf"] - leeway > now):
            raise TokenRejected("it is not good yet")
        return claims

    def _build_principal(self, claims: Mapping[str, Any]) -> Principal:
        name = claims.get(self.provider.name_claim)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise TokenRejected(f"its claim {self.provider.name_claim} names nobody")
        if self.provider.name_claim == "email" and claims.get("email_verified") is not True:
            raise TokenRejected("its email is not verified")
        groups = claims.get(self.provider.groups_claim, ())
        listed = groups if isinstance(groups, Sequence) and not isinstance(groups, str) else (groups,)
        names = (group for group in listed if isinstance(group, str) and _NAME.fullmatch(group))
        qualified_groups = frozenset(GROUP + name for name in names)
        return Principal(USER + name, qualified_groups, ends=_instant(claims["exp"]))


class Keys:
    """The provider's signing keys by their ids."""

    def __init__(self, issuer: str, fetch: Fetch, clock: Callable[[], float]) -> None:
        """Create an empty cache. `clock`: seconds, by which keys age."""
        self._issuer, self._fetch, self._clock = issuer, fetch, clock
        self._keys: Mapping[str, PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")
        self._reading = asyncio.Lock()

    async def key(self, kid: str) -> PyJWK | None:
        """Return the key with this id; without an id the provider's only key. None: there is no such key."""
        if self._needs_read(kid):
            async with self._reading:
                if self._needs_read(kid):  # another call may have read them while this one waited
                    await self._read()
        if not kid and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    def _needs_read(self, kid: str) -> bool:
        now = self._clock()
        stale = now - self._read_at > _KEEP_S or (kid not in self._keys and bool(kid))
        return stale and now - self._tried_at > _PAUSE_S

    async def _read(self) -> None:
        self._tried_at = self._clock()
        try:
            discovered = await self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            self._keys = _read_keys(await self._fetch(_keys_url(discovered, self._issuer)))
        except (OSError, ValueError) as error:
            logger().warning("provider.lost", issuer=self._issuer, why=str(error) or type(error).__name__)
        else:
            self._read_at = self._clock()


def _keys_url(discovered: Mapping[str, Any], issuer: str) -> str:
    """Return the URL of an issuer's keys. Raises: ValueError where the document is another issuer's, or names
    none.
    """
    place = discovered.get("jwks_uri")
    if discovered.get("issuer") != issuer or not isinstance(place, str):
        raise ValueError("its discovery document is another issuer's, or names no keys")
    return place


def _read_keys(document: Mapping[str, Any]) -> dict[str, PyJWK]:
    """Return the keys that tokens may be signed with, by id. Raises: ValueError where there is none."""
    keys: dict[str, PyJWK] = {}
    listed = document.get("keys")
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        try:
            key = PyJWK(entry)
        except jwt.PyJWTError:
            continue  # a kind of key that PyJWT does not support
        if key.algorithm_name in ALGORITHMS:
            keys[key.key_id or ""] = key
    if not keys:
        raise ValueError("it has no key that tokens can be checked by")
    return keys


def build_fetch(
    issuer: str,
    allowed: EgressRules,
    proxies: Proxies = Proxies(),  # noqa: B008 - it is frozen
) -> Fetch:
    """Build a fetch of a provider's documents: at its issuer, wherever that is, and else at public addresses
    only.

    The keys' address is the provider's word, and must not lead into the platform's network.
    """
    parts = urlsplit(issuer)
    own = (parts.hostname or "", parts.port or PORTS.get(parts.scheme))
    vouched, context = replace(allowed, hosts=allowed.hosts | {own}), httpx.create_ssl_context()

    async def fetch(url: str) -> Mapping[str, Any]:
        body = bytearray()
        try:
            async with (
                httpx.AsyncClient(
                    transport=CheckedTransport(vouched, context, proxies=proxies),
                    timeout=_PATIENCE_S,
                    follow_redirects=False,
                ) as client,
                client.stream("GET", url) as answer,
            ):
                status = answer.status_code
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_DOCUMENT:
                        break
        except AddressRefused as why:
            raise OSError(f"{url} may not be read: {why}") from why
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise OSError(f"{url} does not answer: {type(error).__name__}") from error
        if status != httpx.codes.OK or len(body) > _MAX_DOCUMENT:
            raise ValueError(f"{url} answers {status} and {len(body)} bytes")
        document = json.loads(body)
        return document if isinstance(document, dict) else {}

    return fetch


def _instant(seconds: float) -> datetime | None:
    """Return the instant; None for one that is beyond the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
