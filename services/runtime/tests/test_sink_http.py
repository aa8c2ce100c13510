"""The sink `http` against a real server: requests, answers, secrets, addresses, outages, crashes."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import fresh, httpserver
from services.runtime.tests.httpserver import Received, Reply, Server
from services.runtime.tests.sink_cases.http import sink
from services.runtime.tests.sink_contract import LAYOUT, SCHEMA, batch, many

from daggerspec.columns import Column, role_of
from runtime import sinks
from runtime.clients import sending
from runtime.clients.http import client
from runtime.encode.rows import Layout
from runtime.errors import JobError, TemporaryError
from runtime.sinks import BatchRef, Outcome, Part, Target
from runtime.sinks import http as http_sink

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Sink = spec_pb2.HttpSink


@pytest.fixture
def server() -> Iterator[Server]:
    with httpserver.serving() as made:
        yield made


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes nothing is given up at once."""
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)


def target(resolved: spec_pb2.ResolvedSink, layout: Layout = LAYOUT, schema: pa.Schema = SCHEMA) -> Target:
    part = Part(BatchRef("c", 0, 1), 0)
    return Target("d", resolved.SerializeToString(), layout, schema, b"", updates=False, part=part)


def write(resolved: spec_pb2.ResolvedSink, *batches: pa.RecordBatch) -> Outcome:
    """What came of a partition that had these rows: the outcome of the last step that refused some."""
    writer = sinks.open_writer(target(resolved))
    outcomes = [writer.write(each, 0) for each in batches]
    last = writer.finish()
    return last if last.rows is not None else outcomes[-1]


def row_of(values: dict[str, tuple[str, pa.DataType, Any]]) -> tuple[Target, pa.RecordBatch]:
    """A target without an address, and one row of these columns."""
    columns = tuple(Column(name, role_of(name), name, spark) for name, (spark, _, _) in values.items())
    schema = pa.schema([*((name, arrow) for name, (_, arrow, _) in values.items()), ("__key_0", pa.int64())])
    row = {name: value for name, (_, _, value) in values.items()} | {"__key_0": 1}
    made = Target("d", b"", Layout(columns, ("__key_0",)), schema, b"", updates=False)
    return made, pa.RecordBatch.from_pylist([row], schema=schema)


def refused(ask: Callable[[], Any]) -> JobError:
    with pytest.raises(JobError) as caught:
        ask()
    return caught.value


# Requests


def test_a_row_is_a_request_with_all_its_columns_and_a_key_that_repeats(server: Server) -> None:
    for _ in range(2):
        write(sink(server.url), batch(many(3)))

    assert Counter(request.json["tag_city"] for request in server.received) == dict.fromkeys(
        ("city 0", "city 1", "city 2"), 2
    )
    one = next(request for request in server.received if request.json["n"] == 1)
    assert one.json == {"tag_city": "city 1", "n": 1, "window_timestamp": "2026-01-01T12:01:00Z"}
    assert (one.method, one.path, one.headers["Content-Type"]) == ("POST", "/", "application/json")
    ids = Counter(request.headers["Idempotency-Key"] for request in server.received)
    assert [*ids.values()] == [2, 2, 2]
    assert {len(id_) for id_ in ids} == {32}
    assert all(request.headers["ce-id"] == request.headers["Idempotency-Key"] for request in server.received)


def test_several_rows_are_a_request_whatever_order_and_batches_they_came_in(server: Server) -> None:
    crm = sink(server.url, rows_per_request=100, row_id="id")
    rows = list(many(250).items())
    write(crm, batch(dict(rows)))
    first = {request.headers["Idempotency-Key"]: request.body for request in server.received}
    server.received.clear()
    write(crm, batch(dict(reversed(rows[:99]))), batch(dict(reversed(rows[99:]))))

    assert sorted(len(json.loads(body)) for body in first.values()) == [50, 100, 100]
    assert {request.headers["Idempotency-Key"]: request.body for request in server.received} == first
    sent = [row for body in first.values() for row in json.loads(body)]
    assert {row["n"] for row in sent} == {*range(250)}
    assert len({row["id"] for row in sent}) == 250


def test_a_partition_without_rows_sends_nothing(server: Server) -> None:
    assert write(sink(server.url, rows_per_request=2), batch({})).refused == ()
    assert server.received == []


