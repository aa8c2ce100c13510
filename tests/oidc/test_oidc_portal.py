"""The portal's login against a real provider and gateway: in, as whom, renewed, out; what is refused."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import structlog
from tests.gateways import served
from tests.oidc.oidc_portal import WITHIN_S, at_the_provider, who

from api_gateway.auth.oidc import OidcProvider as Trusted
from api_gateway.auth.oidc import Verifier, build_fetch
from chassis.egress.addresses import EgressRules
from chassis.endpoint import Endpoint
from portal.entry import LoginMethod
from portal.provider import LoginProvider, OidcClient
from portal.server import PortalPlan, serving


@pytest.fixture(scope="module")
def gateway(issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a gateway that trusts the provider, and enforces."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    database = tmp_path_factory.mktemp("gateway") / "projection.db"
    verifier = Verifier(Trusted(issuer, "daggers", "email"), build_fetch(issuer, EgressRules()))
    endpoint = Endpoint("127.0.0.1:0", tokens=dict)
    with served(endpoint, f"sqlite:///{database}", verifier=verifier, enforce=True) as port:
        yield f"127.0.0.1:{port}"
    structlog.reset_defaults()


class Clock:
    """The true time, and as much more as a test says."""

    ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


Opened = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def browser(gateway: str, issuer: str, tmp_path: Path, clock: Clock) -> Opened:
    """Opens a portal of that gateway and provider; gives a browser in front of it."""

    @asynccontextmanager
    async def opened(scope: str = "openid email groups offline_access") -> AsyncIterator[httpx.AsyncClient]:
        # Any port is good for a native client: RFC 8252. The portal's own is known once it serves.
        client = OidcClient(issuer, "daggers", None, scope, "http://127.0.0.1:1/auth/callback")
        plan = PortalPlan(
            bind="127.0.0.1:0",
            gateway=gateway,
            authority=None,
            origin="http://127.0.0.1:1",
            login_method=LoginMethod(LoginProvider(client)),
            sessions=tmp_path / "sessions.sqlite",
            idle_s=36_000,
            life_s=360_000,
            drain_s=2,
        )
        headers = {"host": "127.0.0.1:1", "sec-fetch-site": "same-origin"}
        async with (
            serving(plan, clock) as port,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=WITHIN_S
            ) as client_,
        ):
            yield client_

    return opened


async def log_in(browser: httpx.AsyncClient, name: str = "ada", to: str = "/new") -> httpx.Response:
    """Log in as this person; the portal's answer to what the provider sent the browser back with."""
    begun = await browser.get("/auth/login", params={"to": to})
    back = await at_the_provider(begun.headers["location"], name)
    return await browser.get(back)


async def test_a_person_logs_in_and_is_that_person_to_the_gateway(browser: Opened) -> None:
    async with browser() as page:
        before, _ = await who(page)
        answer = await log_in(page)
        status, known = await who(page)
        me = (await page.get("/auth/me")).json()

    assert (before, status) == (401, 200)
    assert (answer.status_code, answer.headers["location"]) == (303, "/new")
    assert known.principal == "user:ada@example.org"
    assert list(known.groups) == ["group:analysts", "group:riders"]
    assert (me["name"], me["asked"]) == ("ada@example.org", "provider")


async def test_the_provider_is_asked_with_pkce_and_a_nonce(browser: Opened) -> None:
    async with browser() as page:
        begun = await page.get("/auth/login")

    asked = parse_qs(urlsplit(begun.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert all(len(asked[name][0]) >= 43 for name in ("code_challenge", "state", "nonce"))


async def test_who_logs_out_is_out(browser: Opened) -> None:
    async with browser() as page:
        await log_in(page)
        out = await page.post("/auth/logout")
        status, _ = await who(page)

    assert (out.status_code, status) == (204, 401)


async def test_an_answer_counts_once_and_in_the_browser_that_asked(browser: Opened) -> None:
    async with browser() as page:
        begun = await page.get("/auth/login")
        back = await at_the_provider(begun.headers["location"], "ada")
        cookies = dict(page.cookies)
        page.cookies.clear()
        other = await page.get(back)
        page.cookies.update(cookies)
        first = await page.get(back)

    assert (other.status_code, first.status_code) == (400, 303)


async def test_an_answer_is_not_taken_twice(browser: Opened) -> None:
    async with browser() as page:
        begun = await page.get("/auth/login")
        back = await at_the_provider(begun.headers["location"], "ada")
        cookies = dict(page.cookies)
        answers = []
        for _ in range(2):
            page.cookies.update(cookies)
            answers.append((await page.get(back)).status_code)

    assert answers == [303, 400]


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", ""]
)
async def test_a_login_leads_nowhere_else(browser: Opened, to: str) -> None:
    async with browser() as page:
        answer = await log_in(page, to=to)

    assert answer.headers["location"] == "/"


async def test_a_login_is_renewed_before_its_token_ends(browser: Opened, clock: Clock) -> None:
    async with browser() as page:
        await log_in(page)
        clock.ahead = 3600 - 30  # tokens of the provider are good for an hour
        status, known = await who(page)

    assert (status, known.principal) == (200, "user:ada@example.org")
    assert known.expire_time.seconds > time.time() + 60


async def test_a_login_that_cannot_be_renewed_ends_with_its_token(browser: Opened, clock: Clock) -> None:
    async with browser("openid email") as page:
        await log_in(page)
        clock.ahead = 3600 + 1
        status, _ = await who(page)
        me = (await page.get("/auth/me")).json()

    assert (status, me["name"]) == (401, None)


async def test_a_provider_that_is_away_is_told_as_such(gateway: str, tmp_path: Path) -> None:
    client = OidcClient("http://127.0.0.1:1", "daggers", None, "openid", "http://127.0.0.1:1/auth/callback")
    plan = PortalPlan(
        "127.0.0.1:0",
        gateway,
        None,
        "http://127.0.0.1:1",
        LoginMethod(LoginProvider(client)),
        tmp_path / "s",
        60,
        60,
        2,
    )
    async with serving(plan) as port, httpx.AsyncClient() as page:
        answer = await page.get(f"http://127.0.0.1:{port}/auth/login", headers={"host": "127.0.0.1:1"})

    assert answer.status_code == 503
    assert "does not answer" in answer.text
