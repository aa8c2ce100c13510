"""A secret is read from a file of its own alone, and sent to its addresses alone: by attack."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from daggerspec.secrets import MAX_BYTES
from daggerspec.selection import Selection
from runtime.clients.kafka import client_properties
from runtime.clients.secrets import resolve
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Source
from runtime.sinks import influx as influx_sink

CANARY = "canary-4c1f"
HERE = "http://influx:8086"


@dataclass
class Listener:
    """A server of whoever wants to have the secrets of others."""

    url: str = ""
    heard: list[str] = field(default_factory=list)
    """What each request said, headers and all."""


@contextmanager
def listening(redirects_to: str = "") -> Iterator[Listener]:
    listener = Listener()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            listener.heard.append(f"{self.path} {self.headers} {body!r}")
            self.send_response(307 if redirects_to else 204)
            if redirects_to:
                self.send_header("Location", redirects_to)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    file = tmp_path / "canary"
    file.write_text(CANARY)
    return file


def written(url: str, token: spec_pb2.SecretRef) -> None:
    """What a worker does with a point for this address."""
    sink = spec_pb2.ResolvedSink()
    sink.sink.influx.address.CopyFrom(spec_pb2.InfluxAddress(url=url, org="-", bucket="b", token=token))
    influx_sink._post(sink, "m n=1i 1")


def test_a_token_goes_to_its_own_address(canary: Path) -> None:
    with listening() as theirs:
        written(theirs.url, spec_pb2.SecretRef(file=str(canary), addresses=[theirs.url]))

    assert len(theirs.heard) == 1
    assert CANARY in theirs.heard[0]


def test_a_token_goes_to_no_other_address_and_no_request_does(canary: Path) -> None:
    token = spec_pb2.SecretRef(file=str(canary), addresses=[HERE])
    sink = spec_pb2.ResolvedSink()
    with listening() as mine:
        sink.sink.influx.address.MergeFrom(spec_pb2.InfluxAddress(url=mine.url, bucket="b", token=token))
        with pytest.raises(JobError) as writing:
            written(mine.url, token)
        with pytest.raises(JobError) as reading:
            influx_sink.read(Source("d", sink, FileDescriptorSet(), Path()), Selection(1))

    assert [each.value.error.reason for each in (writing, reading)] == ["SECRET_ADDRESS"] * 2
    assert CANARY not in writing.value.error.detail
    assert mine.heard == []


def test_a_server_cannot_have_a_token_sent_on_to_another(canary: Path) -> None:
    with listening() as mine, listening(f"{mine.url}/stolen") as theirs:
        token = spec_pb2.SecretRef(file=str(canary), addresses=[theirs.url])
        with suppress(JobError, TemporaryError):  # whether it is followed is another rule's
            written(theirs.url, token)

    assert CANARY in theirs.heard[0]
    assert CANARY not in "".join(mine.heard)


def test_a_password_goes_to_no_other_kafka(canary: Path) -> None:
    address = spec_pb2.KafkaAddress(bootstrap_servers="kafka:9092")
    password = address.secret_properties["sasl.password"]
    password.CopyFrom(spec_pb2.SecretRef(file=str(canary), addresses=["kafka:9092"]))

    assert client_properties(address)["sasl.password"] == CANARY

    address.bootstrap_servers = "kafka:9092,mine:9092"
    with pytest.raises(JobError, match="only to kafka:9092") as refused:
        client_properties(address)

    assert CANARY not in refused.value.error.detail


def detail_of(path: str) -> str:
    with pytest.raises(JobError) as refused:
        resolve(spec_pb2.SecretRef(file=path), HERE)
    assert refused.value.error.reason == "SECRET_MISSING"
    return refused.value.error.detail


@pytest.mark.parametrize("path", ["/proc/self/environ", "/dev/zero", "/dev/null", "/proc/1/cmdline", "/dev"])
def test_what_processes_and_devices_say_is_no_secret(path: str, tmp_path: Path) -> None:
    link = tmp_path / "token"
    link.symlink_to(path)

    for each in (path, str(link)):
        assert "it is not a regular file" in detail_of(each) or "Is a directory" in detail_of(each)


def test_a_pipe_that_nobody_writes_to_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")

    assert "it is not a regular file" in detail_of(str(tmp_path / "token"))


def test_a_secret_has_64_kib_at_most(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x" * MAX_BYTES)
    whole = resolve(spec_pb2.SecretRef(file=str(file)), HERE)
    file.write_text("x" * (MAX_BYTES + 1))

    assert len(whole) == MAX_BYTES
    assert "it has more than 64 KiB" in detail_of(str(file))


def test_a_link_to_a_file_of_secrets_is_followed(canary: Path, tmp_path: Path) -> None:
    link = tmp_path / "mounted"
    link.symlink_to(canary)

    assert resolve(spec_pb2.SecretRef(file=str(link)), HERE) == CANARY