def test_a_partition_that_is_large_is_cut_alike_wherever_its_rows_are_encoded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    crm = sink(server.url, rows_per_request=7)
    write(crm, batch(many(100)))
    first = {request.headers["Idempotency-Key"] for request in server.received}
    server.received.clear()
    monkeypatch.setattr(http_sink, "_ENCODED_AT_ONCE", 15)
    write(crm, batch(many(100)))

    assert {request.headers["Idempotency-Key"] for request in server.received} == first
    assert len(first) == 15


@pytest.mark.parametrize(
    ("said", "body"),
    [
        ({"body": Sink.BODY_NDJSON}, b'{"n":0}\n{"n":1}\n'),
        ({"body": Sink.BODY_ARRAY}, b'[{"n":0},{"n":1}]'),
        ({"wrap": '{"d": "${rows}", "of": 1}'}, b'{"d":[{"n":0},{"n":1}],"of":1}'),
    ],
)
def test_rows_stand_in_a_body_as_is_asked_for(server: Server, said: dict[str, Any], body: bytes) -> None:
    write(sink(server.url, rows_per_request=2, template='{"n": "${n}"}', **said), batch(many(2)))

    assert [request.body for request in server.received] == [body]


def test_method_path_headers_and_query_may_have_values_of_the_row(server: Server) -> None:
    said = sink(
        f"{server.url}/base/", method="PUT", path="/v1/cities/${tag_city}/at",
        headers={"X-City": "c=${tag_city}", "X-Plain": "$ {"}, query={"n": "${n}", "a b": "1&2"},
    )  # fmt: skip
    write(said, batch({("2026-01-01T12:01:00Z", "ü/?#%&"): 5}))

    refused = write(said, batch({("2026-01-01T12:01:00Z", "☃"): 5, ("2026-01-01T12:01:00Z", "a"): 5})).refused
    [one, other] = server.received
    assert (one.method, one.path) == ("PUT", "/base/v1/cities/%C3%BC%2F%3F%23%25%26/at")
    assert one.query == {"n": "5", "a b": "1&2"}
    assert (one.headers["X-City"], one.headers["X-Plain"]) == ("c=ü/?#%&", "$ {")
    assert (other.json["tag_city"], [(refusal.row, refusal.reason) for refusal in refused]) == (
        "a",
        [(0, "SINK_REFUSED")],
    )


@pytest.mark.parametrize(
    ("city", "reason"),
    [(None, "TEMPLATE_NULL"), ("..", "SINK_REFUSED"), (".", "SINK_REFUSED"), ("a\r\nX: y", "SINK_REFUSED")],
)
def test_a_row_that_no_request_can_carry_is_refused_and_the_others_are_sent(
    server: Server, city: Any, reason: str
) -> None:
    said = sink(server.url, path="/v1/${tag_city}", headers={"X-City": "${tag_city}"})
    outcome = write(said, batch({("2026-01-01T12:01:00Z", city): 5, ("2026-01-01T12:01:00Z", "a"): 5}))

    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(0, reason)]
    assert [request.path for request in server.received] == ["/v1/a"]


TEMPLATES = [
    ('{"a": "${n}", "b": ["x ${n} y"], "c": {"${n}": null}, "d": 1.5, "e": true, "f": {}, "g": []}',
     {"a": 7, "b": ["x 7 y"], "c": {"${n}": None}, "d": 1.5, "e": True, "f": {}, "g": []}),
    ('{"t": "${text}", "in": "<${text}>"}', {"t": 'a"\\\n☃', "in": '<a"\\\n☃>'}),
    ('{"at": "${time}", "day": "${time:%Y.%m.%d}", "in": "on ${time:%H:%M}"}',
     {"at": "2026-01-01T12:00:00Z", "day": "2026.01.01", "in": "on 12:00"}),
    ('{"no": "${nothing}"}', {"no": None}),
    ('["${list}", "${inside}"]', [[1, None], {"a": 2}]),
    ('"${n}"', 7),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), TEMPLATES)
def test_a_template_has_values_with_their_types_and_texts_in_texts(
    server: Server, text: str, expected: Any
) -> None:
    made, row = row_of(
        {
            "n": ("bigint", pa.int64(), 7),
            "text": ("string", pa.string(), 'a"\\\n☃'),
            "time": ("timestamp", pa.timestamp("us", "UTC"), NOON),
            "nothing": ("string", pa.string(), None),
            "list": ("array<bigint>", pa.list_(pa.int64()), [1, None]),
            "inside": ("struct<a:bigint>", pa.struct([("a", pa.int64())]), {"a": 2}),
        }
    )
    aimed = replace(made, sink=sink(server.url, template=text).SerializeToString())

    assert sinks.open_writer(aimed).write(row, 0).refused == []
    assert [request.json for request in server.received] == [expected]


