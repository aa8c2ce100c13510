"""The sink `elasticsearch`: documents in a real OpenSearch, and what answers of a server mean."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import fresh, httpserver
from services.runtime.tests.httpserver import Received, Reply, Server
from services.runtime.tests.sink_cases.elasticsearch import ask, documents, sink
from services.runtime.tests.sink_contract import LAYOUT, SCHEMA, Counts, batch, many
from services.runtime.tests.sink_elasticsearch import target
from tests.searchservers import PASSWORD, USER

from daggerspec.columns import Column, role_of
from runtime import sinks
from runtime.clients import sending
from runtime.clients.http import client
from runtime.encode.rows import Layout
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Outcome, Target
from runtime.sinks import elasticsearch as elasticsearch_sink

Sink = spec_pb2.ElasticsearchSink
TIME = pa.timestamp("us", "UTC")
real, slow = pytest.mark.integration, pytest.mark.long


@pytest.fixture
def server() -> Iterator[Server]:
    """Answers as a server that takes every document, unless it is told otherwise."""
    with httpserver.serving() as made:
        made.answer = lambda got: taking(got, lambda _: {"status": 201})
        yield made


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No client of a server that is gone is kept, and none is waited for."""
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    yield
    client.pool.clear()


def taking(got: Received, result: Callable[[dict[str, Any]], dict[str, Any]]) -> Reply:
    """The answer to `_bulk`, with what becomes of each document."""
    items = [{"index": result(json.loads(line))} for line in got.body.splitlines()[1::2]]
    errors = any("error" in item["index"] for item in items)
    return Reply(body=json.dumps({"errors": errors, "items": items}).encode())


def write(aimed: Target, rows: pa.RecordBatch) -> Outcome:
    sinks.check(aimed)
    writer = sinks.open_writer(aimed)
    outcome = writer.write(rows, 0)
    assert writer.finish().refused == ()
    return outcome


def refused(ask: Callable[[], Any]) -> JobError:
    with pytest.raises(JobError) as caught:
        ask()
    return caught.value


def counts(made: spec_pb2.ResolvedSink) -> Counts:
    return {(row["window_timestamp"], row["tag_city"]): row["n"] for row in documents(made)}


EVERY: dict[str, tuple[str, pa.DataType, Sequence[Any]]] = {
    "text": ("string", pa.string(), ["", '"quoted"\n\\', "𝄞 עברית", "\0"]),
    "whole": ("bigint", pa.int64(), [2**63 - 1, -(2**63), 0]),
    "small": ("tinyint", pa.int8(), [127, -128]),
    "double": ("double", pa.float64(), [0.1, -0.0, 5e-324, 1.7976931348623157e308]),
    "yes": ("boolean", pa.bool_(), [True, False]),
    "time": ("timestamp", TIME, [datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]),
    "day": ("date", pa.date32(), [date(2024, 2, 29), date(9999, 12, 31)]),
    "bytes": ("binary", pa.binary(), [b"", b"\x00\xff", b"abc"]),
    "list": ("array<string>", pa.list_(pa.string()), [[], ["a", None, 'b"']]),
    "inside": ("struct<a:bigint>", pa.struct([("a", pa.int64())]), [{"a": 2**60}, {"a": None}]),
    "unsigned": ("decimal(20,0)", pa.decimal128(20, 0), [Decimal(2**64 - 1)]),
    "money": ("decimal(38,18)", pa.decimal128(38, 18), [Decimal("1.5")]),
    "nan": ("double", pa.float64(), [float("nan"), float("inf")]),
}
WRITTEN = {
    "time": ["2026-01-01T12:00:00Z", "0001-01-01T00:00:00Z"],
    "day": ["2024-02-29", "9999-12-31"],
    "bytes": ["", "AP8=", "YWJj"],
    "unsigned": [2**64 - 1],
    "money": [1.5],
    "nan": [None, None],
}


@real
def test_values_of_every_type_are_taken_by_an_index_that_was_made_for_them(opensearch: str) -> None:
    names = {name: pa.field(name, arrow) for name, (_, arrow, _) in EVERY.items()}
    columns = tuple(Column(name, role_of(name), name, EVERY[name][0]) for name in names)
    schema = pa.schema([*names.values(), ("__key_0", pa.int64())])
    longest = max(len(values) for *_, values in EVERY.values())
    rows = [
        {name: values[row] if row < len(values) else None for name, (*_, values) in EVERY.items()}
        for row in range(longest)
    ]
    keyed = [row | {"__key_0": number} for number, row in enumerate(rows)]
    made = sink(opensearch, create_index=True)
    aimed = target(made, layout=Layout(columns, ("__key_0",)), schema=schema)

    assert write(aimed, pa.RecordBatch.from_pylist(keyed, schema=schema)).refused == []
    found = documents(made)
    for name, (*_, values) in EVERY.items():
        expected = [*WRITTEN.get(name, values), *[None] * (longest - len(values))]
        assert sorted(json.dumps(row[name]) for row in found) == sorted(map(json.dumps, expected))


