"""Sinks whose server demands a certificate of who calls: real handshakes, over HTTP and gRPC."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import grpcserver
from services.runtime.tests.certificates import self_signed
from services.runtime.tests.serving import serving
from services.runtime.tests.sink_cases import grpc as grpc_case
from services.runtime.tests.sink_cases import http as http_case
from services.runtime.tests.sink_contract import batch, many, target
from services.runtime.tests.testsinks import tried

from runtime import sinks
from runtime.clients import calls, sending
from runtime.clients.http import client
from runtime.errors import JobError

NAME = "crm.example"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates that sign themselves: the server's, of NAME alone, ours, and a stranger's."""
    folder = tmp_path_factory.mktemp("certificates")
    for name, about in (("server", f"DNS:{NAME}"), ("ours", "DNS:ours"), ("stranger", "DNS:stranger")):
        self_signed(folder, name, about=about)
    return folder


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    yield
    client.pool.clear()
    calls.pool.clear()


@contextmanager
def demanding(made: Path) -> Iterator[tuple[str, list[bytes]]]:
    """The URL of an HTTPS server that demands our certificate, and what it got."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.do_HEAD()

        def do_HEAD(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *args: object) -> None:
            """A handshake that fails is what is tested."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made / "server.pem", made / "server.key")
    context.load_verify_locations(made / "ours.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with Quiet(("127.0.0.1", 0), Handler) as listening:
        listening.socket = context.wrap_socket(
            listening.socket, server_side=True, do_handshake_on_connect=False
        )
        with serving(listening):
            yield f"https://127.0.0.1:{listening.server_port}", received


def shown(made: Path, certificate: str = "ours", key: str = "ours", name: str = NAME) -> dict[str, Any]:
    return {
        "tls": spec_pb2.Tls(ca_file=str(made / "server.pem")),
        "client_tls": spec_pb2.ClientTls(
            client_certificate_file=str(made / f"{certificate}.pem"),
            client_key=spec_pb2.SecretRef(file=str(made / f"{key}.key")),
            server_name=name,
        ),
    }


def write(resolved: spec_pb2.ResolvedSink) -> None:
    sinks.open_writer(target("d", resolved, grpcserver.DESCRIPTORS)).write(batch(many(1)), 0)


def reason(ask: Callable[[], Any]) -> str:
    with pytest.raises(JobError) as caught:
        ask()
    return caught.value.error.reason


def test_an_https_server_is_shown_the_certificate_that_it_demands(made: Path) -> None:
    none = {"tls": shown(made)["tls"], "client_tls": spec_pb2.ClientTls(server_name=NAME)}
    with demanding(made) as (url, received):
        wrong = [
            reason(lambda said=said: write(http_case.sink(url, **said)))  # type: ignore[misc]
            for said in (
                none,
                shown(made, "stranger", "stranger"),
                shown(made, key="stranger"),
                shown(made, name=""),
                shown(made, "nothing"),
            )
        ]
        assert received == []
        write(http_case.sink(url, **shown(made)))

    assert wrong == ["SINK_TLS"] * 5
    assert len(received) == 1


def test_a_grpc_server_is_shown_the_certificate_that_it_demands(made: Path) -> None:
    pair = [((made / "server.key").read_bytes(), (made / "server.pem").read_bytes())]
    own = grpcserver.Server()
    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[own])
    demands = grpc.ssl_server_credentials(pair, (made / "ours.pem").read_bytes(), require_client_auth=True)
    place = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', demands)}"
    server.start()
    try:
        none = {"tls": shown(made)["tls"], "client_tls": spec_pb2.ClientTls(server_name=NAME)}
        for said in (none, shown(made, "stranger", "stranger")):
            each = grpc_case.sink(place, plaintext=False, **said)
            assert reason(lambda each=each: write(each)) in ("SINK_TLS", "SINK_UNAVAILABLE")  # type: ignore[misc]
        for said in (shown(made, key="stranger"), shown(made, name="")):
            each = grpc_case.sink(place, plaintext=False, **said)
            assert reason(lambda each=each: write(each)) == "SINK_TLS"  # type: ignore[misc]
        assert own.received == []
        write(grpc_case.sink(place, plaintext=False, **shown(made)))
    finally:
        server.stop(0.1).wait(10)

    assert len(own.received) == 1


def test_a_certificate_that_is_renewed_is_shown_without_a_launch(made: Path, tmp_path: Path) -> None:
    def renew(name: str) -> None:
        for end in ("pem", "key"):
            shutil.copy(made / f"{name}.{end}", tmp_path / f"own.{end}")

    said = shown(made)
    said["client_tls"].client_certificate_file = str(tmp_path / "own.pem")
    said["client_tls"].client_key.file = str(tmp_path / "own.key")
    with demanding(made) as (url, received):
        renew("stranger")
        assert reason(lambda: write(http_case.sink(url, **said))) == "SINK_TLS"
        renew("ours")
        write(http_case.sink(url, **said))

    assert len(received) == 1


def test_a_key_goes_to_the_server_of_its_secret_alone(made: Path) -> None:
    said = shown(made)
    said["client_tls"].client_key.addresses.append("https://crm.example")
    with demanding(made) as (url, received):
        assert reason(lambda: write(http_case.sink(url, **said))) == "SECRET_ADDRESS"
        assert received == []


def test_a_trial_shakes_hands_with_the_certificate(made: Path) -> None:
    with demanding(made) as (url, _):
        good = tried(http_case.sink(url, **shown(made)))
        client.pool.clear()
        bad = tried(http_case.sink(url, **shown(made, key="stranger")))

    before = [("http", step, "") for step in ("secrets", "address", "connect")]
    assert good == [*before, ("http", "tls", ""), ("http", "ask", "")]
    assert bad == [*before, ("http", "tls", "SINK_TLS")]