def test_a_lone_surrogate_and_numbers_that_json_lacks_are_sent_as_json(server: Server) -> None:
    made, row = row_of(
        {"x": ("double", pa.float64(), float("nan")), "d": ("decimal(38,18)", pa.decimal128(38, 18), None)}
    )
    sinks.open_writer(replace(made, sink=sink(server.url).SerializeToString())).write(row, 0)

    assert [request.json for request in server.received] == [{"x": None, "d": None}]


# Answers


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (301, {}, "SINK_REDIRECTS"),
        (307, {}, "SINK_REDIRECTS"),
        (304, {}, "SINK_REDIRECTS"),
        (401, {}, "SINK_DENIED"),
        (403, {}, "SINK_DENIED"),
        (404, {}, "SINK_MISSING"),
        (405, {}, "SINK_MISSING"),
        (408, {}, "SINK_UNAVAILABLE"),
        (429, {}, "SINK_THROTTLES"),
        (500, {}, "SINK_UNAVAILABLE"),
        (503, {}, "SINK_UNAVAILABLE"),
        (409, {"retry_statuses": ["409"]}, "SINK_UNAVAILABLE"),
    ],
)
def test_an_answer_that_is_about_the_sink_waits_and_refuses_no_row(
    server: Server, soon: None, status: int, said: dict[str, Any], reason: str
) -> None:
    elsewhere = {"Location": f"{server.url}/elsewhere"}
    server.answer = lambda _: Reply(status, headers=elsewhere)

    error = refused(lambda: write(sink(server.url, **said), batch(many(2)))).error
    assert (error.reason, error.retryable) == (reason, True)
    assert {request.path for request in server.received} == {"/"}


@pytest.mark.parametrize("said", [{}, {"ordered": True}, {"rows_per_request": 4, "ordered": True}])
def test_a_row_at_which_a_server_fails_is_set_aside_and_the_others_are_written(
    server: Server, said: dict[str, Any]
) -> None:
    def numbers(got: Received) -> list[int]:
        return [row["n"] for row in (got.json if isinstance(got.json, list) else [got.json])]

    server.answer = lambda got: Reply(500) if 5 in numbers(got) else Reply()
    writer = sinks.open_writer(target(sink(server.url, **said)))
    outcomes = [writer.write(batch(many(8)), 0), writer.finish()]

    refused_rows = [refusal for outcome in outcomes for refusal in outcome.refused]
    assert [(refusal.reason, refusal.detail) for refusal in refused_rows] == [
        ("SINK_REFUSED", f"HTTP at {server.url} answers 500, and takes other rows.")
    ]
    assert {n for got in server.received for n in numbers(got)} == {*range(8)}


def test_rows_wait_for_a_server_that_begins_to_fail_and_none_is_refused(server: Server, soon: None) -> None:
    seen = Counter[int]()

    def answer(got: Received) -> Reply:
        seen.update([got.json["n"]])
        return Reply(500) if got.json["n"] > 2 or seen[got.json["n"]] > 1 else Reply()

    server.answer = answer
    writer, rows = sinks.open_writer(target(sink(server.url, ordered=True))), batch(many(6))
    with pytest.raises(TemporaryError, match="status 500"):
        writer.write(rows, 0)
    server.answer = lambda _: Reply()
    assert writer.write(rows, 0).refused == []


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (400, {}, "SINK_REFUSED"),
        (409, {}, "SINK_REFUSED"),
        (413, {}, "TOO_LARGE"),
        (422, {}, "SINK_REFUSED"),
        (404, {"path": "/${tag_city}"}, "SINK_REFUSED"),
        (501, {"refuse_statuses": ["500-502"]}, "SINK_REFUSED"),
    ],
)
def test_an_answer_that_is_about_a_row_sets_it_aside_without_its_values(
    server: Server, status: int, said: dict[str, Any], reason: str
) -> None:
    server.answer = lambda got: Reply(status, b"canary" + got.body) if got.json["n"] == 1 else Reply()
    outcome = write(sink(server.url, **said), batch(many(3)))

    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(1, reason)]
    assert outcome.refused[0].detail == f"HTTP at {server.url} answers {status}."


