"""ID tokens of a provider: who they name, and every way tried to make one that is none."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from daggers.v1 import access_pb2, events_pb2, gateway_pb2

from access import Principal
from api_gateway.auth.oidc import OidcProvider, TokenRejected, Verifier, build_fetch
from chassis.egress.addresses import EgressRules
from chassis.errors import ApiError
from eventlog import Draft
from eventlog.memory import MemoryLog

pb = gateway_pb2
META = events_pb2.RequestMeta(actor="root")
ISSUER = "https://login.example"
PROVIDER = OidcProvider(ISSUER, "daggers")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
KEYS = {"rsa": (RSA, "RS256"), "ec": (EC, "ES256"), "ed": (ED, "EdDSA")}
Refusal = Callable[[Awaitable[Any]], Awaitable[ApiError]]


def jwk(kid: str, key: Any, algorithm: str) -> dict[str, Any]:
    """The public half, as a provider publishes it."""
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**made, "kid": kid, "alg": algorithm, "use": "sig"}


class Site:
    """The documents of a provider, which may change or be away; counts how often it is asked."""

    def __init__(self, **keys: tuple[Any, str]) -> None:
        self.keys, self.away, self.asked = keys, False, 0
        self.issuer = ISSUER

    async def fetch(self, url: str) -> Mapping[str, Any]:
        self.asked += 1
        if self.away:
            raise OSError("away")
        if url == f"{ISSUER}/.well-known/openid-configuration":
            return {"issuer": self.issuer, "jwks_uri": f"{ISSUER}/jwks"}
        assert url == f"{ISSUER}/jwks"
        return {"keys": [jwk(kid, key, algorithm) for kid, (key, algorithm) in self.keys.items()]}


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def claims(**other: Any) -> dict[str, Any]:
    """The claims of a good token, but for these; None takes one away."""
    made = {
        "iss": ISSUER,
        "aud": "daggers",
        "sub": "ada",
        "exp": int(NOW.timestamp()) + 600,
        "groups": ["analysts"],
        **other,
    }
    return {name: value for name, value in made.items() if value is not None}


def signed(kid: str = "rsa", headers: Mapping[str, Any] | None = None, **other: Any) -> str:
    key, algorithm = KEYS[kid]
    return jwt.encode(claims(**other), key, algorithm, {"kid": kid, **(headers or {})})


def by_hand(header: Mapping[str, Any], body: Mapping[str, Any], secret: bytes | None) -> str:
    """A token as an attacker writes it; signed with HMAC where there is a secret."""

    def part(what: bytes) -> str:
        return base64.urlsafe_b64encode(what).rstrip(b"=").decode()

    text = f"{part(json.dumps(header).encode())}.{part(json.dumps(body).encode())}"
    signature = hmac.digest(secret, text.encode(), hashlib.sha256) if secret else b""
    return f"{text}.{part(signature)}"


@pytest.fixture
def site() -> Site:
    return Site(**KEYS)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def verifier(site: Site, clock: Clock) -> Verifier:
    return Verifier(PROVIDER, site.fetch, clock)


@pytest.mark.parametrize("kid", KEYS)
async def test_a_good_token_names_a_person_and_the_groups(verifier: Verifier, kid: str) -> None:
    found = await verifier.principal(signed(kid))

    assert found == Principal("user:ada", frozenset({"group:analysts"}))


async def test_a_token_may_be_meant_for_any_client_of_this_platform(site: Site, clock: Clock) -> None:
    verifier = Verifier(replace(PROVIDER, others=("daggers-pages",)), site.fetch, clock)
    names = [(await verifier.principal(signed(aud=aud))).name for aud in ("daggers", "daggers-pages")]

    assert names == ["user:ada"] * 2
    with pytest.raises(TokenRejected):
        await verifier.principal(signed(aud="somebody-else"))


PEM = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
END = int(NOW.timestamp())
ATTACKS = {
    "no token": "",
    "words": "not a token",
    "alg none": by_hand({"alg": "none", "kid": "rsa"}, claims(), None),
    "alg NONE": by_hand({"alg": "NONE", "kid": "rsa"}, claims(), None),
    "no alg": by_hand({"kid": "rsa"}, claims(), None),
    "alg is a list": by_hand({"alg": ["RS256"], "kid": "rsa"}, claims(), None),
    "the public key as an HMAC secret": by_hand({"alg": "HS256", "kid": "rsa"}, claims(), PEM),
    "HMAC under the name of RS256": by_hand({"alg": "RS256", "kid": "rsa"}, claims(), PEM),
    "another's key": jwt.encode(claims(), OTHER, "RS256", {"kid": "rsa"}),
    "another's key, brought along": jwt.encode(
        claims(), OTHER, "RS256", {"kid": "mine", "jwk": jwk("mine", OTHER, "RS256")}
    ),
    "another's key, somewhere else": jwt.encode(
        claims(), OTHER, "RS256", {"kid": "mine", "jku": "https://evil.example/jwks"}
    ),
    "a kid that is a path": jwt.encode(claims(), OTHER, "RS256", {"kid": "../../dev/null"}),
    "another algorithm than the key's": jwt.encode(claims(), RSA, "PS256", {"kid": "rsa"}),
    "a key of another kind": jwt.encode(claims(), RSA, "RS256", {"kid": "ec"}),
    "no kid, where there are several keys": jwt.encode(claims(), RSA, "RS256"),
    "something critical that nobody knows": signed(headers={"crit": ["exp2"], "exp2": 1}),
    "another audience": signed(aud="somebody-else"),
    "no audience": signed(aud=None),
    "another issuer": signed(iss="https://login.example.evil"),
    "no issuer": signed(iss=None),
    "expired": signed(exp=END - 61),
    "no end": signed(exp=None),
    "an end that is no number": signed(exp="9999999999"),
    "not good yet": signed(nbf=END + 120),
    "nobody": signed(sub=""),
    "no subject": signed(sub=None),
    "a subject with a space": signed(sub="ada lovelace"),
    "a subject with a line": signed(sub="ada\nroot"),
    "a changed body": ".".join(
        [signed().split(".")[0], by_hand({}, claims(sub="root"), None).split(".")[1], signed().split(".")[2]]
    ),
    "no signature": signed().rpartition(".")[0] + ".",
    "half a token": signed().rpartition(".")[0],
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_what_the_provider_did_not_say_names_nobody(verifier: Verifier, attack: str) -> None:
    with pytest.raises(TokenRejected) as caught:
        await verifier.principal(ATTACKS[attack])

    assert "ada" not in str(caught.value)


async def test_a_token_of_10_mb_is_refused_at_once_and_asks_for_no_key(
    verifier: Verifier, site: Site
) -> None:
    token = signed(padding="x" * 10_000_000)
    with pytest.raises(TokenRejected):
        await verifier.principal(token)

    assert site.asked == 0


async def test_clocks_may_differ_by_a_minute(verifier: Verifier) -> None:
    late, early = signed(exp=END - 59), signed(nbf=END + 59)

    assert (await verifier.principal(late)).name == "user:ada"
    assert (await verifier.principal(early)).name == "user:ada"


async def test_keys_are_read_once_and_again_after_ten_minutes(
    verifier: Verifier, site: Site, clock: Clock
) -> None:
    for _ in range(5):
        await verifier.principal(signed())
    first = site.asked
    clock.now += timedelta(seconds=601)
    await verifier.principal(signed(exp=END + 6_000))

    assert (first, site.asked) == (2, 4)


async def test_a_new_key_is_found_by_its_first_token_and_an_old_one_is_forgotten(
    verifier: Verifier, site: Site, clock: Clock
) -> None:
    site.keys = {"rsa": KEYS["rsa"]}
    await verifier.principal(signed())
    site.keys = {"ec": KEYS["ec"]}
    clock.now += timedelta(seconds=31)

    assert (await verifier.principal(signed("ec"))).name == "user:ada"
    with pytest.raises(TokenRejected):
        await verifier.principal(signed())


async def test_tokens_of_made_up_keys_do_not_make_us_ask_the_provider_each_time(
    verifier: Verifier, site: Site
) -> None:
    await verifier.principal(signed())
    for number in range(50):
        with pytest.raises(TokenRejected):
            await verifier.principal(jwt.encode(claims(), OTHER, "RS256", {"kid": f"made-up-{number}"}))

    assert site.asked == 2


async def test_while_the_provider_is_away_the_keys_that_are_known_stay_good(
    verifier: Verifier, site: Site, clock: Clock
) -> None:
    await verifier.principal(signed())
    site.away = True
    clock.now += timedelta(seconds=601)

    assert (await verifier.principal(signed(exp=END + 6_000))).name == "user:ada"


async def test_a_discovery_document_of_another_issuer_brings_no_keys(verifier: Verifier, site: Site) -> None:
    site.issuer = "https://evil.example"
    with pytest.raises(TokenRejected):
        await verifier.principal(signed())


async def test_of_a_provider_with_one_key_a_token_need_not_name_it(site: Site, clock: Clock) -> None:
    site.keys = {"": KEYS["rsa"]}
    token = jwt.encode(claims(), RSA, "RS256")

    assert (await Verifier(PROVIDER, site.fetch, clock).principal(token)).name == "user:ada"


async def test_an_address_counts_once_the_provider_says_that_it_is_verified(site: Site, clock: Clock) -> None:
    verifier = Verifier(OidcProvider(ISSUER, "daggers", "email"), site.fetch, clock)
    with pytest.raises(TokenRejected):
        await verifier.principal(signed(email="root@example.org"))
    with pytest.raises(TokenRejected):
        await verifier.principal(signed(email="root@example.org", email_verified="true"))
    found = await verifier.principal(signed(email="ada@example.org", email_verified=True))

    assert found.name == "user:ada@example.org"


@pytest.mark.parametrize("groups", [None, "analysts", ["analysts", 7, "a b", ""], {"analysts": 1}, 7])
async def test_groups_are_those_that_can_be_read(verifier: Verifier, groups: Any) -> None:
    found = await verifier.principal(signed(groups=groups))

    assert found.groups <= {"group:analysts"}


async def test_a_person_has_the_roles_of_the_groups_and_loses_them_with_the_next_call(
    harness: Any, site: Site, refusal: Refusal
) -> None:
    log = MemoryLog()
    verifier = Verifier(PROVIDER, site.fetch)
    token = signed(exp=int(time.time()) + 600)
    metadata = (("authorization", f"Bearer {token}"),)

    async def write(event: Any) -> None:
        await log.append(Draft(f"w{await log.end()}", "/test", "pricing", datetime.now(UTC), event))
        await client.gateway.follower.wait_for(await log.end())

    def ask() -> Awaitable[Any]:
        request = pb.GrantRoleRequest(team="pricing", principal="user:bob", role=access_pb2.ROLE_VIEWER)
        asked: Awaitable[Any] = client.access.GrantRole(request, timeout=30, metadata=metadata)
        return asked

    async with harness.running(log, tokens=dict, enforce=True, verifier=verifier) as client:
        members = [access_pb2.Member(principal="group:analysts", role=access_pb2.ROLE_OWNER)]
        team = access_pb2.Team(name="pricing", members=members)
        await write(events_pb2.TeamRegistered(meta=META, team=team))
        await ask()
        last = [record.message async for record in log.replay()][-1]
        gone = events_pb2.RoleRevoked(meta=META, team="pricing", principal="group:analysts")
        await write(gone)
        refused = await refusal(ask())
        anonymous = await refusal(client.access.ListTeams(pb.ListTeamsRequest(), timeout=30))

    assert last.meta.actor == "user:ada"
    assert (refused.code, refused.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
    assert anonymous.code == grpc.StatusCode.UNAUTHENTICATED


async def test_a_gateway_that_knows_a_provider_asks_everybody_who_they_are(
    harness: Any, site: Site, refusal: Refusal
) -> None:
    async with harness.running(verifier=Verifier(PROVIDER, site.fetch)) as client:
        error = await refusal(client.access.ListTeams(pb.ListTeamsRequest(), timeout=30))
    told = {name: value for name, value in error.metadata.items() if name.startswith("oidc_")}

    assert error.code == grpc.StatusCode.UNAUTHENTICATED
    assert told == {"oidc_issuer": PROVIDER.issuer, "oidc_client_id": PROVIDER.audience}


@pytest.mark.parametrize(
    "keys", ["http://127.0.0.1:{other}/jwks", "https://127.0.0.1:{other}/jwks", "http://169.254.169.254/"]
)
async def test_a_provider_that_names_keys_inside_leads_nowhere(keys: str) -> None:
    """It is on loopback itself, where its issuer is vouched for, and nothing else is."""
    asked: list[str] = []

    async def discovery(request: web.Request) -> web.Response:
        return web.json_response({"issuer": f"http://{request.host}", "jwks_uri": keys.format(other=other)})

    async def inside(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.json_response({"keys": [jwk("k", RSA, "RS256")]})

    async with listening(discovery) as port, listening(inside) as other:
        issuer = f"http://127.0.0.1:{port}"
        verifier = Verifier(OidcProvider(issuer, "daggers"), build_fetch(issuer, EgressRules()))
        with pytest.raises(TokenRejected):
            await verifier.principal(signed(iss=issuer))

    assert asked == []


@asynccontextmanager
async def listening(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[int]:
    """Port of a server on loopback."""
    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
