"""Sinks that pass on records as they were read, or keep their order: real servers, a real broker."""

from __future__ import annotations

import os
import signal
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from daggers.v1 import spec_pb2
from grpc import StatusCode
from services.runtime.tests import fresh, grpcserver, httpserver
from services.runtime.tests.recorded import LAYOUT, Record, batch, numbered, target
from services.runtime.tests.sink_cases.grpc import sink as grpc_sink
from services.runtime.tests.sink_cases.http import sink as http_sink
from services.runtime.tests.sink_cases.parquet import seen
from services.runtime.tests.sink_cases.parquet import sink as parquet_sink
from services.runtime.tests.sink_contract import fresh_topic, records

from runtime import sinks
from runtime.clients import sending
from runtime.clients.http import client
from runtime.errors import TemporaryError
from runtime.sinks import Outcome, Target
from runtime.sinks import http as http_module

RAW = spec_pb2.HttpSink.BODY_RAW
OURS = "daggers_id"


@pytest.fixture
def web() -> Iterator[httpserver.Server]:
    with httpserver.serving() as made:
        yield made


@pytest.fixture
def calls() -> Iterator[grpcserver.Server]:
    with grpcserver.serving() as made:
        yield made


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """No client of a server that is gone is kept."""
    yield
    client.pool.clear()
    grpcserver.forget()


def write(resolved: spec_pb2.ResolvedSink, *batches: pa.RecordBatch) -> list[Outcome]:
    """What came of each batch of a partition, and of its end."""
    writer = sinks.open_writer(target(resolved))
    return [*(writer.write(each, 0) for each in batches), writer.finish()]


def refused(outcomes: Sequence[Outcome]) -> list[tuple[int, str]]:
    return [(refusal.row, refusal.reason) for outcome in outcomes for refusal in outcome.refused]


# Kafka


def to_topic(servers: str, topic: str) -> spec_pb2.ResolvedSink:
    made = spec_pb2.ResolvedSink()
    made.kafka.bootstrap_servers = servers
    made.sink.kafka.topic, made.sink.kafka.format = topic, spec_pb2.KafkaSink.FORMAT_RECORD
    return made


@pytest.mark.integration
def test_a_topic_gets_value_key_and_headers_as_they_were_and_an_id_that_repeats(kafka: str) -> None:
    topic = fresh_topic(kafka)
    given = [
        Record(
            7, b"\xff\x00no message", b"k\xfe", [("a", b"1"), ("b", None), ("a", b"2"), (OURS, b"theirs")]
        ),
        Record(8, None, b"gone"),
        Record(9, b""),
    ]
    sinks.check(target(to_topic(kafka, topic)))
    for _ in range(2):
        assert refused(write(to_topic(kafka, topic), batch(given))) == []

    found: dict[Any, set[Any]] = {}
    for record in records(kafka, topic):
        *own, (name, told) = record.headers() or ()
        assert (name, len(told)) == (OURS, 32)
        found.setdefault(told, set()).add((record.value(), record.key(), tuple(own)))

    assert [len(repeats) for repeats in found.values()] == [1, 1, 1]
    assert {each for repeats in found.values() for each in repeats} == {
        (record.value, record.key, tuple(record.headers or ())) for record in given
    }


@pytest.mark.integration
def test_records_of_one_key_stay_in_their_order(kafka: str) -> None:
    topic = fresh_topic(kafka)
    given = [Record(offset, b"%d" % offset, b"key %d" % (offset % 5)) for offset in range(500)]
    write(to_topic(kafka, topic), batch(given[:200]), batch(given[200:]))

    by_key: dict[Any, list[int]] = {}
    for record in records(kafka, topic):
        by_key.setdefault(record.key(), []).append(int(record.value() or b""))

    assert by_key == {b"key %d" % key: [*range(key, 500, 5)] for key in range(5)}


# Requests


