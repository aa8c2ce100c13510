"""Authorities of an operator are trusted by all that calls others, as the entrypoint of containers has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from services.runtime.tests.certificates import context_of_server, self_signed
from services.runtime.tests.serving import serving

from chassis.egress import proxies

SCRIPT = Path(__file__).parents[2] / "deploy" / "compose" / "image" / "trust.sh"
TRIES = """
import asyncio, sys

import httpx, httpx2
from api_gateway.auth.oidc import build_fetch
from chassis.egress.addresses import EgressRules
from daggers.v1 import spec_pb2
from health_monitor.deliver.webhook import Webhooks
from runtime.clients import handshake
from cli.login import provider

url = sys.argv[1]
fetched = asyncio.run(build_fetch(url, EgressRules())(url))
commanded = provider._answer(url, "GET", url)
paged = httpx2.get(url).json()
told = Webhooks(EgressRules.parse(url.removeprefix("https://")))
hooked = httpx.get(url, verify=told._context).json()
driven = httpx.get(url, verify=handshake.context("", spec_pb2.ClientTls(), url, "it")).json()
print(fetched == commanded == paged == hooked == driven == {"trusted": True})
"""


class Trusted(BaseHTTPRequestHandler):
    """Answers whoever takes its certificate."""

    def do_GET(self) -> None:
        body = b'{"trusted": true}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def signed(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Address of a server whose certificate nobody knows, and the certificate."""
    own = self_signed(tmp_path, "localhost", about="DNS:localhost")
    with ThreadingHTTPServer(("127.0.0.1", 0), Trusted) as server:
        server.socket = context_of_server(own).wrap_socket(server.socket, server_side=True)
        with serving(server):
            yield f"https://localhost:{server.server_port}", own.file


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("trusts", [True, False])
def test_an_authority_of_ones_own_is_trusted_by_gateway_command_pages_monitor_and_drivers(
    signed: tuple[str, Path], tmp_path: Path, trusts: bool
) -> None:
    """What the entrypoint sets is what a container's processes have, and what drivers are handed."""
    url, certificate = signed
    own = tmp_path / "authorities"
    own.mkdir()
    if trusts:
        (own / "own.pem").write_text(certificate.read_text().rstrip())
    environment = {"PATH": os.defpath, "DAGGERS_AUTHORITIES": str(own), "TMPDIR": str(tmp_path)}
    told = subprocess.run(
        ["sh", SCRIPT, sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"],
        check=True, capture_output=True, text=True, timeout=60, env=environment,
    )  # fmt: skip
    driver = proxies.proxy_variables(json.loads(told.stdout))
    done = subprocess.run(
        [sys.executable, "-c", TRIES, url], check=False, capture_output=True, text=True, timeout=60,
        env=driver | {"PATH": os.defpath},
    )  # fmt: skip

    assert (done.returncode == 0, done.stdout) == (trusts, "True\n" if trusts else ""), done.stderr
    assert trusts or "does not answer: ConnectError" in done.stderr
    assert sorted(driver) == (["AWS_CA_BUNDLE", "SSL_CERT_FILE"] if trusts else [])
    if trusts:
        assert Path(driver["SSL_CERT_FILE"]).read_text().count("BEGIN CERTIFICATE") > 1
