"""Server-side request forgery: what may be connected to, in every form an address can be written."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
import urllib3
from aiohttp import web
from hypothesis import given as for_all
from hypothesis import strategies as st

from chassis.egress.addresses import INSIDE, Address, AddressRefused, EgressRules, parse, public, refusal
from chassis.egress.pools import pools, refuse
from chassis.egress.transport import CheckedTransport, resolve

NOBODY = EgressRules()
PUBLIC = "93.184.216.34"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
        *("169.254.169.254", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::"),
        *("fec0::1", "3fff::1", "5f00::1", "192.88.99.1", "::ffff:0:7f00:1", "::ffff:0:a9fe:a9fe"),
        *("168.63.129.16", "100.100.100.200", "192.0.0.192", "::ffff:168.63.129.16", "64:ff9b::a83f:8110"),
        *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2001:0:7f00:1::"),
    ],
)
def test_what_is_not_of_the_public_internet_is_refused(address: str) -> None:
    assert refusal("https", "hooks.example.com", 443, [parse(address)], NOBODY) is not None


@pytest.mark.parametrize(
    "address", [PUBLIC, "8.8.8.8", "2606:4700::6810:85e5", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_what_is_of_the_public_internet_passes(address: str) -> None:
    assert refusal("https", "hooks.example.com", 443, [parse(address)], NOBODY) is None


def test_one_private_address_among_several_is_enough() -> None:
    assert refusal("https", "h.example.com", 443, [parse(PUBLIC), parse("10.0.0.1")], NOBODY) is not None


def test_plain_http_is_refused() -> None:
    assert refusal("http", "hooks.example.com", 80, [parse(PUBLIC)], NOBODY) is not None


INWARD = EgressRules.parse("", "10.0.0.0/8, 127.0.0.0/8, ::1/128, 169.254.0.0/16, fd00::/8")


@pytest.mark.parametrize("address", ["10.1.2.3", "127.0.0.1", "::1", "::ffff:10.1.2.3", "fd12::1", PUBLIC])
def test_what_is_in_a_network_that_is_allowed_passes(address: str) -> None:
    assert refusal("https", "influx.internal", 8086, [parse(address)], INWARD) is None


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "::ffff:169.254.169.254", "2002:a9fe:a9fe::", "fd00:ec2::254", "192.168.1.1"],
)
def test_where_clouds_tell_secrets_is_in_no_network(address: str) -> None:
    assert refusal("https", "influx.internal", 8086, [parse(address)], INWARD) is not None


def test_plain_http_goes_no_further_than_the_networks_that_are_allowed() -> None:
    inside, outside = [parse("10.1.2.3")], [parse("10.1.2.3"), parse(PUBLIC)]

    refused = [refusal("http", "influx.internal", 8086, each, INWARD) for each in (inside, outside, [])]
    assert [each is not None for each in refused] == [False, True, True]


def test_our_own_machines_are_called_where_they_stand_and_metadata_is_not() -> None:
    ours = [parse(each) for each in ("10.0.0.1", "127.0.0.1", "172.17.0.2", "fd12::1", PUBLIC)]

    assert refusal("http", "driver.internal", 4040, ours, INSIDE) is None
    for address in ("169.254.169.254", "169.254.1.1", "fd00:ec2::254", "0.0.0.0", "224.0.0.1"):
        assert refusal("http", "driver.internal", 4040, [parse(address)], INSIDE) is not None


@pytest.mark.parametrize("text", ["10.0.0.1/8", "private", "10.0.0.0/33", "10.0.0.0/8;127.0.0.0/8"])
def test_what_is_no_network_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a network") as error:
        EgressRules.parse("", f"192.168.0.0/16, {text}")

    assert repr(text) in str(error.value)


@for_all(st.ip_addresses(v=4))
def test_no_form_of_an_embedded_address_says_more_than_the_address(address: object) -> None:
    number = int(ip_address(str(address)))
    embedded = [0xFFFF << 32, 0x2002 << 112, 0x64FF9B << 96]
    forms = [
        ip_address(prefix | (number << 80 if prefix >> 112 == 0x2002 else number)) for prefix in embedded
    ]

    assert {public(form) for form in forms} == {public(ip_address(number))}


@pytest.mark.parametrize(
    ("text", "host", "port", "expected"),
    [
        ("127.0.0.1:9199", "127.0.0.1", 9199, True),
        ("127.0.0.1:9199", "127.0.0.1", 80, False),
        ("127.0.0.1:9199", "2130706433", 9199, False),
        ("Hooks.Internal", "hooks.internal", 1234, True),
        ("a:1, [::1]:2 ,b", "::1", 2, True),
        ("a:1, [::1]:2 ,b", "b", 9, True),
        ("", "localhost", 80, False),
        ("influx.internal:80", "influx.internal.", 80, False),
    ],
)
def test_a_listed_host_is_vouched_for_as_it_is_written(
    text: str, host: str, port: int, *, expected: bool
) -> None:
    assert EgressRules.parse(text).has(host, port) is expected


@pytest.mark.parametrize("entry", ["http://a", "a:b", "a:99999", "a/b", "user@a", ":80", "::1", "a b"])
def test_an_entry_that_is_no_host_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match="is not a host or host:port") as error:
        EgressRules.parse(f"good:1,{entry}")

    assert repr(entry) in str(error.value)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "::1", "::ffff:127.0.0.1"],
)
async def test_loopback_is_refused_in_every_spelling_the_resolver_takes(host: str) -> None:
    addresses = await resolve(host, 80)

    assert addresses
    assert refusal("https", host, 443, addresses, NOBODY) is not None


@asynccontextmanager
async def listening(
    context: ssl.SSLContext | None = None, moved_to: str = ""
) -> AsyncGenerator[tuple[int, list[str]]]:
    """A server on loopback: its port, and the host that each request names. Answers ok, or `moved_to`."""
    received: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        received.append(request.host)
        if moved_to:
            raise web.HTTPTemporaryRedirect(moved_to)
        return web.Response(text="ok")

    application = web.Application()
    application.router.add_post("/slack", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1], received
    finally:
        await runner.cleanup()


async def post(url: str, transport: CheckedTransport) -> httpx.Response:
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        return await client.post(url, json={"text": "hello"})


async def test_a_name_that_is_rebound_after_the_check_gains_nothing() -> None:
    """The resolver answers once with what passes and from then on with loopback, where a server listens."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[Address]:
        asked.append(host)
        return [parse("192.0.2.1" if len(asked) == 1 else "127.0.0.1")]

    async with listening() as (port, received):
        allowed = EgressRules.parse(f"rebound.example:{port}")
        transport = CheckedTransport(allowed, httpx.create_ssl_context(trust_env=False), rebinding)
        with pytest.raises((httpx.ConnectError, TimeoutError)):
            async with asyncio.timeout(1):
                await post(f"http://rebound.example:{port}/slack", transport)

    assert (asked, received) == (["rebound.example"], [])