def test_a_server_gets_the_bytes_of_a_record_and_what_its_path_and_headers_ask_of_it(
    web: httpserver.Server,
) -> None:
    said = http_sink(web.url, body=RAW, path="/k/${key}", headers={"X-Headers": "${headers}"})
    sinks.check(target(said))
    outcomes = write(said, batch([Record(1, b"\xff\x00\n", b"k", [("a", b"1")]), Record(2, None, b"k", [])]))

    [got] = web.received
    assert (got.body, got.path, got.headers["Content-Type"]) == (
        b"\xff\x00\n",
        "/k/aw%3D%3D",
        "application/protobuf",
    )
    assert got.headers["X-Headers"] == '[{"key":"a","value":"MQ=="}]'
    assert len(got.headers["Idempotency-Key"]) == 32
    assert refused(outcomes) == [(1, "EMPTY_VALUE")]


def test_a_method_gets_the_bytes_of_a_record(calls: grpcserver.Server) -> None:
    said = grpc_sink(calls.target)
    sinks.check(target(said))  # whose message nobody knows here
    outcomes = write(said, batch([Record(1, b"\xff\x00"), Record(2, None), Record(3, b"")]))

    assert sorted(request.message for request in calls.received) == [b"", b"\xff\x00"]
    assert refused(outcomes) == [(1, "EMPTY_VALUE")]


# Files and the log


def test_files_have_records_as_they_were_beside_where_they_stood(tmp_path: Path) -> None:
    said = parquet_sink(tmp_path)
    aimed = target(said)
    sinks.check(aimed)
    outcomes = write(said, batch([Record(1, b"\xff\x00", b"k", [("a", b"1"), ("a", None)]), Record(2, None)]))
    assert aimed.part is not None
    sinks.commit(aimed, aimed.part.batch, [outcomes[-1].receipt])

    assert seen(said) == [
        {"value": b"\xff\x00", "key": b"k",
         "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}],
         "__topic": "in", "__partition": 0, "__offset": 1},
        {"value": None, "key": None, "headers": [], "__topic": "in", "__partition": 0, "__offset": 2},
    ]  # fmt: skip


def test_the_log_shows_records_in_base64() -> None:
    said = spec_pb2.ResolvedSink()
    said.sink.log.limit = 5
    sinks.check(target(said))
    [written, _] = write(said, batch([Record(1, b"\xff", b"k", [("a", b"1")])]))

    assert written.printed == ['row {"value":"/w==","key":"aw==","headers":[{"key":"a","value":"MQ=="}]}']


# Order


def test_one_request_after_the_other_is_sent_in_the_order_of_offsets(web: httpserver.Server) -> None:
    web.answer = lambda _: httpserver.Reply(after_s=0.001)
    given = numbered(60)
    write(http_sink(web.url, body=RAW, ordered=True), batch(given[:40]), batch(given[40:]))

    assert [got.body for got in web.received] == [record.value for record in given]
    assert web.most_at_once == 1


def test_without_a_word_of_order_several_requests_are_under_way(web: httpserver.Server) -> None:
    web.answer = lambda _: httpserver.Reply(after_s=0.05)
    write(http_sink(web.url, body=RAW), batch(numbered(40)))

    assert web.most_at_once > 1


def test_what_is_refused_holds_up_nothing_and_what_is_sent_again_holds_up_all_behind_it(
    web: httpserver.Server,
) -> None:
    times = dict.fromkeys((b"\xff3", b"\xff7"), 2)

    def answer(got: httpserver.Received) -> httpserver.Reply:
        if got.body == b"\xff5":
            return httpserver.Reply(422)
        if times.get(got.body):
            times[got.body] -= 1
            return httpserver.Reply(503)
        return httpserver.Reply()

    web.answer = answer
    outcomes = write(http_sink(web.url, body=RAW, ordered=True), batch(numbered(10)))

    assert [int(got.body[1:]) for got in web.received] == [0, 1, 2, 3, 3, 3, 4, 5, 6, 7, 7, 7, 8, 9]
    assert refused(outcomes) == [(5, "SINK_REFUSED")]