@pytest.mark.parametrize("poison", [{0}, {99}, {3, 17, 60}, {*range(100)}])
def test_a_refused_request_of_several_rows_is_halved_where_that_is_asked_for(
    server: Server, poison: set[int]
) -> None:
    taken: set[int] = set()

    def answer(got: Received) -> Reply:
        rows = {row["n"] for row in got.json}
        if rows & poison:
            return Reply(422)
        taken.update(rows)
        return Reply()

    server.answer = answer
    outcome = write(sink(server.url, rows_per_request=50, split=True), batch(many(100)))

    assert outcome.rows is not None
    numbers = outcome.rows.column("n").to_pylist()
    assert {numbers[each.row] for each in outcome.refused} == poison
    assert taken == {*range(100)} - poison


def test_without_that_word_it_is_so_too_and_what_is_too_large_is_halved(server: Server) -> None:
    server.answer = lambda got: Reply(
        413 if len(got.json) > 10 else 422 if 0 in (row["n"] for row in got.json) else 200
    )
    outcome = write(sink(server.url, rows_per_request=40), batch(many(40)))

    assert [(each.detail, each.by_server) for each in outcome.refused] == [
        (f"HTTP at {server.url} answers 422.", True)
    ]


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        ("7", 7.0),
        (timedelta(hours=1), 3600.0),
        ("31536000", 31536000.0),
        ("-5", None),
        ("soon", None),
        ("", None),
        (timedelta(hours=-1), 0.0),
    ],
)
def test_a_server_that_says_for_how_long_is_left_alone(
    server: Server, soon: None, header: str | timedelta, asked: float | None
) -> None:
    said = header if isinstance(header, str) else format_datetime(datetime.now(UTC) + header)
    server.answer = lambda _: Reply(429, headers={"Retry-After": said})
    with pytest.raises(TemporaryError) as waits:
        write(sink(server.url), batch(many(1)))

    if asked is None:
        assert waits.value.retry_after is None
    else:
        assert waits.value.retry_after == pytest.approx(asked, abs=30)
    if asked and asked > 1:
        assert len(server.received) == 1


def test_a_limit_that_is_found_lets_a_throttling_server_take_every_row_once(server: Server) -> None:
    """It takes 8 requests at once, and answers each after 10 ms."""
    taken = Counter[int]()

    def answer(got: Received) -> Reply:
        if server.now > 8:
            return Reply(429)
        taken[got.json["n"]] += 1
        return Reply(after_s=0.01)

    server.answer = answer
    began = time.monotonic()
    outcome = write(sink(server.url), batch(many(1_000)))

    assert (outcome.refused, taken) == ([], dict.fromkeys(range(1_000), 1))
    assert server.most_at_once >= 8
    assert len(server.received) < 1_300, "more than a fifth of all requests were refused"
    assert time.monotonic() - began < 30


def test_requests_that_fail_now_and_then_are_sent_again_and_nothing_else_is(server: Server) -> None:
    number, taken = count(), Counter[int]()

    def answer(got: Received) -> Reply:
        match next(number) % 10:
            case 3:
                return Reply(503)
            case 6:
                return Reply(500, b"{", promised=1_000)
        taken[got.json["n"]] += 1
        return Reply()

    server.answer = answer

    assert write(sink(server.url), batch(many(100))).refused == []
    assert taken == dict.fromkeys(range(100), 1)


def test_what_was_taken_is_not_sent_again_by_who_comes_back(server: Server, soon: None) -> None:
    taken = Counter[int]()

    def answer(got: Received) -> Reply:
        if taken.total() >= 40:
            return Reply(503)
        taken[got.json["n"]] += 1
        return Reply()

    server.answer = answer
    writer, rows = sinks.open_writer(target(sink(server.url))), batch(many(100))
    with pytest.raises(TemporaryError):
        writer.write(rows, 0)
    before = len(server.received)
    server.answer = lambda _: Reply()

    assert writer.write(rows, 0).refused == []
    taken.update(request.json["n"] for request in server.received[before:])
    assert taken == dict.fromkeys(range(100), 1)


def test_a_server_that_is_slow_to_say_later_is_asked_once_more(server: Server, soon: None) -> None:
    number = count()
    server.answer = lambda _: Reply(200 if next(number) else 503, after_s=1)

    assert write(sink(server.url), batch(many(1))).refused == []
    assert len(server.received) == 2


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"x" * 5_000_000),
        Reply(200, b"x" * 5_000_000, promised=2**31),
        Reply(200, b"ok", {"Content-Type": "text/html"}),
        Reply(204),
        Reply(207, b"{}"),
    ],
    ids=["too long", "of 2 GiB", "of another type", "empty", "partial"],
)
def test_a_success_says_that_rows_were_taken_whatever_its_body_but_a_page(
    server: Server, reply: Reply
) -> None:
    server.answer = lambda _: reply

    assert write(sink(server.url), batch(many(3))).refused == []
    assert len(server.received) == 3