async def test_every_attempt_is_checked_anew() -> None:
    answers = [[parse("127.0.0.1")], [parse("127.0.0.1")], [parse("10.0.0.1")]]
    asked: list[str] = []

    async def moving(host: str, port: int) -> list[Address]:
        asked.append(host)
        return answers.pop(0)

    transport = CheckedTransport(NOBODY, httpx.create_ssl_context(trust_env=False), moving)
    refused = 0
    for _ in range(3):
        with pytest.raises(AddressRefused):
            await post("https://moving.example/slack", transport)
        refused += 1

    assert (refused, asked) == (3, ["moving.example"] * 3)


async def test_the_host_header_is_the_name_and_a_dead_address_is_passed_over() -> None:
    async def two(host: str, port: int) -> list[Address]:
        return [parse("127.0.0.2"), parse("127.0.0.1")]  # the server listens on the second only

    async with listening() as (port, received):
        allowed = EgressRules.parse(f"receiver.example:{port}")
        transport = CheckedTransport(allowed, httpx.create_ssl_context(trust_env=False), two)
        response = await post(f"http://receiver.example:{port}/slack", transport)

    assert response.text == "ok"
    assert received == [f"receiver.example:{port}"]


# ---- urllib3, as the sinks of drivers use it ---------------------------------------------------------------


def asked(
    url: str, allowed: EgressRules, *answers: str, judge: Callable[[str], None] = refuse
) -> tuple[int, list[str]]:
    """The status of a POST by checked pools, and what the resolver was asked; it answers these in turn."""
    names, left = [], list(answers)

    def resolver(host: str, port: int) -> list[Address]:
        names.append(host)
        return [parse(left.pop(0))]

    with urllib3.PoolManager(retries=urllib3.Retry(1), timeout=2.0) as manager:
        manager.pool_classes_by_scheme = pools(allowed, judge, resolver)
        return manager.request("POST", url, body=b"rows").status, names


