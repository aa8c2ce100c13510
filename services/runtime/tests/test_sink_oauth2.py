"""Tokens that sinks ask for themselves: real servers that count them, refuse them, and let them end."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from daggers.v1 import spec_pb2
from grpc import StatusCode
from services.runtime.tests import grpcserver, httpserver
from services.runtime.tests.httpserver import Received, Reply, Server
from services.runtime.tests.sink_cases import grpc as grpc_case
from services.runtime.tests.sink_cases import http as http_case
from services.runtime.tests.sink_contract import batch, many, target
from services.runtime.tests.testsinks import tried

from runtime import sinks
from runtime.clients import calls, sending
from runtime.clients.http import client
from runtime.clients.http.oauth2 import DEFAULT_LIFETIME_S, usable_s
from runtime.errors import JobError
from runtime.hiding import redact
from runtime.sinks import Outcome

SECRET = "client+canary/1"


class Issuer:
    """Gives tokens by a server of its own: token-1, token-2 …"""

    def __init__(self, server: Server) -> None:
        self.server, self.expires_in = server, 3600
        self.reply: Reply | None = None
        server.answer = self._answer

    @property
    def given(self) -> int:
        return len(self.server.received)

    def _answer(self, got: Received) -> Reply:
        said = {"access_token": f"token-{self.given + 1}", "token_type": "Bearer"}
        return self.reply or Reply(body=json.dumps({**said, "expires_in": self.expires_in}).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    with httpserver.serving() as made:
        yield made


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with httpserver.serving() as made:
        yield Issuer(made)


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No connection is kept, and a server that takes nothing is given up at once."""
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    yield
    client.pool.clear()
    calls.pool.clear()


@pytest.fixture
def auth(issuer: Issuer, tmp_path: Path) -> spec_pb2.HttpAuth:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    made = spec_pb2.HttpAuth.OAuth2(
        token_url=f"{issuer.server.url}/oauth/token",
        client_id="crm client",
        client_secret=spec_pb2.SecretRef(file=str(tmp_path / "secret"), addresses=[issuer.server.url]),
        scopes=["rows:write", "rows:read"],
        audience="https://crm.example",
    )
    return spec_pb2.HttpAuth(oauth2=made)


def write(resolved: spec_pb2.ResolvedSink, count: int = 1) -> Outcome:
    aimed = target("d", resolved, grpcserver.DESCRIPTORS)
    return sinks.open_writer(aimed).write(batch(many(count)), 0)


def refused(ask: Callable[[], Any]) -> JobError:
    with pytest.raises(JobError) as caught:
        ask()
    return caught.value


def test_a_token_is_asked_for_once_and_shown_with_every_row(
    server: Server, issuer: Issuer, auth: spec_pb2.HttpAuth
) -> None:
    said = http_case.sink(server.url, auth=auth)
    write(said, 20)
    write(said, 20)

    [asked] = issuer.server.received
    basic = base64.b64encode(b"crm+client:client%2Bcanary%2F1").decode()
    assert (asked.method, asked.path, asked.headers["Authorization"]) == (
        "POST", "/oauth/token", f"Basic {basic}",
    )  # fmt: skip
    assert dict(parse_qsl(asked.body.decode())) == {
        "grant_type": "client_credentials",
        "scope": "rows:write rows:read",
        "audience": "https://crm.example",
    }
    assert {got.headers["Authorization"] for got in server.received} == {"Bearer token-1"}
    assert len(server.received) == 40


def test_calls_of_grpc_show_a_token_as_metadata(issuer: Issuer, auth: spec_pb2.HttpAuth) -> None:
    with grpcserver.serving() as called:
        write(grpc_case.sink(called.target, auth=auth), 5)

    assert {got.metadata["authorization"] for got in called.received} == {"Bearer token-1"}
    assert (len(called.received), issuer.given) == (5, 1)


def test_a_token_that_has_ended_is_not_shown_again(
    server: Server, issuer: Issuer, auth: spec_pb2.HttpAuth
) -> None:
    issuer.expires_in = 0
    write(http_case.sink(server.url, auth=auth), 3)

    shown = {got.headers["Authorization"] for got in server.received}
    assert shown == {"Bearer token-1", "Bearer token-2", "Bearer token-3"}


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (3600, 3570),
        ("100", 90),
        (None, DEFAULT_LIFETIME_S),
        ("soon", DEFAULT_LIFETIME_S),
        (-5, 0),
        (float("inf"), 0),
        (0, 0),
    ],
)
def test_a_token_is_kept_until_shortly_before_its_end(said: object, seconds: float) -> None:
    assert usable_s(said) == seconds