def test_a_server_that_takes_its_time_is_given_up_after_its_own_limit(server: Server, soon: None) -> None:
    said = sink(server.url)
    said.sink.http.timeout.FromTimedelta(timedelta(seconds=0.2))
    server.answer = lambda _: Reply(after_s=30)

    error = refused(lambda: write(said, batch(many(1)))).error
    assert (error.reason, error.detail) == (
        "SINK_UNAVAILABLE", f"HTTP at {server.url} does not answer (TimeoutError).",
    )  # fmt: skip


# Secrets and addresses


def secret(tmp_path: Path, text: str = "canary") -> spec_pb2.SecretRef:
    (tmp_path / "secret").write_text(f"{text}\n")
    return spec_pb2.SecretRef(file=str(tmp_path / "secret"))


def test_a_server_is_shown_who_calls(server: Server, tmp_path: Path) -> None:
    reference = secret(tmp_path)
    for auth in (
        spec_pb2.HttpAuth(bearer=reference),
        spec_pb2.HttpAuth(basic=spec_pb2.HttpAuth.Basic(user="u", password=reference)),
        spec_pb2.HttpAuth(header=spec_pb2.HttpAuth.Header(name="X-Api-Key", value=reference)),
        None,
    ):
        write(sink(server.url, auth=auth), batch(many(1)))

    shown = [
        (request.headers.get("Authorization"), request.headers.get("X-Api-Key"))
        for request in server.received
    ]
    basic = f"Basic {base64.b64encode(b'u:canary').decode()}"
    assert shown == [("Bearer canary", None), (basic, None), (None, "canary"), (None, None)]


def test_a_secret_that_was_rotated_is_read_again_and_a_wrong_one_is_told(
    server: Server, tmp_path: Path
) -> None:
    said = sink(server.url, auth=spec_pb2.HttpAuth(bearer=secret(tmp_path, "first")))
    good = "first"
    server.answer = lambda got: Reply(200 if got.headers["Authorization"] == f"Bearer {good}" else 401)
    write(said, batch(many(3)))
    good = "second"
    error = refused(lambda: write(said, batch(many(3)))).error
    secret(tmp_path, "second")

    assert (error.reason, error.retryable) == ("SINK_DENIED", True)
    assert "first" not in error.detail
    assert write(said, batch(many(3))).refused == []


@pytest.mark.parametrize(("text", "reason"), [("", "SECRET_MISSING"), ("a\nb", "SECRET_UNUSABLE")])
def test_a_secret_that_cannot_be_shown_is_told_before_anything_is_read(
    server: Server, tmp_path: Path, text: str, reason: str
) -> None:
    said = sink(server.url, auth=spec_pb2.HttpAuth(bearer=secret(tmp_path, text)))

    assert refused(lambda: sinks.check(target(said))).error.reason == reason
    assert server.received == []


def test_a_secret_goes_to_no_other_server_than_its_own(server: Server, tmp_path: Path) -> None:
    reference = secret(tmp_path)
    reference.addresses.append("https://crm.example")

    said = sink(server.url, auth=spec_pb2.HttpAuth(bearer=reference))
    assert refused(lambda: write(said, batch(many(1)))).error.reason == "SECRET_ADDRESS"
    assert server.received == []


INWARD = ("127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]", "localhost")


@pytest.mark.parametrize("host", INWARD)
def test_an_address_of_a_tenant_that_leads_inward_gets_no_row_and_no_token(
    server: Server, tmp_path: Path, host: str
) -> None:
    url = f"http://{host}:{server.url.rpartition(':')[2]}"
    said = sink(url, auth=spec_pb2.HttpAuth(bearer=secret(tmp_path)))
    said.egress.enforce = True

    for ask in (lambda: write(said, batch(many(1))), lambda: sinks.check(target(said))):
        assert refused(ask).error.reason == "SINK_ADDRESS_REFUSED"
    assert server.received == []


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "168.63.129.16"])
def test_metadata_is_refused_whatever_networks_are_allowed(host: str) -> None:
    said = sink(f"http://{host}")
    said.egress.CopyFrom(spec_pb2.Egress(enforce=True, networks="169.254.0.0/16, fd00::/8, 168.63.0.0/16"))

    assert refused(lambda: write(said, batch(many(1)))).error.reason == "SINK_ADDRESS_REFUSED"