@real
@pytest.mark.parametrize(
    "poison",
    [pytest.param({0}, marks=slow), pytest.param({2_499}, marks=slow), {3, 1_017, 2_000}],
    ids=["first", "last", "three"],
)
def test_documents_that_are_refused_are_named_and_all_others_are_written(
    opensearch: str, poison: set[int]
) -> None:
    made = sink(opensearch, create_index=True)
    rows = [
        (("2026-01-01T12:01:00Z", "x" * 40_000 + str(row) if row in poison else f"city {row}"), row)
        for row in range(2_500)
    ]
    outcome = write(target(made), batch(dict(rows)))

    assert {each.row for each in outcome.refused} == poison
    assert {each.reason for each in outcome.refused} == {"SINK_REFUSED"}
    assert all("for the field tag_city" in each.detail for each in outcome.refused)
    assert all("xxx" not in each.detail for each in outcome.refused)
    assert {row["n"] for row in documents(made)} == {*range(2_500)} - poison


@real
def test_a_document_without_a_place_is_refused_and_the_others_are_written(opensearch: str) -> None:
    made = sink(opensearch, create_index=True, id="${tag_city}")
    said: Any = {("2026-01-01T12:01:00Z", city): 1 for city in (None, "", "y" * 513, "a", "b")}

    assert [(refusal.row, refusal.reason) for refusal in write(target(made), batch(said)).refused] == [
        (0, "TEMPLATE_NULL"), (1, "TOO_LARGE"), (2, "TOO_LARGE"),
    ]  # fmt: skip
    assert {row["_id"] for row in documents(made)} == {"a", "b"}


@real
def test_a_row_that_comes_again_counts_by_its_batch_and_launch(opensearch: str) -> None:
    made = sink(opensearch, create_index=True)
    key = ("2026-01-01T12:01:00Z", "1")
    left = []
    for part, n in (((1, 5), 50), ((1, 4), 40), ((1, 5), 51), ((2, 0), 20), ((1, 6), 60)):
        assert write(target(made, part, updates=True), batch({key: n})).refused == []
        left.append(counts(made)[key])

    assert left == [50, 50, 51, 20, 20]


@real
@slow
@pytest.mark.parametrize(
    ("operation", "left"),
    [
        (Sink.OPERATION_INDEX, {"n": 2, "kept": None}),
        (Sink.OPERATION_UPDATE, {"n": 2, "kept": "yes"}),
        (Sink.OPERATION_CREATE, {"n": 1, "kept": "yes"}),
    ],
)
def test_what_becomes_of_a_document_that_is_there(opensearch: str, operation: Any, left: Any) -> None:
    made = sink(opensearch, id="${tag_city}", operation=operation)
    where = f"{opensearch}/{made.sink.elasticsearch.index}"
    ask(f"{where}/_doc/a?refresh=true", "PUT", {"n": 1, "kept": "yes"})
    assert write(target(made), batch({("2026-01-01T12:01:00Z", "a"): 2})).refused == []

    [document] = documents(made)
    assert {name: document.get(name) for name in left} == left


@real
@slow
def test_an_index_may_have_the_day_of_a_row_in_its_name(opensearch: str) -> None:
    made = sink(opensearch)
    made.sink.elasticsearch.index += "-${window_timestamp:%Y.%m.%d}"
    write(target(made), batch({("2026-01-01T12:01:00Z", "1"): 1, ("2026-02-03T12:01:00Z", "1"): 2}))

    prefix = made.sink.elasticsearch.index.partition("$")[0]
    rows = documents(made, f"{prefix}*")
    assert {row["_index"]: row["n"] for row in rows} == {f"{prefix}2026.01.01": 1, f"{prefix}2026.02.03": 2}


