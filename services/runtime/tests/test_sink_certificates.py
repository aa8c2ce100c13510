"""Servers that are known by their certificates: which are trusted, and what is said of the others."""

from __future__ import annotations

import os
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import grpcserver
from services.runtime.tests.certificates import Certificate, self_signed
from services.runtime.tests.serving import serving
from services.runtime.tests.sink_cases import grpc, http, postgres, redis
from services.runtime.tests.sink_contract import batch, influx_sink, many, target
from tests import postgres as postgres_server
from tests import redis as redis_server

from runtime import sinks
from runtime.clients import sending
from runtime.errors import JobError

pytestmark = pytest.mark.integration
HERE, ELSEWHERE = "127.0.0.1", "localhost"
Sink = spec_pb2.ResolvedSink
Trusting = Callable[[str, Path | str], Sink]
"""The sink at a host, which trusts whom a file names; without one, whom the system does."""
Serving = Callable[[Certificate, Path], AbstractContextManager[Trusting]]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)


@contextmanager
def https(own: Certificate, port: int = 0) -> Iterator[str]:
    """The address of a server, with a place for its host."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.file, own.key)
    with HTTPServer((HERE, port), Handler) as listening:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
        with serving(listening):
            yield f"https://{{}}:{listening.server_port}"


@contextmanager
def over_http(own: Certificate, folder: Path, port: int = 0) -> Iterator[Trusting]:
    del folder
    with https(own, port) as url:
        yield lambda host, ca: http.sink(url.format(host), tls=spec_pb2.Tls(ca_file=str(ca)))


@contextmanager
def to_influx(own: Certificate, folder: Path) -> Iterator[Trusting]:
    (folder / "token").write_text("t")
    with https(own) as url:
        said = {"org": "o", "bucket": "b", "token_file": str(folder / "token")}
        yield lambda host, _: influx_sink({"url": url.format(host), **said}, "m")


@contextmanager
def to_s3(own: Certificate, folder: Path) -> Iterator[Trusting]:
    (folder / "key").write_text("name:secret")

    def trusting(host: str, _: Path | str) -> Sink:
        made = spec_pb2.ResolvedSink(egress=spec_pb2.Egress(enforce=True, networks="127.0.0.0/8"))
        made.sink.parquet.location, made.sink.parquet.table = "s3://b/lake", "counts"
        made.sink.parquet.endpoint, made.sink.parquet.region = url.format(host), "us-east-1"
        made.sink.parquet.credentials.file = str(folder / "key")
        return made

    with https(own) as url:
        yield trusting


@contextmanager
def over_grpc(own: Certificate, folder: Path, port: int = 0) -> Iterator[Trusting]:
    del folder
    with grpcserver.serving(port, certificate=own.with_key()) as server:
        yield lambda host, ca: grpc.sink(
            server.target.replace(HERE, host), plaintext=False, tls=spec_pb2.Tls(ca_file=str(ca))
        )


@contextmanager
def to_redis(own: Certificate, folder: Path) -> Iterator[Trusting]:
    with redis_server.serving() as (address, password), redis_server.client(address, password) as looking:
        files = {"tls-key-file": own.key, "tls-cert-file": own.file, "tls-ca-cert-file": own.file}
        said: dict[str, Any] = {**files, "tls-auth-clients": "no", "port": "0"}
        said["tls-port"] = address.rpartition(":")[2]
        for name, word in said.items():  # Redis 6.2 takes one at a time
            looking.config_set(name, str(word))

        def trusting(host: str, ca: Path | str) -> Sink:
            made = redis.sink(address.replace(HERE, host), password, folder, plaintext=False)
            made.sink.redis.tls.ca_file = str(ca)
            return made

        yield trusting


@contextmanager
def to_postgres(own: Certificate, folder: Path) -> Iterator[Trusting]:
    with postgres_server.serving() as url:
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            if connection.execute("SHOW ssl_library").fetchone() == ("",):
                pytest.skip("this PostgreSQL has no TLS (Debian: apt-get install postgresql)")
            [(data,)] = connection.execute("SHOW data_directory")
            for setting, file in (("ssl_cert_file", own.file), ("ssl_key_file", own.key)):
                there = Path(data) / file.name
                shutil.copy(file, there)
                there.chmod(0o600)
                os.chown(there, (owner := Path(data).stat()).st_uid, owner.st_gid)
                connection.execute(f"ALTER SYSTEM SET {setting} = '{file.name}'")
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("SELECT pg_reload_conf()")
        assert urlsplit(url).hostname == HERE

        def trusting(host: str, ca: Path | str) -> Sink:
            made, _ = postgres.sink(url, folder)
            made.sink.postgres.address.host = host
            made.sink.postgres.address.tls.ca_file = str(ca)
            return made

        yield trusting


def told(resolved: Sink) -> str:
    """Why a sink cannot be written to."""
    with pytest.raises(JobError) as refused:
        sinks.check(target("d", resolved, grpcserver.DESCRIPTORS))
    return str(refused.value.error.reason)


def write(resolved: Sink) -> None:
    """Write a row."""
    aimed = target("d", resolved, grpcserver.DESCRIPTORS)
    sinks.check(aimed)
    writer = sinks.open_writer(aimed)
    assert list(writer.write(batch(many(1)), 0).refused) == []
    assert list(writer.finish().refused) == []


@pytest.mark.parametrize("serve", [over_http, over_grpc, to_redis, to_postgres])
def test_a_server_is_known_by_a_certificate_of_its_name_that_is_trusted_and_not_over(
    serve: Serving, tmp_path: Path
) -> None:
    own, stranger = self_signed(tmp_path, "own"), self_signed(tmp_path, "stranger")
    expired = self_signed(tmp_path, "expired", days=-1)

    with serve(own, tmp_path) as trusting:
        write(trusting(HERE, own.file))
        wrong = {
            "another issuer": told(trusting(HERE, stranger.file)),
            "another name": told(trusting(ELSEWHERE, own.file)),
            "no such file": told(trusting(HERE, tmp_path / "none.pem")),
        }
    with serve(expired, tmp_path) as trusting:
        wrong["expired"] = told(trusting(HERE, expired.file))

    assert wrong == dict.fromkeys(wrong, "SINK_TLS")


@pytest.mark.parametrize("serve", [over_http, over_grpc, to_redis, to_influx, to_s3])
def test_without_a_file_only_the_issuers_that_the_system_knows_are_trusted(
    serve: Serving, tmp_path: Path
) -> None:
    with serve(self_signed(tmp_path, "own"), tmp_path) as trusting:
        assert told(trusting(HERE, "")) == "SINK_TLS"


@pytest.mark.parametrize("serve", [over_http, over_grpc])
def test_a_server_whose_certificate_and_issuer_are_renewed_is_written_to_without_a_launch(
    serve: Callable[[Certificate, Path, int], AbstractContextManager[Trusting]], tmp_path: Path
) -> None:
    old, new = self_signed(tmp_path, "old"), self_signed(tmp_path, "new")
    trusted = tmp_path / "ca.pem"
    shutil.copy(old.file, trusted)
    with serve(old, tmp_path, 0) as trusting:
        sink = trusting(HERE, trusted)
        write(sink)
    place = sink.sink.http.url or sink.sink.grpc.target
    with serve(new, tmp_path, int(place.rpartition(":")[2])):
        with pytest.raises(JobError) as refused:
            write(sink)
        shutil.copy(new.file, trusted)
        write(sink)

    assert (refused.value.error.reason, refused.value.error.retryable) == ("SINK_TLS", True)
