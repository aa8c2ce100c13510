"""What stands around every answer, which pages are served, and who may ask."""

from __future__ import annotations

import gzip
import re
import time

import httpx
import pytest
from services.portal.tests.portals import Portal, come_in, ticket

from chassis import tickets
from portal.entry import LoginMethod
from portal.pages import NOT_BUILT, Pages

KEY = "k" * 32


@pytest.mark.parametrize(
    "path", ["/", "/daggers/one", "/assets/app.js", "/assets/none.js", "/auth/me", "/healthz"]
)
async def test_every_answer_has_the_headers(portal: Portal, path: str) -> None:
    async with portal() as client:
        told = (await client.get(path)).headers

    policy = told["content-security-policy"]
    assert "default-src 'none'; script-src 'self';" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert told["x-content-type-options"] == "nosniff"
    assert told["cross-origin-opener-policy"] == "same-origin"
    assert told["cross-origin-resource-policy"] == "same-origin"
    assert told["referrer-policy"] == "no-referrer"
    assert "server" not in told
    assert "strict-transport-security" not in told


async def test_the_nonce_of_a_page_is_that_of_its_policy_and_no_other(portal: Portal) -> None:
    async with portal() as client:
        answers = [await client.get("/daggers/one") for _ in range(2)]

    nonces = [re.search(r'content="([^"]+)"', answer.text) for answer in answers]
    found = [nonce[1] for nonce in nonces if nonce]
    assert len(set(found)) == 2
    for nonce, answer in zip(found, answers, strict=True):
        assert f"'nonce-{nonce}'" in answer.headers["content-security-policy"]