def test_an_outage_lets_nothing_overtake_and_the_rest_follows_when_it_is_over(
    web: httpserver.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    web.answer = lambda got: httpserver.Reply(503 if got.body == b"\xff4" else 200)
    writer, rows = sinks.open_writer(target(http_sink(web.url, body=RAW, ordered=True))), batch(numbered(8))
    with pytest.raises(TemporaryError):
        writer.write(rows, 0)
    before = [got.body for got in web.received]
    web.answer = lambda _: httpserver.Reply()
    writer.write(rows, 0)

    assert b"\xff5" not in before
    assert [*dict.fromkeys(got.body for got in web.received)] == [record.value for record in numbered(8)]


def test_requests_of_several_rows_are_in_the_order_of_offsets_and_so_are_their_halves(
    web: httpserver.Server,
) -> None:
    rows = batch(numbered(23))
    plain = Target(
        "d",
        http_sink(web.url, rows_per_request=5, split=True, ordered=True).SerializeToString(),
        replace(LAYOUT, has_records=False),
        rows.schema,
        b"",
        updates=False,
        part=target(spec_pb2.ResolvedSink()).part,
    )
    poison = rows.column("value").to_pylist()[11]

    def answer(got: httpserver.Received) -> httpserver.Reply:
        return httpserver.Reply(422 if any(b64decode(row["value"]) == poison for row in got.json) else 200)

    web.answer = answer
    writer = sinks.open_writer(plain)
    shuffled = rows.take(pa.array([*range(12, 23), *range(12)]))
    writer.write(shuffled, 0)
    outcome = writer.finish()

    taken = [b64decode(row["value"]) for got in web.received if answer(got).status == 200 for row in got.json]
    assert taken == [record.value for record in numbered(23) if record.value != poison]
    assert (web.most_at_once, refused([outcome])) == (1, [(11, "SINK_REFUSED")])


def test_calls_are_made_one_after_the_other_in_the_order_of_offsets(calls: grpcserver.Server) -> None:
    seen = count()

    def answer(got: grpcserver.Received) -> grpcserver.Reply:
        if got.message == b"\xff3":
            return grpcserver.Reply(StatusCode.INVALID_ARGUMENT)
        busy = got.message == b"\xff6" and next(seen) < 2
        return grpcserver.Reply(StatusCode.UNAVAILABLE if busy else StatusCode.OK)

    calls.answer = answer
    outcomes = write(grpc_sink(calls.target, ordered=True), batch(numbered(9)))

    assert [int(got.message[1:]) for got in calls.received] == [0, 1, 2, 3, 4, 5, 6, 6, 6, 7, 8]
    assert refused(outcomes) == [(3, "SINK_REFUSED")]


def _write_and_be_killed(resolved: bytes, after: int) -> None:
    """In a process of its own: sends records in order until so many were answered, and dies."""
    answered, judge = count(1), http_module.HttpRows.judge

    def counting(self: Any, rows: Sequence[int], answer: Any) -> Any:
        if next(answered) > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return judge(self, rows, answer)

    http_module.HttpRows.judge = counting  # type: ignore[method-assign]
    write(spec_pb2.ResolvedSink.FromString(resolved), batch(numbered(50)))


@pytest.mark.parametrize("after", [0, 1, 30])
def test_nothing_is_lost_and_the_order_is_kept_wherever_a_worker_is_killed(
    web: httpserver.Server, after: int
) -> None:
    said = http_sink(web.url, body=RAW, ordered=True)
    code = fresh.exit_code(_write_and_be_killed, said.SerializeToString(), after)
    write(said, batch(numbered(50)))

    assert code == -signal.SIGKILL
    got = [int(request.body[1:]) for request in web.received]
    assert got == [*range(after + 1), *range(50)]
    assert len({request.headers["Idempotency-Key"] for request in web.received}) == 50
