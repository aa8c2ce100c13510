"""The tokens of a real provider, for people who sign in at it as on a terminal, name them at the gateway."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from tests.oidc.browser import walk
from tests.oidc.conftest import free_port, running

from access import Principal
from api_gateway.auth.oidc import OidcProvider, TokenRejected, Verifier, build_fetch
from chassis.egress.addresses import EgressRules

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"


def signed_in(issuer: str, login: str) -> dict[str, Any]:
    """What the provider gives to whom signs in: the device flow, with a browser's part played by hand."""
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        asked = browser.post(
            f"{issuer}/device/auth", data={"client_id": "daggers", "scope": "openid groups email"}
        ).json()
        walk(browser, asked["verification_uri_complete"], login)
        until = time.monotonic() + 30
        while True:
            given = browser.post(
                f"{issuer}/token",
                data={"client_id": "daggers", "grant_type": DEVICE, "device_code": asked["device_code"]},
            ).json()
            if given.get("error") != "authorization_pending" or time.monotonic() > until:
                return dict(given)
            time.sleep(0.2)


@pytest.fixture(scope="module")
def tokens(issuer: str) -> dict[str, Any]:
    given = signed_in(issuer, "ada")
    assert "id_token" in given, given
    return given


async def test_who_signed_in_is_named_with_the_groups(issuer: str, tokens: dict[str, Any]) -> None:
    found = await Verifier(OidcProvider(issuer, "daggers"), build_fetch(issuer, EgressRules())).principal(
        tokens["id_token"]
    )

    assert found == Principal("user:ada", frozenset({"group:analysts", "group:riders"}))


async def test_an_address_names_who_signed_in_where_it_is_asked_for(
    issuer: str, tokens: dict[str, Any]
) -> None:
    found = await Verifier(
        OidcProvider(issuer, "daggers", "email"), build_fetch(issuer, EgressRules())
    ).principal(tokens["id_token"])

    assert found.name == "user:ada@example.org"


@pytest.mark.parametrize("of", ["another audience", "another issuer", "an access token"])
async def test_what_the_provider_gave_for_something_else_names_nobody(
    issuer: str, tokens: dict[str, Any], of: str
) -> None:
    provider = {
        "another audience": OidcProvider(issuer, "a-portal"),
        "another issuer": OidcProvider(issuer.replace("127.0.0.1", "localhost"), "daggers"),
    }.get(of, OidcProvider(issuer, "daggers"))
    token = tokens["access_token" if of == "an access token" else "id_token"]

    with pytest.raises(TokenRejected):
        await Verifier(provider, build_fetch(provider.issuer, EgressRules())).principal(token)


def signing_key(folder: Path, name: str) -> Path:
    """A file of one new private key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    entry = {**RSAAlgorithm.to_jwk(key, as_dict=True), "kid": name, "use": "sig", "alg": "RS256"}
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"keys": [entry]}))
    return file


async def test_a_provider_that_signs_with_another_key_is_followed_and_the_old_key_opens_nothing(
    installed: Path, tmp_path: Path
) -> None:
    port, now = free_port(), datetime.now(UTC)
    with running(installed, port=port, keys=signing_key(tmp_path, "old")) as issuer:
        verifier = Verifier(OidcProvider(issuer, "daggers"), build_fetch(issuer, EgressRules()), lambda: now)
        old = signed_in(issuer, "ada")["id_token"]
        before = await verifier.principal(old)
    with running(installed, port=port, keys=signing_key(tmp_path, "new")) as issuer:
        now += timedelta(minutes=1)  # keys are asked for at most twice a minute
        after = await verifier.principal(signed_in(issuer, "ada")["id_token"])
        with pytest.raises(TokenRejected):
            await verifier.principal(old)

    assert before == after == Principal("user:ada", frozenset({"group:analysts", "group:riders"}))
