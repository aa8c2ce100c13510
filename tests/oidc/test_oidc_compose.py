"""The example of Compose at a provider that follows the specification: the pages, and `daggers login`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import structlog
from services.runtime.tests.certificates import self_signed
from tests.gateways import served
from tests.oidc.browser import walk
from tests.oidc.conftest import running
from tests.oidc.oidc_login import BROWSER
from tests.oidc.oidc_portal import at_the_provider, who

from api_gateway.auth.oidc import Verifier, build_fetch
from api_gateway.settings import GatewaySettings
from chassis.egress.addresses import EgressRules
from chassis.endpoint import Endpoint
from portal.entry import LoginMethod
from portal.provider import LoginProvider, OidcClient
from portal.server import PortalPlan, serving

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
CLIENTS = COMPOSE / "oidc-clients.json"
SAID = dict(
    line.split("=", 1) for line in (COMPOSE / "oidc.env").read_text().splitlines() if not line.startswith("#")
)
PAGES = "https://localhost:8443"
WITHIN_S = 60


@pytest.fixture(scope="module")
def provider(installed: Path) -> Iterator[str]:
    """The address of a provider that has the clients of the example."""
    with running(installed, CLIENTS) as address:
        yield address


@pytest.fixture(scope="module")
def gateway(provider: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a gateway with the settings of the example, at that provider."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
        patched.setenv("DAGGERS_GATEWAY_OIDC_ISSUER", provider)
        for name in ("AUDIENCE", "NAME_CLAIM"):
            patched.setenv(f"DAGGERS_GATEWAY_OIDC_{name}", SAID[f"DAGGERS_OIDC_{name}"])
        trusted = GatewaySettings().provider
    assert trusted is not None
    verifier = Verifier(trusted, build_fetch(provider, EgressRules()))
    database = tmp_path_factory.mktemp("gateway") / "projection.db"
    with served(
        Endpoint("127.0.0.1:0", tokens=dict), f"sqlite:///{database}", verifier=verifier, enforce=True
    ) as port:
        yield f"127.0.0.1:{port}"
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    return self_signed(folder, "localhost", about="DNS:localhost,IP:127.0.0.1")


async def test_the_pages_are_logged_in_at_as_the_example_says(
    provider: str, gateway: str, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    scope = "openid email groups offline_access"
    client = OidcClient(
        provider, SAID["DAGGERS_PORTAL_OIDC_CLIENT_ID"], None, scope, f"{PAGES}/auth/callback"
    )
    plan = PortalPlan(
        bind="127.0.0.1:0",
        gateway=gateway,
        authority=None,
        origin=PAGES,
        login_method=LoginMethod(LoginProvider(client)),
        sessions=tmp_path / "sessions.sqlite",
        idle_s=60,
        life_s=60,
        drain_s=2,
        certificate=certificate,
    )
    headers = {"host": urlsplit(PAGES).netloc, "sec-fetch-site": "same-origin"}
    async with (
        serving(plan) as port,
        httpx.AsyncClient(
            base_url=f"https://127.0.0.1:{port}",
            headers=headers,
            timeout=WITHIN_S,
            verify=False,
        ) as browser,
    ):
        begun = await browser.get("/auth/login", params={"to": "/new"})
        entered = await browser.get(await at_the_provider(begun.headers["location"], "ada"))
        status, known = await who(browser)

    assert (entered.status_code, entered.headers["location"]) == (303, "/new")
    assert (status, known.principal) == (200, "user:ada@example.org")
    assert list(known.groups) == ["group:analysts", "group:riders"]


@pytest.mark.parametrize("way", ["browser", "device"])
def test_the_command_is_logged_in_at_as_the_example_says(gateway: str, tmp_path: Path, way: str) -> None:
    script = tmp_path / "browser.py"
    script.write_text(BROWSER)
    begun = subprocess.Popen(
        [sys.executable, "-m", "cli", "login", "-o", "json", "--gateway", gateway,
         *(["--device"] if way == "device" else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            "XDG_STATE_HOME": str(tmp_path),
            "PATH": os.defpath,
            "HOME": str(tmp_path),
            "BROWSER": f"{sys.executable} {script} %s",
            "PYTHONPATH": str(ROOT),
        },
    )  # fmt: skip
    if way == "device":
        assert begun.stderr is not None
        page = next(word for line in begun.stderr for word in line.split() if "user_code=" in word)
        with httpx.Client(follow_redirects=True, timeout=30) as browser:
            walk(browser, page.rstrip(","), "ada")
    out, said = begun.communicate(timeout=WITHIN_S)

    assert begun.returncode == 0, said
    assert json.loads(out)["principal"] == "user:ada@example.org"


def test_one_client_for_both_is_what_such_a_provider_refuses(installed: Path, tmp_path: Path) -> None:
    """So it was before there were two: native, and with the pages' address."""
    command, pages = json.loads(CLIENTS.read_text())
    one = tmp_path / "clients.json"
    one.write_text(
        json.dumps([command | {"redirect_uris": command["redirect_uris"] + pages["redirect_uris"]}])
    )
    with running(installed, one) as address:
        begun = httpx.post(f"{address}/device/auth", data={"client_id": "daggers", "scope": "openid"})

    assert begun.status_code == 400
    assert begun.json()["error"] == "invalid_redirect_uri"
