"""Secrets in what clients say: servers that quote what they refuse, libraries that quote what they get.

Real clients speak to a socket that answers badly; what stands in driver.log is this process's stderr.
"""

from __future__ import annotations

import io
import json
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import structlog
from daggers.v1 import spec_pb2

from chassis.lines import stamp_of
from daggerspec.topics import QUARANTINE
from runtime import hiding
from runtime.errors import JobError
from runtime.sinks import influx as influx_sink
from runtime.spark.daemon import hide_secrets

CANARY = "canary-9d2e"
_API_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_UNSUPPORTED, _REFUSED = 35, 58


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _answer(api: int, version: int, body: bytes) -> bytes:
    """What this broker says: it takes no password, and says which it was told."""
    if api == _API_VERSIONS:
        known = ((_API_VERSIONS, 0), (_HANDSHAKE, 1), (_AUTHENTICATE, 0), (3, 1), (0, 3))
        error = _UNSUPPORTED if version else 0
        return struct.pack(">hi", error, len(known)) + b"".join(
            struct.pack(">hhh", k, 0, v) for k, v in known
        )
    if api == _HANDSHAKE:
        return struct.pack(">hi", 0, 1) + _text("PLAIN")
    told = body[4:].decode().replace("\0", " ")
    return struct.pack(">h", _REFUSED) + _text(f"nobody is {told}") + struct.pack(">i", 0)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (piece := connection.recv(size - len(data))):
            raise ConnectionResetError
        data += piece
    return data


def _serve(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while True:
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            request = _exactly(connection, size)
            api, version, correlation, named = struct.unpack(">hhih", request[:10])
            said = struct.pack(">i", correlation) + _answer(api, version, request[10 + max(named, 0) :])
            connection.sendall(struct.pack(">i", len(said)) + said)


@contextmanager
def broker() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=_serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


# Each client of a driver, until it was refused; and properties that librdkafka does not take.
_DRIVER = """
import logging, sys, time
from confluent_kafka import Producer
from daggers.v1 import spec_pb2
from runtime import daemon
from runtime.clients.kafka import LOG, client, client_properties
from runtime.errors import JobError
from runtime.source.offsets import Partition
from runtime.source.planner import broker
from runtime.source.reader import consumers
from runtime.source.reader.python_consumer import PythonConsumer

daemon.load()
address = spec_pb2.KafkaAddress(bootstrap_servers=sys.argv[1])
sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
address.properties.update(sasl)
address.secret_properties["sasl.password"].file = sys.argv[2]
told, heard = [], []


class Heard(logging.Handler):
    def emit(self, record):
        heard.append(record.getMessage())


LOG.addHandler(Heard())


def until_heard(poll):
    heard.clear()
    end = time.monotonic() + 20
    while not any("nobody is" in each for each in heard) and time.monotonic() < end:
        poll()


properties = client_properties(address)
producer = client(Producer, properties)
producer.produce("TOPIC", b"")
until_heard(lambda: producer.poll(0.1))
producer.purge()
broker._TIMEOUT_S = 1.0  # of questions that nobody answers
try:
    broker.Broker(properties, "g").topics(["TOPIC"])
except JobError as refused:
    told.append(str(refused))
reading = {**properties, "group.id": "g"}, Partition("TOPIC", 0)
consumer = PythonConsumer(*reading)
consumer.assign(0)
until_heard(lambda: consumer.next(10, 0.1))
consumer.close()
consumer = consumers.open_fastest(*reading)
consumer.assign(0)
consumer.next(10, 1.0)
consumer.close()
address.secret_properties["security.protocol"].file = sys.argv[2]
del address.properties["security.protocol"]
try:
    client(Producer, client_properties(address))
except JobError as refused:
    told.append(str(refused))
print(*told, sep="\\n")
""".replace("TOPIC", QUARANTINE)


def test_a_broker_that_quotes_the_password_tells_it_to_nobody_who_reads_the_log(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text(CANARY)
    with broker() as servers:
        command = [sys.executable, "-c", _DRIVER, servers, str(password)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)

    assert done.returncode == 0, done.stderr
    assert CANARY not in done.stderr + done.stdout
    assert " librdkafka: " in done.stderr
    assert all(map(stamp_of, done.stderr.splitlines())), done.stderr
    assert done.stderr.count("nobody is  u (secret)") >= 2  # as the broker said it
    assert 'Invalid value "(secret)"' in done.stdout


@contextmanager
def database(status: int, words: str) -> Iterator[str]:
    """A server that answers with the token that it was told."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = json.dumps({"message": f"{words} {self.headers['Authorization']}"}).encode()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def refusal(url: str, token: Path) -> str:
    """Why a point is not written there, with all that a trace would say of it."""
    sink = spec_pb2.ResolvedSink()
    secret = spec_pb2.SecretRef(file=str(token))
    sink.sink.influx.address.CopyFrom(spec_pb2.InfluxAddress(url=url, org="-", bucket="b", token=secret))
    with pytest.raises(Exception) as refused:  # noqa: PT011 - whatever is raised goes to the log
        influx_sink._post(sink, "m n=1i 1")
    return "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("status", [400, 401, 404, 500, 503])
@pytest.mark.parametrize("token", [CANARY, f"user:{CANARY}"])
def test_a_database_that_quotes_the_token_tells_it_to_nobody(
    status: int, token: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its words stand where rows are set aside (400), or in the log (5xx), and else nowhere."""
    structlog.reset_defaults()  # as in a worker
    file = tmp_path / "token"
    file.write_text(token)
    with database(status, "who is") as url:
        said = refusal(url, file) + capsys.readouterr().err

    assert CANARY not in said
    assert ("who is Token " in said) == ("(secret)" in said) == (status not in (401, 404))


@pytest.mark.parametrize(
    "token", [f"{CANARY}\nsecond", f"{CANARY}\r\nX-Injected: 1", f"{CANARY}‮", f"a\0{CANARY}"]
)
def test_a_token_that_is_no_header_is_quoted_by_nobody_and_is_not_sent(token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    with database(204, "") as url:
        said = refusal(url, file)

    assert "SECRET_UNUSABLE" in said
    assert CANARY not in said


def test_what_a_worker_tells_java_of_an_exception_has_no_secret_in_it() -> None:
    hiding.hide(f"user:{CANARY}")
    told = io.BytesIO()
    hide_secrets(ValueError(f"Invalid header value b'Token {CANARY}'"), told)

    said = told.getvalue()
    assert CANARY.encode() not in said
    assert b"Invalid header value b'Token (secret)'" in said
    assert struct.unpack(">ii", said[:8]) == (-2, len(said) - 8)  # as Java reads it


def test_what_an_error_of_ours_says_has_no_secret_in_it() -> None:
    hiding.hide(CANARY)

    assert JobError(1, "X", f"It says {CANARY}.").error.detail == "It says (secret)."


def test_tokens_are_hidden_until_many_others_have_followed_them() -> None:
    hiding.hide("password")
    for number in range(hiding.NEWEST + 1):
        hiding.hide_token(f"token-{number:03}", "https://crm.example", "daggers")
    hiding.hide_token("another", "https://crm.example", "another")
    for _ in range(hiding.NEWEST + 1):
        hiding.hide_token("token-007", "https://crm.example", "daggers")

    said = hiding.redact(f"token-000 token-001 token-007 token-{hiding.NEWEST} another password")
    assert said == "token-000 (secret) (secret) (secret) (secret) (secret)"


def test_an_ordinary_word_is_not_taken_for_a_secret() -> None:
    for value in ("", "a", "word"):
        hiding.hide(value)

    assert hiding.redact("a word") == "a word"