async def test_a_file_is_kept_for_good_and_comes_compressed_to_who_takes_that(
    portal: Portal, pages: Pages
) -> None:
    file = pages._folder / "assets" / "app.js"
    file.with_name("app.js.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.with_name("app.js.br").write_bytes(b"of Brotli")
    async with portal() as client:
        packed = await client.get("/assets/app.js", headers={"accept-encoding": "br;q=0, gzip"})
        async with client.stream(
            "GET", "/assets/app.js", headers={"accept-encoding": "gzip, br;q=0.9"}
        ) as small:
            raw = b"".join([part async for part in small.aiter_raw()])
        plain = await client.get("/assets/app.js", headers={"accept-encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert (small.headers["content-encoding"], raw) == ("br", b"of Brotli")
    assert "content-encoding" not in plain.headers
    assert packed.text == plain.text == "export {};"
    assert "immutable" in plain.headers["cache-control"]
    assert plain.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("path", ["/assets/..%2findex.html", "/assets/%2e%2e", "/assets/x/../../index.html"])
async def test_nothing_beside_the_built_files_is_served(portal: Portal, pages: Pages, path: str) -> None:
    (pages._folder / "secret.txt").write_text("secret")
    async with portal() as client:
        answer = await client.get(path.replace("index.html", "secret.txt"))

    assert "secret" not in answer.text


async def test_pages_that_are_not_built_say_so(portal: Portal, pages: Pages) -> None:
    (pages._folder / "index.html").unlink()
    async with portal() as client:
        answer = await client.get("/")

    assert (answer.status_code, answer.text) == (503, NOT_BUILT)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({}, 403),
        ({"sec-fetch-site": "same-origin"}, 204),
    ],
)
async def test_another_sites_page_writes_nothing(
    portal: Portal, headers: dict[str, str], status: int
) -> None:
    async with (
        portal(LoginMethod(None, key=KEY)) as same,
        httpx.AsyncClient(base_url=same.base_url) as client,
    ):
        answer = await client.post("/auth/logout", headers=headers)

    assert answer.status_code == status


async def test_a_browser_without_fetch_metadata_is_judged_by_its_origin(portal: Portal) -> None:
    async with portal() as same, httpx.AsyncClient(base_url=same.base_url) as client:
        origin = str(same.base_url).rstrip("/")
        answer = await client.post("/auth/logout", headers={"origin": origin})

    assert answer.status_code == 204


async def test_a_name_that_somebody_leads_here_is_refused(portal: Portal) -> None:
    async with portal() as client:
        refused = await client.get("/", headers={"host": f"evil.example:{client.base_url.port}"})
        local = await client.get("/", headers={"host": f"localhost:{client.base_url.port}"})

    assert (refused.status_code, local.status_code) == (421, 200)


async def test_a_portal_by_https_only_says_so(portal: Portal) -> None:
    async with portal(LoginMethod(secure=True), origin="https://portal.example") as client:
        answer = await client.get("/", headers={"host": "portal.example"})

    assert answer.headers["strict-transport-security"].startswith("max-age=")


async def test_who_does_not_show_the_key_sees_nothing_of_the_gateway(portal: Portal) -> None:
    async with portal(LoginMethod(None, key=KEY, token=lambda: "t")) as client:
        call = {"url": "/api/daggers.v1.TestService/Echo", "headers": {"content-type": "application/proto"}}
        before = await client.post(**call)
        wrong = await client.get("/auth/key", params={"key": KEY[1:] + "x"})
        still = await client.post(**call)
        whole = await client.get("/auth/key", params={"key": KEY})
        right = await come_in(client, KEY)
        inside = await client.post(**call)
        me = (await client.get("/auth/me")).json()
        await client.post("/auth/logout")
        after = await client.post(**call)

    cookie = right.headers["set-cookie"]
    assert (before.status_code, wrong.status_code, still.status_code) == (401, 403, 401)
    assert whole.status_code == 403  # the key itself stands in no URL
    assert (right.status_code, inside.status_code) == (303, 200)
    assert re.fullmatch(r"/#call=[0-9a-f]{64}", right.headers["location"])
    assert all(word in cookie for word in ("HttpOnly", "SameSite=lax", "Path=/"))
    assert (me["name"], me["asked"]) == ("administrator", "key")
    assert after.status_code == 401


async def test_an_address_lets_in_once_whoever_finds_it_later(portal: Portal) -> None:
    address = {"key": ticket(KEY)}
    async with portal(LoginMethod(None, key=KEY)) as client:
        first = await client.get("/auth/key", params=address)
        client.cookies.clear()
        again = await client.get("/auth/key", params=address)

    assert (first.status_code, again.status_code) == (303, 403)
    assert "This address was used." in again.text
    assert not again.cookies


@pytest.mark.parametrize("how", ["of another key", "ended", "changed", "no ticket"])
async def test_a_ticket_that_is_not_good_lets_nobody_in(portal: Portal, how: str) -> None:
    now = time.time()
    shown = {
        "of another key": ticket("j" * 32),
        "ended": tickets.issue_ticket(KEY, bytes(16), now - tickets.LIFE_S),
        "changed": f"9{ticket(KEY)}",
        "no ticket": "\ud800".encode("utf-8", "replace").decode() + KEY,
    }[how]
    async with portal(LoginMethod(None, key=KEY)) as client:
        answer = await client.get("/auth/key", params={"key": shown})

    assert (answer.status_code, bool(answer.cookies)) == (403, False)


async def test_a_cookie_that_came_to_another_port_is_nobodys_there(portal: Portal) -> None:
    """Browsers send cookies to every port of a machine; what pages keep of their origin goes to no other."""
    call = {"url": "/api/daggers.v1.TestService/Echo", "headers": {"content-type": "application/proto"}}
    async with portal(LoginMethod(None, key=KEY, token=lambda: "t")) as client:
        await come_in(client, KEY)
        inside = await client.post(**call)
        del client.headers["x-daggers-call"]
        stolen = await client.post(**call)
        me = (await client.get("/auth/me")).json()
        client.headers["x-daggers-call"] = "0" * 64
        guessed = await client.post(**call)

    assert (inside.status_code, stolen.status_code, guessed.status_code) == (200, 401, 401)
    assert me["name"] is None


async def test_who_comes_in_again_has_another_session(portal: Portal) -> None:
    async with portal(LoginMethod(None, key=KEY)) as client:
        cookies = []
        for _ in range(2):
            await come_in(client, KEY)
            cookies.append(client.cookies["daggers"])
        client.cookies.set("daggers", cookies[0])
        first = (await client.get("/auth/me")).json()

    assert cookies[0] != cookies[1]
    assert first["name"] is None