@pytest.mark.parametrize(
    "egress",
    [None, spec_pb2.Egress(enforce=True, networks="127.0.0.0/8, ::1/128"), spec_pb2.Egress()],
    ids=["registered by an administrator", "in a network that is allowed", "observed"],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_what_may_be_reached_gets_its_rows(server: Server, egress: Any, host: str) -> None:
    said = sink(server.url.replace("127.0.0.1", host))
    if egress is not None:
        said.egress.CopyFrom(egress)
    write(said, batch(many(1)))

    assert len(server.received) == 1


def test_a_name_is_asked_for_at_each_connection_and_not_again_after_it_was_judged(
    server: Server, soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns a name answers with an address that is allowed first, and with loopback from then on."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def rebinding(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host == "crm.tenant.example":
            asked.append(host)
            host = "127.0.0.2" if len(asked) == 1 else "127.0.0.1"
        return real(host, port, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    said = sink(server.url.replace("127.0.0.1", "crm.tenant.example"))
    said.egress.CopyFrom(spec_pb2.Egress(enforce=True, networks="127.0.0.2/32"))

    assert refused(lambda: write(said, batch(many(1)))).error.reason == "SINK_ADDRESS_REFUSED"
    assert (asked[:2], server.received) == (["crm.tenant.example"] * 2, [])


# Outages and crashes


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_sink_that_says_later_is_asked_again_before_rows_are_sent(server: Server, status: int) -> None:
    server.questions = Reply(status, headers={"Retry-After": "9"})
    with pytest.raises(TemporaryError) as waits:
        sinks.probe(target(sink(server.url)))
    server.questions = Reply(405)
    sinks.probe(target(sink(server.url)))

    assert waits.value.retry_after == 9
    assert server.received == []


def test_rows_wait_for_a_server_that_restarts() -> None:
    with httpserver.serving() as before:
        said, port = sink(before.url), int(before.url.rpartition(":")[2])
        write(said, batch(many(3)))
    with httpserver.serving(port) as after:
        outcome = write(said, batch(many(3)))  # the connections that are kept lead nowhere

    assert (outcome.refused, len(before.received), len(after.received)) == ([], 3, 3)


def _write_and_be_killed(resolved: bytes, after: int, mark: str) -> None:
    """In a process of its own: sends rows until so many were answered, and dies."""
    said = spec_pb2.ResolvedSink.FromString(resolved)
    answered, judge = count(1), http_sink.HttpRows.judge

    def counted(self: Any, rows: Sequence[int], answer: Any) -> Any:
        if next(answered) > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return judge(self, rows, answer)

    http_sink.HttpRows.judge = counted  # type: ignore[method-assign]
    write(said, batch(many(100)))
    Path(mark).touch()


@pytest.mark.parametrize(("rows_per_request", "after"), [(1, 5), (7, 0), (7, 5), (7, 10**6)])
def test_no_row_is_lost_and_repeats_have_their_key_wherever_a_worker_is_killed(
    server: Server, tmp_path: Path, rows_per_request: int, after: int
) -> None:
    said = sink(server.url, rows_per_request=rows_per_request)
    mark = tmp_path / "ended"
    code = fresh.exit_code(_write_and_be_killed, said.SerializeToString(), after, str(mark))
    write(said, batch(many(100)))

    assert mark.exists() == (code == 0) == (after == 10**6)
    bodies: dict[str, set[bytes]] = {}
    for request in server.received:
        bodies.setdefault(request.headers["Idempotency-Key"], set()).add(request.body)
    assert {len(body) for body in bodies.values()} == {1}
    rows = [json.loads(body) for each in bodies.values() for body in each]
    sent = [row["n"] for one in rows for row in (one if isinstance(one, list) else [one])]
    assert sorted(sent) == [*range(100)]


def _write_beside_a_child(resolved: bytes) -> None:
    """In a process of its own, as Spark's daemon: writes, and so does a child that it forks."""
    said = spec_pb2.ResolvedSink.FromString(resolved)
    write(said, batch(many(1)))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = len(write(said, batch(many(1))).refused)
        finally:
            os._exit(code)
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.05)  # bounded by the deadline
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)
    write(said, batch(many(1)))


def test_a_forked_worker_has_connections_of_its_own(server: Server) -> None:
    assert fresh.exit_code(_write_beside_a_child, sink(server.url).SerializeToString()) == 0
    assert len(server.received) == 3


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """No client of a server that is gone is kept."""
    yield
    client.pool.clear()