@real
def test_an_index_that_is_missing_or_does_not_fit_is_told(opensearch: str) -> None:
    missing = refused(lambda: sinks.check(target(sink(opensearch)))).error
    strict = sink(opensearch)
    fields = {"mappings": {"dynamic": "strict", "properties": {"n": {"type": "long"}}}}
    ask(f"{opensearch}/{strict.sink.elasticsearch.index}", "PUT", fields)
    before = refused(lambda: sinks.check(target(strict))).error
    waits = refused(lambda: put(target(strict), batch(many(3)))).error

    assert (missing.reason, missing.retryable) == ("SINK_MISSING", False)
    assert (before.reason, before.retryable) == ("SINK_SCHEMA", False)
    where = strict.sink.elasticsearch.index
    assert before.detail.endswith(
        f'PUT /{where}/_mapping {{"properties": {{"tag_city": {{"type": "keyword"}}, "window_timestamp":'
        ' {"type": "date"}}}'
    )
    assert (waits.reason, waits.retryable) == ("SINK_SCHEMA", True)


def put(aimed: Target, rows: pa.RecordBatch) -> Outcome:
    """Write rows, whatever would be said before the first."""
    return sinks.open_writer(aimed).write(rows, 0)


def wider(made: spec_pb2.ResolvedSink) -> tuple[Target, pa.RecordBatch]:
    """The sink after an edit that adds a column, and a row."""
    layout = replace(LAYOUT, columns=(*LAYOUT.columns, Column("note", role_of("note"), "note", "string")))
    schema = SCHEMA.insert(3, pa.field("note", pa.string()))
    rows = batch({("2026-01-01T12:09:00Z", "later"): 9})
    row = rows.add_column(3, pa.field("note", pa.string()), pa.array(["n"]))
    return replace(target(made), layout=layout, schema=schema), row


@real
def test_what_create_index_made_grows_with_an_edit(opensearch: str) -> None:
    made = sink(opensearch, create_index=True)
    sinks.check(target(made))
    write(target(made), batch(many(2)))
    edited, row = wider(made)
    told = sinks.rehearse(edited, None)
    sinks.check(edited)
    outcome = sinks.open_writer(edited).write(row, 0)
    made.sink.elasticsearch.create_index = False
    sinks.check(wider(made)[0])

    assert told.endswith("has fields for these rows; note is added when the dagger starts.")
    assert outcome.refused == []
    assert {document.get("note") for document in documents(made)} == {None, "n"}


@real
@pytest.mark.parametrize("kind", ["object", "boolean", "long", "ip", "keyword", "text", "date"])
def test_a_field_of_a_type_that_no_value_fits_is_told_and_one_of_another_takes_it(
    opensearch: str, kind: str
) -> None:
    made = sink(opensearch)
    fields = {"mappings": {"properties": {"window_timestamp": {"type": kind}}}}
    ask(f"{opensearch}/{made.sink.elasticsearch.index}", "PUT", fields)
    told = ""
    try:
        sinks.check(target(made))
    except JobError as wrong:
        told = wrong.error.detail
    outcome = put(target(made), batch(many(1)))

    assert f"window_timestamp is {kind}" in told if outcome.refused else told == ""


@real
def test_rows_wait_while_no_shard_is_left_for_their_index(
    opensearch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sink(opensearch)
    made.sink.elasticsearch.index += "-${tag_city}"
    most = {"cluster.max_shards_per_node": str(ask(f"{opensearch}/_cluster/health")["active_shards"])}
    aimed, rows = target(made), batch({("2026-01-01T12:01:00Z", f"c{row}"): row for row in range(3)})
    writer = sinks.open_writer(aimed)
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    ask(f"{opensearch}/_cluster/settings", "PUT", {"transient": most})
    try:
        with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):
            writer.write(rows, 0)
    finally:
        ask(f"{opensearch}/_cluster/settings", "PUT", {"transient": dict.fromkeys(most)})
    monkeypatch.setattr(sending, "PATIENCE_S", 60.0)

    assert writer.write(rows, 0).refused == []
    prefix = made.sink.elasticsearch.index.partition("$")[0]
    assert len(documents(made, f"{prefix}*")) == 3


STATES = {
    "no shards": (400, "validation_exception", "this action would add [2] total shards"),
    "flood stage": (429, "cluster_block_exception", "index [i] blocked by: [TOO_MANY_REQUESTS/12/disk usage"),
    "read-only": (403, "cluster_block_exception", "index [i] blocked by: [FORBIDDEN/12/index read-only"),
    "no index is made": (403, "cluster_block_exception", "blocked by: [FORBIDDEN/10/cluster create-index]"),
    "no master": (503, "cluster_block_exception", "blocked by: [SERVICE_UNAVAILABLE/2/no master]"),
    "recovering": (503, "unavailable_shards_exception", "primary shard is not active"),
    "full of work": (429, "es_rejected_execution_exception", "rejected execution"),
    "memory": (429, "circuit_breaking_exception", "[parent] Data too large"),
    "slow": (503, "process_cluster_event_timeout_exception", "failed to process cluster event"),
    "primary is gone": (500, "no_shard_available_action_exception", "no shard"),
}