async def test_a_pool_asks_for_a_name_once_and_connects_to_what_it_was_told() -> None:
    async with listening() as (port, received):
        allowed = EgressRules.parse(f"rebound.example:{port}")
        status, names = await asyncio.to_thread(
            asked, f"http://rebound.example:{port}/slack", allowed, "127.0.0.1"
        )

    assert (status, names, received) == (200, ["rebound.example"], [f"rebound.example:{port}"])


async def test_a_pool_does_not_connect_to_what_a_name_was_rebound_to() -> None:
    """The server is at 127.0.0.1; the name is there for the first look, and elsewhere for no other."""
    async with listening() as (port, received):
        with pytest.raises(AddressRefused):
            await asyncio.to_thread(
                asked, f"https://rebound.example:{port}/slack", NOBODY, "127.0.0.1", PUBLIC
            )

    assert received == []


async def test_a_pool_follows_no_redirect_to_where_it_may_not_go() -> None:
    async with listening(moved_to="http://169.254.169.254/latest/meta-data/") as (port, received):
        allowed = EgressRules.parse(f"influx.example:{port}")
        with pytest.raises(AddressRefused):
            await asyncio.to_thread(
                asked, f"http://influx.example:{port}/slack", allowed, "127.0.0.1", "169.254.169.254"
            )

    assert len(received) == 1


async def test_a_pool_that_observes_connects_and_says_what_would_be_refused() -> None:
    said: list[str] = []
    async with listening() as (port, received):
        url = f"http://influx.example:{port}/slack"
        status, _ = await asyncio.to_thread(lambda: asked(url, NOBODY, "127.0.0.1", judge=said.append))

    assert (status, len(received), len(said)) == (200, 1, 1)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]"])
def test_a_pool_refuses_loopback_in_every_spelling(host: str) -> None:
    with urllib3.PoolManager(retries=False, timeout=2.0) as manager:
        manager.pool_classes_by_scheme = pools(NOBODY)
        with pytest.raises(AddressRefused):
            manager.request("GET", f"https://{host}:1/")


# ---- TLS: pinned to the address, checked against the name --------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for hooks.example, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    place = tmp_path_factory.mktemp("tls")
    made, key = place / "cert.pem", place / "key.pem"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example",
         "-keyout", key, "-out", made],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return made, key


async def over_tls(name: str, certificate: tuple[Path, Path]) -> str:
    """The answer of a TLS server on loopback that is asked for under a name, and trusted."""

    async def to_loopback(host: str, port: int) -> list[Address]:
        return [parse("127.0.0.1")]

    made, key = certificate
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(made, key)
    trusting = ssl.create_default_context(cafile=str(made))
    async with listening(serving) as (port, received):
        transport = CheckedTransport(EgressRules.parse(name), trusting, to_loopback)
        await post(f"https://{name}:{port}/slack", transport)
    return received[0].rpartition(":")[0]


async def test_a_certificate_is_good_for_its_name_although_the_address_is_pinned(
    certificate: tuple[Path, Path],
) -> None:
    assert await over_tls("hooks.example", certificate) == "hooks.example"


async def test_a_certificate_of_another_name_is_refused(certificate: tuple[Path, Path]) -> None:
    with pytest.raises(httpx.ConnectError, match="Hostname mismatch"):
        await over_tls("other.example", certificate)


@pytest.mark.parametrize(("name", "good"), [("hooks.example", True), ("other.example", False)])
async def test_a_pool_checks_a_certificate_against_the_name(
    certificate: tuple[Path, Path], name: str, *, good: bool
) -> None:
    def post_to(port: int) -> str:
        with urllib3.PoolManager(retries=False, timeout=5.0, ca_certs=str(made)) as manager:
            manager.pool_classes_by_scheme = dict(
                pools(EgressRules.parse(name), resolver=lambda *_: [parse("127.0.0.1")])
            )
            try:
                return manager.request("POST", f"https://{name}:{port}/slack").data.decode()
            except urllib3.exceptions.SSLError as error:
                return str(error)

    made, key = certificate
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(made, key)
    async with listening(serving) as (port, _):
        said = await asyncio.to_thread(post_to, port)

    assert said == "ok" if good else "Hostname mismatch" in said
