"""People prove who they are by an ID token of an OpenID Connect provider: verified here, and kept nowhere.

The provider's keys are read where its discovery document says, kept, and read again after a while, or when a
token names one that is not known; not more often than each half a minute, whatever tokens come. While the
provider is away the keys that are known stay good.
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
"""Signatures by a key that only the provider has; nothing symmetric, and never none."""
LEEWAY: Final = timedelta(seconds=60)
_LONGEST: Final = 16 * 1024
_KEEP_S: Final = 600.0
_PAUSE_S: Final = 30.0
_PATIENCE_S: Final = 5.0
_MAX_DOCUMENT: Final = 1024 * 1024
_NAME: Final = re.compile(r"[\x21-\x7e]{1,200}")

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Reads a JSON document. Raises: OSError, ValueError."""


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The token proves nothing. One clause for our log that says why, without the token."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Whose tokens are taken, and what is read of them."""

    issuer: str
    """As tokens name it, and where `/.well-known/openid-configuration` is."""
    audience: str
    """Whom tokens must be meant for: the client id of this platform, by which its command logs people in."""
    name_claim: str = "sub"
    """The claim that names a person. `email` counts when the provider says that it is verified."""
    groups_claim: str = "groups"
    """The claim that lists the groups of a person."""
    scope: str = ""
    """What people ask for when they log in, separated by spaces; empty: what their client thinks fit."""
    others: tuple[str, ...] = ()
    """Further client ids of this platform, such as that of its pages."""

    @property
    def login(self) -> Mapping[str, str]:
        """What a client must know to get a token here."""
        told = {"oidc_issuer": self.issuer, "oidc_client_id": self.audience, "oidc_scope": self.scope}
        return {name: value for name, value in told.items() if value}


class Verifier:
    """Finds out whose ID token it is."""

    def __init__(
        self,
        provider: Provider,
        fetch: Fetch,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`fetch` reads documents of the provider; `clock`: this instant, UTC."""
        self.provider, self._clock = provider, clock
        self._keys = Keys(provider.issuer, fetch, lambda: clock().timestamp())

    async def principal(self, token: str) -> Principal:
        """The person whose token it is. Raises: Refused."""
        if len(token) > _LONGEST:
            raise Refused(f"it has more than {_LONGEST} characters")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError as error:
            raise Refused("it is no token of a provider") from error
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise Refused("its algorithm is not one that is taken")
        key = await self._keys.key(kid if isinstance(kid, str) else "")
        if key is None or key.algorithm_name != algorithm:
            raise Refused("the provider has no such key")
        return self._named(self._claims(token, key))

    def _claims(self, token: str, key: PyJWK) -> Mapping[str, Any]:
        try:
            # The times are judged below, by the clock that was passed in.
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
            raise Refused(f"it is not good: {type(error).__name__}") from error
        now, leeway = self._clock().timestamp(), LEEWAY.total_seconds()
        if not _number(claims["exp"]) or claims["exp"] + leeway <= now:
            raise Refused("it has ended")
        if "nbf" in claims and (not _number(claims["nbf"]) or claims["nbf"] - leeway > now):
            raise Refused("it is not good yet")
        return claims

    def _named(self, claims: Mapping[str, Any]) -> Principal:
        name = claims.get(self.provider.name_claim)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Refused(f"its claim {self.provider.name_claim} names nobody")
        if self.provider.name_claim == "email" and claims.get("email_verified") is not True:
            raise Refused("its email is not verified")
        groups = claims.get(self.provider.groups_claim, ())
        listed = groups if isinstance(groups, Sequence) and not isinstance(groups, str) else (groups,)
        named = (group for group in listed if isinstance(group, str) and _NAME.fullmatch(group))
        groups_held = frozenset(GROUP + name for name in named)
        return Principal(USER + name, groups_held, ends=_instant(claims["exp"]))


class Keys:
    """The provider's keys by their ids."""

    def __init__(self, issuer: str, fetch: Fetch, clock: Callable[[], float]) -> None:
        """`clock`: seconds, for how old keys are."""
        self._issuer, self._fetch, self._clock = issuer, fetch, clock
        self._keys: Mapping[str, PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")
        self._reading = asyncio.Lock()

    async def key(self, kid: str) -> PyJWK | None:
        """The key with this id; of a provider that has one key, that one for no id. None: there is none."""
        if self._wanted(kid):
            async with self._reading:
                if self._wanted(kid):  # who came first has read them
                    await self._read()
        if not kid and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(kid)

    def _wanted(self, kid: str) -> bool:
        now = self._clock()
        stale = now - self._read_at > _KEEP_S or (kid not in self._keys and bool(kid))
        return stale and now - self._tried_at > _PAUSE_S

    async def _read(self) -> None:
        self._tried_at = self._clock()
        try:
            discovered = await self._fetch(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            self._keys = _usable(await self._fetch(_place_of_keys(discovered, self._issuer)))
        except (OSError, ValueError) as error:
            logger().warning("provider.lost", issuer=self._issuer, why=str(error) or type(error).__name__)
        else:
            self._read_at = self._clock()


def _place_of_keys(discovered: Mapping[str, Any], issuer: str) -> str:
    """Where the issuer says its keys are. Raises: ValueError when another says it, or nobody."""
    place = discovered.get("jwks_uri")
    if discovered.get("issuer") != issuer or not isinstance(place, str):
        raise ValueError("its discovery document is another issuer's, or names no keys")
    return place


def _usable(document: Mapping[str, Any]) -> dict[str, PyJWK]:
    """The keys that tokens may be signed with. Raises: ValueError."""
    keys: dict[str, PyJWK] = {}
    listed = document.get("keys")
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        try:
            key = PyJWK(entry)
        except jwt.PyJWTError:
            continue  # of a kind that is not known here
        if key.algorithm_name in ALGORITHMS:
            keys[key.key_id or ""] = key
    if not keys:
        raise ValueError("it has no key that tokens can be checked by")
    return keys


def fetching(
    issuer: str,
    allowed: EgressRules,
    proxies: Proxies = Proxies(),  # noqa: B008 - it is frozen
) -> Fetch:
    """Reads documents of a provider: at its issuer, wherever that is, and else only where nothing is private.

    The issuer says where its keys are, and is somebody else: that leads nowhere inside.
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
    """None for an end that no clock of ours will reach."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