@pytest.mark.parametrize(("status", "kind", "reason"), STATES.values(), ids=STATES)
def test_what_a_server_says_of_its_own_state_is_no_documents_fault(
    server: Server, status: int, kind: str, reason: str
) -> None:
    said = {"status": status, "error": {"type": kind, "reason": reason}}
    server.answer = lambda got: taking(got, lambda row: said if row["n"] == 1 else {"status": 201})
    with pytest.raises(TemporaryError, match="SINK_UNAVAILABLE"):
        put(target(sink(server.url)), batch(many(3)))


def test_one_index_that_is_not_there_is_its_rows_fault_where_others_are(server: Server) -> None:
    said = {"status": 404, "error": {"type": "index_not_found_exception", "reason": "no such index [i-1]"}}
    server.answer = lambda got: taking(got, lambda row: said if row["n"] in wrong else {"status": 201})
    wrong: set[int] = {1}
    outcome = put(target(sink(server.url, index="i-${n}")), batch(many(3)))
    wrong = {0, 1, 2}
    waits = refused(lambda: put(target(sink(server.url, index="i-${n}")), batch(many(3)))).error

    assert [each.row for each in outcome.refused] == [1]
    assert (waits.reason, waits.retryable) == ("SINK_MISSING", True)


@real
def test_rows_wait_while_an_index_takes_none_and_are_there_once_it_does(
    opensearch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sink(opensearch, create_index=True)
    aimed = target(made)
    write(aimed, batch({("2026-01-01T12:00:00Z", "before"): 1}))
    setting = f"{opensearch}/{made.sink.elasticsearch.index}/_settings"
    ask(setting, "PUT", {"index.blocks.read_only_allow_delete": True})
    writer, rows = sinks.open_writer(aimed), batch(many(10))
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    with pytest.raises(TemporaryError):
        writer.write(rows, 0)
    monkeypatch.setattr(sending, "PATIENCE_S", 60.0)
    ask(setting, "PUT", {"index.blocks.read_only_allow_delete": None})

    assert writer.write(rows, 0).refused == []
    assert len(documents(made)) == 11


def _write_and_be_killed(resolved: bytes, after: int) -> None:
    """In a process of its own: sends rows until so many requests were answered, and dies."""
    answered, judge = count(1), elasticsearch_sink.Documents.judge

    def counted(self: Any, rows: Sequence[int], answer: Any) -> Any:
        if next(answered) > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return judge(self, rows, answer)

    elasticsearch_sink.Documents.judge = counted  # type: ignore[method-assign]
    write(target(spec_pb2.ResolvedSink.FromString(resolved)), batch(many(5_000)))


@real
@pytest.mark.parametrize("after", [pytest.param(0, marks=slow), 2])
def test_documents_are_there_once_wherever_a_worker_is_killed(opensearch: str, after: int) -> None:
    made = sink(opensearch, create_index=True)
    code = fresh.exit_code(_write_and_be_killed, made.SerializeToString(), after)
    write(target(made), batch(many(5_000)))

    assert code == -signal.SIGKILL
    assert Counter(row["n"] for row in documents(made)) == dict.fromkeys(range(5_000), 1)


# What answers mean


def test_only_documents_that_were_not_taken_are_sent_again(server: Server) -> None:
    sent, taken = Counter[int](), Counter[int]()

    def result(document: dict[str, Any]) -> dict[str, Any]:
        sent[document["n"]] += 1
        if document["n"] % 3 == 0 and sent[document["n"]] == 1:
            return {"status": 429, "error": {"type": "es_rejected_execution_exception"}}
        if document["n"] % 100 == 1:
            return {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": "canary"}}
        taken[document["n"]] += 1
        return {"status": 201}

    server.answer = lambda got: taking(got, result)
    outcome = sinks.open_writer(target(sink(server.url))).write(batch(many(2_500)), 0)

    refused = {row for row in range(2_500) if row % 100 == 1 and taken[row] == 0}
    assert {each.row for each in outcome.refused} == refused
    assert taken == dict.fromkeys({*range(2_500)} - refused, 1)
    assert all("canary" not in each.detail for each in outcome.refused)


def test_requests_are_cut_by_rows_and_bytes_and_halved_where_they_are_too_large(server: Server) -> None:
    rows = {("2026-01-01T12:01:00Z", f"{'x' * 30_000}{row}"): row for row in range(400)}
    server.answer = lambda got: (
        Reply(413) if len(got.body) > 2_000_000 else taking(got, lambda _: {"status": 201})
    )
    outcome = sinks.open_writer(target(sink(server.url))).write(batch(rows), 0)

    sizes = [len(request.body) for request in server.received]
    assert outcome.refused == []
    assert max(sizes) <= 5 * 1024 * 1024
    assert len([size for size in sizes if size > 2_000_000]) >= 3


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(401), "SINK_DENIED"),
        (Reply(404), "SINK_MISSING"),
        (Reply(302), "SINK_REDIRECTS"),
        (Reply(429), "SINK_THROTTLES"),
        (Reply(503), "SINK_UNAVAILABLE"),
        (Reply(200, b"<html>"), "SINK_UNAVAILABLE"),
        (Reply(200, b'{"errors": true, "items": []}'), "SINK_UNAVAILABLE"),
        (Reply(200, b'{"errors": true', promised=900), "SINK_UNAVAILABLE"),
    ],
)
def test_an_answer_that_is_about_the_server_waits_and_refuses_no_row(
    server: Server, reply: Reply, reason: str
) -> None:
    server.answer = lambda _: reply
    error = refused(lambda: sinks.open_writer(target(sink(server.url))).write(batch(many(3)), 0)).error

    assert (error.reason, error.retryable) == (reason, True)


