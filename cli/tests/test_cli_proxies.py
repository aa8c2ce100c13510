"""The environment's proxies: a gateway is never asked by them, a provider is, one on loopback not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from services.runtime.tests import httpserver
from services.runtime.tests.certificates import context_of_server, self_signed
from services.runtime.tests.httpserver import Reply
from tests.forwardproxy import serving

from chassis.egress.proxies import VARIABLES
from cli.errors import RefusedError, UnreachableError
from cli.login import provider

OUTSIDE = "login.invalid"


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "DAGGERS_OIDC_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_gateway_is_asked_by_the_proxy_that_is_set_for_it_and_by_no_other(
    shell: Any, tmp_path: Path
) -> None:
    _, _, port = shell.address.rpartition(":")

    def asked(gateway: str, **more: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "cli", "list", "--gateway", gateway],
            capture_output=True, text=True, check=False, timeout=60,
            env={"PATH": os.defpath, "HOME": str(tmp_path), **more},
        )  # fmt: skip
        return done.returncode

    with serving({"gateway.invalid": int(port)}) as proxy:
        every = {name: proxy.url for name in VARIABLES if not name.lower().startswith("no")}
        assert (asked(shell.address, **every), proxy.asked) == (0, [])
        assert (asked(f"gateway.invalid:{port}", **every), proxy.asked) == (3, [])
        assert asked(f"gateway.invalid:{port}", DAGGERS_GATEWAY_PROXY=proxy.url) == 0
        assert proxy.asked == [f"CONNECT gateway.invalid:{port}"]


def test_a_provider_is_asked_by_the_proxy_and_one_on_loopback_never(monkeypatch: pytest.MonkeyPatch) -> None:
    with httpserver.serving() as server, serving({OUTSIDE: int(server.url.rpartition(":")[2])}) as proxy:
        server.answer = lambda _: Reply(body=b'{"a": 1}')
        monkeypatch.setenv("http_proxy", proxy.url)

        for url, asked in ((server.url, 0), (f"http://{OUTSIDE}", 1)):
            assert provider._answer(url, "GET", f"{url}/x") == {"a": 1}
            assert len(proxy.asked) == asked
        monkeypatch.setenv("DAGGERS_OIDC_PROXY", "direct")
        with pytest.raises(UnreachableError):
            provider._answer(OUTSIDE, "GET", f"http://{OUTSIDE}/x")
        monkeypatch.setenv("DAGGERS_OIDC_PROXY", "socks5://p:1")
        with pytest.raises(RefusedError, match="DAGGERS_OIDC_PROXY must be http"):
            provider._answer(OUTSIDE, "GET", f"http://{OUTSIDE}/x")


def test_a_provider_that_speaks_tls_is_asked_through_a_tunnel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path, "provider", about=f"DNS:{OUTSIDE}")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    with httpserver.serving(tls=context_of_server(certificate)) as server:
        server.answer = lambda _: Reply(body=b'{"a": 1}')
        with serving({OUTSIDE: int(server.url.rpartition(":")[2])}) as proxy:
            monkeypatch.setenv("https_proxy", proxy.url)

            assert provider._answer(OUTSIDE, "GET", f"https://{OUTSIDE}/x") == {"a": 1}
            assert proxy.asked == [f"CONNECT {OUTSIDE}:443"]
