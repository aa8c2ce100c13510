"""Attacks on the way out of a driver: a tenant's own address of a sink, at a real listener on loopback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
import structlog
from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from services.runtime.tests.serving import serving
from services.runtime.tests.sink_influx import LAYOUT, rows

from daggerspec.selection import Selection
from runtime import sinks
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Source, Target, influx

LOOPBACK = ("127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost")
ENFORCED = spec_pb2.Egress(enforce=True)


class Database:
    """Listens as InfluxDB does, and keeps what a request brought."""

    def __init__(self, server: HTTPServer) -> None:
        self.port = server.server_port
        self.received: list[tuple[str, str]] = []
        """Path, and the token that was shown."""


@contextmanager
def listening() -> Iterator[Database]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            database.received.append((self.path.partition("?")[0], self.headers.get("authorization", "")))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        database = Database(server)
        with serving(server):
            yield database


def target(url: str, token: Path, egress: spec_pb2.Egress | None) -> Target:
    sink = spec_pb2.ResolvedSink(egress=egress)
    sink.sink.influx.measurement = "m"
    address = sink.sink.influx.address
    address.url, address.org, address.bucket, address.token.file = url, "-", "b", str(token)
    return Target("d", sink.SerializeToString(), LAYOUT, rows([], pa.int64()).schema, b"", updates=False)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("canary")
    return tmp_path / "token"


@pytest.mark.parametrize("host", LOOPBACK)
def test_an_address_of_a_tenant_that_leads_inward_gets_no_row_and_no_token(host: str, token: Path) -> None:
    with listening() as database:
        aimed = target(f"http://{host}:{database.port}", token, ENFORCED)
        for attempt in range(2):  # each is judged
            with pytest.raises(JobError) as refused:
                sinks.open_writer(aimed).write(rows([attempt], pa.int64()), attempt)
            assert refused.value.error.reason == "SINK_ADDRESS_REFUSED"
        with pytest.raises(JobError):
            sinks.check(aimed)

    assert database.received == []


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fd00:ec2::254]", "168.63.129.16", "[::ffff:a9fe:a9fe]"]
)
def test_metadata_is_refused_whatever_networks_are_allowed(host: str, token: Path) -> None:
    egress = spec_pb2.Egress(enforce=True, networks="169.254.0.0/16, fd00::/8, 168.63.0.0/16")

    with pytest.raises(JobError) as refused:
        sinks.open_writer(target(f"http://{host}", token, egress)).write(rows([1], pa.int64()), 0)

    assert refused.value.error.reason == "SINK_ADDRESS_REFUSED"
    assert "canary" not in refused.value.error.detail


def test_rows_are_not_read_from_there_either(token: Path, tmp_path: Path) -> None:
    with listening() as database:
        resolved = target(f"http://127.0.0.1:{database.port}", token, ENFORCED).resolved
        with pytest.raises(JobError) as refused:
            influx.read(Source("d", resolved, FileDescriptorSet(), tmp_path), Selection(10))

    assert (refused.value.error.reason, database.received) == ("SINK_ADDRESS_REFUSED", [])


@pytest.mark.parametrize(
    "egress",
    [None, spec_pb2.Egress(enforce=True, networks="127.0.0.0/8"), spec_pb2.Egress()],
    ids=["registered by an administrator", "in a network that is allowed", "observed"],
)
def test_what_may_be_reached_gets_its_rows(egress: spec_pb2.Egress | None, token: Path) -> None:
    with listening() as database:
        outcome = sinks.open_writer(target(f"http://127.0.0.1:{database.port}", token, egress)).write(
            rows([1], pa.int64()), 0
        )

    assert outcome.refused == []
    assert database.received == [("/api/v2/write", "Token canary")]


def test_a_name_is_asked_for_once_and_not_again_for_the_connection(
    token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns a name answers with a public address first, and with loopback from then on."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: str, port: int, *args: object, **more: object) -> object:
        if host == "influx.tenant.example":
            asked.append(host)
            host = "127.0.0.2" if len(asked) == 1 else "127.0.0.1"
        return real(host, port, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    with listening() as database:
        egress = spec_pb2.Egress(enforce=True, networks="127.0.0.2/32")
        aimed = target(f"http://influx.tenant.example:{database.port}", token, egress)
        with pytest.raises(TemporaryError):  # nobody listens where the name was first
            sinks.open_writer(aimed).write(rows([1], pa.int64()), 0)

    assert (asked, database.received) == (["influx.tenant.example"], [])


def test_what_would_be_refused_is_said_once(token: Path, capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()  # as in a worker
    with listening() as database:
        writer = sinks.open_writer(target(f"http://127.0.0.1:{database.port}", token, spec_pb2.Egress()))
        for batch in range(3):
            writer.write(rows([batch], pa.int64()), batch)

    lines = [line for line in capsys.readouterr().err.splitlines() if "egress.refusal_observed" in line]
    assert len(lines) == 1
    assert "canary" not in lines[0]