@pytest.mark.parametrize(
    ("error", "reason"),
    [("index_not_found_exception", "SINK_MISSING"), ("security_exception", "SINK_DENIED")],
)
def test_an_error_of_documents_that_somebody_has_to_mend_waits(
    server: Server, error: str, reason: str
) -> None:
    server.answer = lambda got: taking(got, lambda _: {"status": 403, "error": {"type": error}})

    told = refused(lambda: sinks.open_writer(target(sink(server.url))).write(batch(many(3)), 0)).error
    assert (told.reason, told.retryable) == (reason, True)


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ({"version": {"number": "6.8.23"}}, "SINK_SCHEMA"),
        ({"name": "something else"}, "SINK_SCHEMA"),
        ([], "SINK_SCHEMA"),
        ({"version": {"number": "8.19.4"}}, None),
        ({"version": {"number": "1.3.0", "distribution": "opensearch"}}, None),
    ],
)
def test_a_server_is_asked_what_it_is_before_anything_is_read(
    server: Server, says: Any, reason: str | None
) -> None:
    server.answer = lambda _: Reply(body=json.dumps(says).encode())
    aimed = target(sink(server.url))
    if reason is None:
        sinks.check(aimed)
    else:
        told = refused(lambda: sinks.check(aimed)).error
        assert (told.reason, told.retryable) == (reason, False)


@real
@slow
def test_elasticsearch_knows_who_writes_by_a_password_and_a_wrong_one_is_told(
    elasticsearch: str, tmp_path: Path
) -> None:
    secret = tmp_path / "password"
    secret.write_text(f"{PASSWORD}\n")
    basic = spec_pb2.HttpAuth.Basic(user=USER, password=spec_pb2.SecretRef(file=str(secret)))
    made = sink(elasticsearch, create_index=True, auth=spec_pb2.HttpAuth(basic=basic))
    outcome = write(target(made), batch(many(20)))
    secret.write_text("another\n")
    client.pool.clear()
    checked = refused(lambda: sinks.check(target(made))).error
    written = refused(lambda: sinks.open_writer(target(made)).write(batch(many(1)), 0)).error

    assert (outcome.refused, len(documents(made))) == ([], 20)
    assert {(error.reason, error.retryable) for error in (checked, written)} == {("SINK_DENIED", True)}


@pytest.mark.parametrize("status", [403, 405])
def test_who_may_write_need_not_be_told_what_a_server_is(server: Server, status: int) -> None:
    server.answer = lambda _: Reply(status)
    server.questions = Reply(403)

    sinks.check(target(sink(server.url)))
    assert [got.method for got in server.received] == ["GET"]


def test_a_server_that_is_shown_a_secret_or_is_inside_gets_what_the_sink_http_would_send(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("canary\n")
    password = spec_pb2.SecretRef(file=str(tmp_path / "secret"))
    made = sink(
        server.url, auth=spec_pb2.HttpAuth(basic=spec_pb2.HttpAuth.Basic(user="u", password=password))
    )
    sinks.open_writer(target(made)).write(batch(many(1)), 0)
    made.egress.enforce = True
    told = refused(lambda: sinks.open_writer(target(made)).write(batch(many(1)), 0)).error

    assert [request.headers["Authorization"] for request in server.received] == ["Basic dTpjYW5hcnk="]
    assert (told.reason, told.retryable) == ("SINK_ADDRESS_REFUSED", True)