def test_a_token_that_is_refused_is_asked_for_anew_once(
    server: Server, issuer: Issuer, auth: spec_pb2.HttpAuth
) -> None:
    good = "token-1"
    server.answer = lambda got: Reply(200 if got.headers["Authorization"] == f"Bearer {good}" else 401)
    said = http_case.sink(server.url, auth=auth)
    write(said, 3)
    good = "token-2"
    write(said, 3)
    assert issuer.given == 2

    good = "none"
    error = refused(lambda: write(said, 3)).error
    assert (error.reason, error.retryable, issuer.given) == ("SINK_DENIED", True, 3)


def test_a_call_that_is_refused_has_its_token_asked_for_anew(issuer: Issuer, auth: spec_pb2.HttpAuth) -> None:
    def answer(got: grpcserver.Received) -> grpcserver.Reply:
        is_good = got.metadata["authorization"] == "Bearer token-2"
        return grpcserver.Reply() if is_good else grpcserver.Reply(StatusCode.UNAUTHENTICATED)

    with grpcserver.serving() as called:
        called.answer = answer
        write(grpc_case.sink(called.target, auth=auth))

    assert issuer.given == 2


@pytest.mark.parametrize(
    ("reply", "reason", "word"),
    [
        (
            Reply(401, b'{"error": "invalid_client", "error_description": "canary"}'),
            "SINK_DENIED",
            "(invalid_client)",
        ),
        (Reply(400, b'{"error": "canary"}'), "SINK_DENIED", "answers 400:"),
        (Reply(200, b'{"token": "canary"}'), "SINK_DENIED", "without a bearer token"),
        (Reply(200, b'{"access_token": "a", "token_type": "mac"}'), "SINK_DENIED", "without a bearer token"),
        (Reply(200, b'{"access_token": "a\\nb"}'), "SECRET_UNUSABLE", "no header can carry"),
        (Reply(404), "SINK_MISSING", "nobody who gives tokens"),
        (Reply(302, headers={"Location": "http://127.0.0.1:1"}), "SINK_REDIRECTS", "leads to"),
        (Reply(503), "SINK_UNAVAILABLE", "no token now (status 503)"),
        (Reply(429), "SINK_UNAVAILABLE", "no token now (status 429)"),
    ],
)  # fmt: skip
def test_without_a_token_no_row_is_sent_and_it_is_told_why(
    server: Server, issuer: Issuer, auth: spec_pb2.HttpAuth, reply: Reply, reason: str, word: str
) -> None:
    issuer.reply = reply
    error = refused(lambda: write(http_case.sink(server.url, auth=auth))).error

    assert (error.reason, error.retryable) == (reason, True)
    assert word in error.detail
    assert "canary" not in error.detail
    assert server.received == []


def test_a_clients_secret_goes_to_its_token_url_alone(
    server: Server, issuer: Issuer, auth: spec_pb2.HttpAuth
) -> None:
    auth.oauth2.token_url = f"{server.url}/oauth/token"

    error = refused(lambda: write(http_case.sink(server.url, auth=auth))).error
    assert (error.reason, server.received, issuer.given) == ("SECRET_ADDRESS", [], 0)


def test_tokens_are_asked_for_by_the_rules_that_hold_the_sink(
    issuer: Issuer, auth: spec_pb2.HttpAuth
) -> None:
    """The sink's own host is allowed, and that of the token is not."""
    said = http_case.sink("http://localhost:1", auth=auth)
    said.egress.CopyFrom(spec_pb2.Egress(enforce=True, hosts="localhost"))

    error = refused(lambda: write(said)).error
    assert (error.reason, issuer.given) == ("SINK_ADDRESS_REFUSED", 0)
    assert issuer.server.url in error.detail


def test_a_token_is_in_no_log(
    server: Server, auth: spec_pb2.HttpAuth, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        write(http_case.sink(server.url, auth=auth))

    assert "token-1" not in caplog.text
    assert SECRET not in caplog.text
    assert redact("Bearer token-1") == "Bearer (secret)"


def test_a_trial_says_whether_a_token_is_given(
    server: Server, issuer: Issuer, auth: spec_pb2.HttpAuth
) -> None:
    said = http_case.sink(server.url, auth=auth)
    good = tried(said)
    client.pool.clear()
    issuer.reply = Reply(401)
    bad = tried(said)

    before = [("http", step, "") for step in ("secrets", "address", "connect")]
    assert good == [*before, ("http", "token", ""), ("http", "ask", "")]
    assert bad == [*before, ("http", "token", "SINK_DENIED")]
