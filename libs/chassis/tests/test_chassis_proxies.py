"""By which proxy a call leaves: what the environment says, a setting, and what never goes by one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from services.runtime.tests import httpserver
from services.runtime.tests.certificates import context_of_server, self_signed
from tests.forwardproxy import serving

from chassis.egress import proxies
from chassis.egress.addresses import AddressRefused, EgressRules
from chassis.egress.proxies import Proxies
from chassis.egress.transport import CheckedTransport


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in proxies.VARIABLES:
        monkeypatch.delenv(name, raising=False)


def told(monkeypatch: pytest.MonkeyPatch, own: str = "", **said: str) -> Proxies:
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    return Proxies.of_environment(own)


@pytest.mark.parametrize(
    ("said", "scheme", "expected"),
    [
        ({}, "http", None),
        ({"http_proxy": "http://p:1"}, "http", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https", None),
        ({"HTTPS_PROXY": "p:1"}, "https", "http://p:1"),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://UP:1"}, "https", "http://low:1"),
        ({"ALL_PROXY": "http://p:1"}, "https", "http://p:1"),
        ({"all_proxy": "http://a:1", "https_proxy": "http://p:1"}, "https", "http://p:1"),
        ({"all_proxy": "socks5://p:1"}, "https", None),
        ({"https_proxy": ""}, "https", None),
    ],
)
def test_the_environment_says_the_proxy_of_a_scheme(
    monkeypatch: pytest.MonkeyPatch, said: Mapping[str, str], scheme: str, expected: str | None
) -> None:
    assert told(monkeypatch, **said).of(scheme, "hooks.example", 443) == expected


@pytest.mark.parametrize(
    ("exempt", "host", "is_direct"),
    [
        ("", "hooks.example", False),
        ("hooks.example", "hooks.example", True),
        ("hooks.example", "HOOKS.example.", True),
        ("example", "hooks.example", True),
        (".example", "hooks.example", True),
        ("*.example", "hooks.example", True),
        ("ooks.example", "hooks.example", False),
        ("a, hooks.example:443", "hooks.example", True),
        ("hooks.example:80", "hooks.example", False),
        ("*", "hooks.example", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("fd00::/8", "[fd00::1]", True),
        ("", "localhost", True),
        ("", "db.localhost", True),
        ("", "127.0.0.1", True),
        ("", "127.9.9.9", True),
        ("", "[::1]", True),
        ("", "0.0.0.0", True),
    ],
)
def test_who_is_exempt_and_whoever_is_on_loopback_is_called_directly(
    monkeypatch: pytest.MonkeyPatch, exempt: str, host: str, is_direct: bool
) -> None:
    found = told(monkeypatch, http_proxy="http://p:1", https_proxy="http://p:1", no_proxy=exempt)

    assert (found.of("https", host, 443) is None) == is_direct


def test_a_setting_goes_before_the_environment_and_leaves_who_is_exempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = {"https_proxy": "http://env:1", "NO_PROXY": "inside.example"}
    own = told(monkeypatch, "http://own:2", **said)

    assert own.of("https", "hooks.example", 443) == "http://own:2"
    assert own.of("https", "inside.example", 443) is None
    assert told(monkeypatch, "direct", **said).of("https", "hooks.example", 443) is None
    with pytest.raises(ValueError, match="must be http") as wrong:
        told(monkeypatch, "socks5://u:canary@p:1", **said)
    assert "canary" not in str(wrong.value)


def test_a_child_leaves_as_the_setting_says() -> None:
    inherited = {"https_proxy": "http://env:1", "NO_PROXY": "a", "HOME": "/"}

    assert proxies.handed_on(inherited) == inherited
    assert proxies.handed_on(inherited, "direct") == {"NO_PROXY": "a", "HOME": "/"}
    assert proxies.proxy_variables(proxies.handed_on(inherited, "http://own:2")) == {
        "http_proxy": "http://own:2",
        "https_proxy": "http://own:2",
        "NO_PROXY": "a",
    }


def test_a_child_trusts_whom_its_parent_trusts() -> None:
    inherited = {"SSL_CERT_FILE": "/own.pem", "AWS_CA_BUNDLE": "/own.pem", "HOME": "/"}

    assert proxies.proxy_variables(inherited) == {"SSL_CERT_FILE": "/own.pem", "AWS_CA_BUNDLE": "/own.pem"}


def leaving(proxy: str, resolved: dict[str, str], allowed: str = "") -> httpx.AsyncClient:
    """A client as webhooks have it, where names resolve so and others do not."""

    async def resolve(host: str, port: int) -> list[object]:
        if host not in resolved:
            raise OSError(host)
        return [ip_address(resolved[host])]

    by = Proxies({"http": proxy, "https": proxy})
    transport = CheckedTransport(EgressRules.parse(allowed), ssl.create_default_context(), resolve, by)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, trust_env=False)


async def test_what_leaves_goes_by_the_proxy_which_is_told_the_name() -> None:
    with httpserver.serving() as server, serving({"hooks.example": port(server)}, "me:pass") as proxy:
        async with leaving(proxy.url, {"hooks.example": "1.1.1.1"}, "hooks.example") as client:
            answer = await client.post("http://hooks.example/x?y=1", content=b"hello")
        assert (answer.status_code, [got.body for got in server.received]) == (200, [b"hello"])
        assert proxy.asked == ["POST http://hooks.example/x?y=1"]


@pytest.mark.parametrize("name", ["hooks.example", "other.example"])
async def test_tls_goes_through_a_tunnel_and_the_certificate_has_to_be_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    certificate = self_signed(tmp_path, "server", about="DNS:hooks.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    answered: list[int] = []
    with (
        httpserver.serving(tls=context_of_server(certificate)) as server,
        serving({name: port(server)}, "me:pass") as proxy,
    ):
        async with leaving(proxy.url, {name: "1.1.1.1"}) as client:
            with suppress(httpx.ConnectError):
                answered.append((await client.post(f"https://{name}/x", content=b"hello")).status_code)
        await asyncio.sleep(0.01)  # a connection whose certificate was refused ends in the loop's next rounds
        assert proxy.asked == [f"CONNECT {name}:443"]
        assert (answered, len(server.received)) == (([200], 1) if name == "hooks.example" else ([], 0))


async def test_a_name_that_the_proxy_alone_knows_is_asked_for_there() -> None:
    with httpserver.serving() as server, serving({"hooks.example": port(server)}) as proxy:
        async with leaving(proxy.url, {}, "hooks.example") as client:
            assert (await client.get("http://hooks.example/")).status_code == 200
        assert len(proxy.asked) == 1


@pytest.mark.parametrize("address", ["169.254.169.254", "10.0.0.1", "100.100.100.200"])
async def test_an_address_that_may_not_be_reached_is_refused_before_the_proxy_is_asked(address: str) -> None:
    with serving({}) as proxy:
        async with leaving(proxy.url, {"inward.example": address, address: address}) as client:
            for host in ("inward.example", address):
                with pytest.raises(AddressRefused):
                    await client.get(f"https://{host}/")
        assert proxy.asked == []


async def test_what_is_on_loopback_is_called_without_the_proxy_by_its_name_too() -> None:
    with httpserver.serving() as server, serving({}) as proxy:
        async with leaving(proxy.url, {"here.example": "127.0.0.1", "127.0.0.1": "127.0.0.1"},
                           "here.example, 127.0.0.1") as client:  # fmt: skip
            for host in ("here.example", "127.0.0.1"):
                assert (await client.get(f"http://{host}:{port(server)}/")).status_code == 200
        assert proxy.asked == []


def port(server: httpserver.Server) -> int:
    return int(server.url.rpartition(":")[2])
