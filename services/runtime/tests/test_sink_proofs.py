"""Rows are written when a sink's server says so by its protocol: what a login page or a proxy answers is
none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.collectors import CleverTap, Mixpanel
from services.runtime.tests.httpserver import Answering, Received, Reply, Server
from services.runtime.tests.sink_cases import clevertap, elasticsearch, http, mixpanel
from services.runtime.tests.sink_contract import batch, influx_sink, many, target

from runtime import sinks
from runtime.clients import sending
from runtime.clients.http import client
from runtime.errors import JobError, TemporaryError

PAGE: Final = b"<!DOCTYPE html><html><body>Log in to go on</body></html>"
HTML: Final = {"Content-Type": "text/html"}
JSON: Final = {"Content-Type": "application/json"}
FOREIGN: Final = {
    "a page": Reply(200, PAGE, HTML),
    "a page that says it is JSON": Reply(200, b"\xef\xbb\xbf\n<!-- portal -->\n" + PAGE, JSON),
    "a page with 203": Reply(203, PAGE, HTML),
    "a script": Reply(200, b"<script>location='/login'</script>", HTML),
}
"""What no server answers that takes rows."""
UNLIKE: Final = {
    "nothing": Reply(200),
    "no content": Reply(204),
    "accepted": Reply(202, b"{}", JSON),
    "another's JSON": Reply(200, b'{"ok": true}', JSON),
    "a list": Reply(200, b'["success", 200, false]', JSON),
    "JSON that ends": Reply(200, b'{"status": "success", "code": 200, "errors": false', JSON),
    "several": Reply(207, b'{"status": "success", "code": 200, "errors": false}', JSON),
}
"""What further no server answers whose protocol has a proof."""
REDIRECTS: Final = {f"{status}": Reply(status, headers={"Location": "/login"}) for status in (302, 303, 307)}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    yield
    client.pool.clear()


@pytest.fixture
def server() -> Iterator[Server]:
    with httpserver.serving() as made:
        yield made


def bulk(got: Received) -> Reply:
    """As the `_bulk` of a search server answers that takes everything."""
    return Reply(body=json.dumps({"errors": False}).encode()) if got.path == "/_bulk" else Reply(404)


def influx(got: Received) -> Reply:
    """As either InfluxDB answers points."""
    return Reply(204) if got.path == "/api/v2/write" else Reply(404)


def influx_at(url: str, folder: Path) -> spec_pb2.ResolvedSink:
    (folder / "token").write_text("t")
    address = {"url": url, "org": "o", "bucket": "b", "token_file": str(folder / "token")}
    return influx_sink(address, "m")


def answers(make: Callable[[Server], Any]) -> Callable[[Server], Answering]:
    """How the server of a test answers that is a collector."""

    def made(server: Server) -> Answering:
        make(server)
        return server.answer

    return made


Kind = tuple[Callable[[str, Path], spec_pb2.ResolvedSink], Callable[[Server], Answering], dict[str, Reply]]
KINDS: dict[str, Kind] = {
    "http": (lambda url, _: http.sink(url), lambda _: lambda _: Reply(), FOREIGN),
    "http with a text": (
        lambda url, _: http.sink(url, success_contains='"taken"'),
        lambda _: lambda _: Reply(201, b'<html>{"is": "taken"}'),
        FOREIGN | UNLIKE,
    ),
    "clevertap": (clevertap.sink, answers(CleverTap), FOREIGN | UNLIKE),
    "mixpanel": (mixpanel.sink, answers(Mixpanel), FOREIGN | UNLIKE),
    "elasticsearch": (lambda url, _: elasticsearch.sink(url), lambda _: bulk, FOREIGN | UNLIKE),
    "influx": (influx_at, lambda _: influx, FOREIGN | UNLIKE | REDIRECTS),
}
CASES: Final = [
    pytest.param(name, reply, id=f"{name}, {what}")
    for name, (_, _, replies) in KINDS.items()
    for what, reply in replies.items()
    if (name, what) != ("influx", "no content")  # that is its proof
]


@pytest.mark.parametrize(("name", "reply"), CASES)
def test_rows_wait_until_their_own_server_has_said_that_it_took_them(
    server: Server, tmp_path: Path, name: str, reply: Reply
) -> None:
    sink, own, _ = KINDS[name]
    answer, taken, foreign = own(server), list[bytes](), chain(repeat(reply, 2), repeat(None))

    def behind_a_portal(got: Received) -> Reply:
        if (said := next(foreign)) is not None:
            return said
        taken.append(got.body)
        return answer(got)

    server.answer = behind_a_portal
    writer = sinks.open_writer(target("d", sink(server.url, tmp_path)))
    waits: list[str] = []
    outcome = None
    while outcome is None and len(waits) < 5:
        try:
            outcome = writer.write(batch(many(3)), 0)
        except TemporaryError as problem:
            waits.append(problem.error.reason)
    assert outcome is not None
    assert set(waits) <= {"SINK_UNAVAILABLE"}
    outcome_end = writer.finish()

    assert [*outcome.refused, *outcome_end.refused] == []
    text = b"".join(taken).decode()
    assert all(f"city {number}" in text.replace("\\ ", " ") for number in range(3))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 511])
def test_a_redirect_or_a_network_that_wants_a_login_refuses_no_row_and_is_not_followed(
    server: Server, tmp_path: Path, name: str, status: int
) -> None:
    sink, _, _ = KINDS[name]
    server.answer = lambda _: Reply(status, PAGE, {"Location": "/login"})
    with pytest.raises(JobError) as waits:
        sinks.open_writer(target("d", sink(server.url, tmp_path))).write(batch(many(2)), 0)

    assert waits.value.error.reason in ("SINK_REDIRECTS", "SINK_UNAVAILABLE")
    assert waits.value.error.retryable
    assert "/login" not in {got.path for got in server.received}


@pytest.mark.parametrize("name", ["clevertap", "mixpanel", "elasticsearch", "influx", "http"])
def test_an_answer_that_was_cut_off_is_no_proof(server: Server, tmp_path: Path, name: str) -> None:
    sink, own, _ = KINDS[name]
    answer, came = own(server), list[Received]()

    def cut(got: Received) -> Reply:
        came.append(got)
        whole = answer(got)
        if len(came) > 1:
            return whole
        return Reply(200, whole.body[:-1], promised=len(whole.body) + 10)

    server.answer = cut
    aimed = target("d", sink(server.url, tmp_path))
    writer = sinks.open_writer(aimed)
    try:
        writer.write(batch(many(1)), 0)
    except TemporaryError:
        assert writer.write(batch(many(1)), 0).refused == []

    assert len(came) == 2


def with_a_text(url: str, **said: Any) -> spec_pb2.ResolvedSink:
    return http.sink(url, success_contains='"taken"', **said)


def taking_but(bad: Callable[[Received], bool]) -> Answering:
    """A server that answers each request with 200, and says of most that it took them."""
    return lambda got: Reply(200, b'{"is": "full"}' if bad(got) else b'{"is": "taken"}')


@pytest.mark.parametrize("at_once", [1, 8])
@pytest.mark.parametrize("bad", [{0}, {19}, {3, 4, 11}])
def test_a_row_whose_success_is_without_its_text_is_refused_where_others_are_taken(
    server: Server, monkeypatch: pytest.MonkeyPatch, at_once: int, bad: set[int]
) -> None:
    monkeypatch.setattr(sending, "PATIENCE_S", 30.0)

    def is_bad(got: Received) -> bool:
        rows = got.json if at_once > 1 else [got.json]
        return bool({row["n"] for row in rows} & bad)

    server.answer = taking_but(is_bad)
    writer = sinks.open_writer(target("d", with_a_text(server.url, rows_per_request=at_once)))
    outcomes = [writer.write(batch(many(20)), 0), writer.finish()]
    [(refused, rows)] = [(each.refused, each.rows) for each in outcomes if each.refused]
    numbers = [*range(20)] if rows is None else rows["n"].to_pylist()

    assert {numbers[each.row] for each in refused} == bad
    assert {(each.reason, each.by_server) for each in refused} == {("SINK_REFUSED", True)}
    if len(bad) == 1:
        assert len(server.received) <= -(-20 // at_once) + 2 * at_once.bit_length() + 8


def test_rows_wait_where_no_success_has_its_text(server: Server) -> None:
    server.answer = taking_but(lambda _: True)
    with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):
        sinks.open_writer(target("d", with_a_text(server.url))).write(batch(many(3)), 0)


def test_rows_behind_which_a_login_page_comes_wait_though_others_were_taken(server: Server) -> None:
    own = taking_but(lambda _: False)
    server.answer = lambda got: own(got) if len(server.received) < 2 else Reply(200, PAGE, HTML)
    writer = sinks.open_writer(target("d", with_a_text(server.url, ordered=True)))
    rows = batch(many(5))
    for _ in range(2):
        with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):
            writer.write(rows, 0)
    server.answer = own

    assert writer.write(rows, 0).refused == []
    assert {got.json["n"] for got in server.received} == {*range(5)}
