"""What a server says of its own state is no row's fault: rows wait, whichever of them it was said of.

`test_sink_postgres_faults` and `test_sink_elasticsearch` have the states of these two.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError
from daggers.v1 import spec_pb2
from grpc import StatusCode
from services.runtime.tests import grpcserver, httpserver, kafkaanswers
from services.runtime.tests.httpserver import Reply
from services.runtime.tests.sink_cases import grpc, http
from services.runtime.tests.sink_contract import batch, influx_sink, many, part, records, target

from runtime import sinks
from runtime.clients import redis as redis_client
from runtime.clients import sending
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Target, kafka


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)


def error_of(aimed: Target, rows: int = 3) -> JobError:
    """Why rows wait."""
    with pytest.raises(JobError) as waits:
        sinks.open_writer(replace(aimed, part=part("c", 0))).write(batch(many(rows)), 0)
    assert waits.value.error.retryable
    return waits.value


INFLUX: Final = {
    "series": (400, "partial write: max-series-per-database limit exceeded: dropped=1", "SINK_UNAVAILABLE"),
    "tags": (400, "partial write: max-values-per-tag limit exceeded: dropped=1", "SINK_UNAVAILABLE"),
    "cache": (500, "engine: cache-max-memory-size exceeded: (1/1)", "SINK_UNAVAILABLE"),
    "timeout": (500, "timeout", "SINK_UNAVAILABLE"),
    "busy": (429, "too many requests", "SINK_UNAVAILABLE"),
    "starting": (503, "unavailable", "SINK_UNAVAILABLE"),
    "policy": (500, "retention policy not found: rp", "SINK_MISSING"),
    "database": (404, 'database not found: "db"', "SINK_MISSING"),
    "token": (401, "unauthorized access", "SINK_DENIED"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "words", "reason"), INFLUX.values(), ids=INFLUX)
def test_points_wait_for_a_database_that_is_full_or_is_not_there(
    status: int, words: str, reason: str, tmp_path: Any
) -> None:
    (tmp_path / "token").write_text("t\n")
    with httpserver.serving() as server:
        server.answer = lambda _: Reply(status, body=json.dumps({"error": words}).encode())
        address = {"url": server.url, "org": "-", "bucket": "db/rp", "token_file": str(tmp_path / "token")}
        error = error_of(target("d", influx_sink(address, "m"))).error

    assert error.reason == reason
    if words.startswith("retention"):
        assert 'CREATE RETENTION POLICY "rp" ON "db"' in error.detail


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504, 507, 511])
def test_rows_wait_for_a_server_that_takes_none_now_also_where_it_says_so_of_one(status: int) -> None:
    with httpserver.serving() as server:
        server.answer = lambda got: Reply(status if got.json["n"] == 1 else 200)

        assert isinstance(error_of(target("d", http.sink(server.url))), TemporaryError)


@pytest.mark.parametrize(
    "status", [StatusCode.UNAVAILABLE, StatusCode.ABORTED, StatusCode.CANCELLED, StatusCode.DEADLINE_EXCEEDED]
)
def test_calls_wait_for_a_server_that_takes_none_now(status: StatusCode) -> None:
    with grpcserver.serving() as server:
        server.answer = lambda got: grpcserver.Reply(status if got.row.n == 1 else StatusCode.OK)

        assert isinstance(
            error_of(target("d", grpc.sink(server.target), grpcserver.DESCRIPTORS)), TemporaryError
        )
        grpcserver.forget()


KAFKA: Final = {
    KafkaError.LEADER_NOT_AVAILABLE: "SINK_UNAVAILABLE",
    KafkaError.NOT_LEADER_FOR_PARTITION: "SINK_UNAVAILABLE",
    KafkaError.REQUEST_TIMED_OUT: "SINK_UNAVAILABLE",
    KafkaError.NOT_ENOUGH_REPLICAS: "SINK_UNAVAILABLE",
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "SINK_UNAVAILABLE",
    KafkaError.KAFKA_STORAGE_ERROR: "SINK_UNAVAILABLE",  # its disk is full, or offline
    KafkaError.THROTTLING_QUOTA_EXCEEDED: "SINK_UNAVAILABLE",
    KafkaError.UNKNOWN: "SINK_UNAVAILABLE",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "SINK_UNAVAILABLE",  # of one that others say is there
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "SINK_DENIED",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "SINK_DENIED",
    KafkaError.TOPIC_EXCEPTION: "SINK_UNAVAILABLE",
    KafkaError.POLICY_VIOLATION: "SINK_UNAVAILABLE",
    KafkaError.INVALID_TIMESTAMP: "SINK_UNAVAILABLE",
    KafkaError.UNSUPPORTED_COMPRESSION_TYPE: "SINK_UNAVAILABLE",
}


_SOON: Final = {
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
}
"""Those of `make test`: each takes a second or two."""


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        pytest.param(
            code, reason, id=KafkaError(code).name(), marks=() if code in _SOON else pytest.mark.long
        )
        for code, reason in KAFKA.items()
    ],
)
def test_records_wait_for_a_broker_that_takes_none_now_and_are_there_once_it_does(
    code: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refusal is no matter of time; whatever else Kafka answers is tried again until then.
    monkeypatch.setattr(kafka, "DELIVERY_TIMEOUT_MS", 1_000 if reason == "SINK_UNAVAILABLE" else 60_000)
    with kafkaanswers.answering() as broker:
        aimed, rows = kafka_sink(broker.address), batch(many(3))
        writer = sinks.open_writer(aimed)
        broker.always_answers(code)
        with pytest.raises(JobError) as waits:
            writer.write(rows, 0)
        broker.recovers()

        assert (waits.value.error.reason, waits.value.error.retryable) == (reason, True)
        assert writer.write(rows, 0).refused == []
        assert len({record.key() for record in records(broker.address, "t")}) == 3
        kafka._client.cache_clear()


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
    ],
)
def test_a_batch_of_records_that_a_broker_refuses_is_divided(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "DELIVERY_TIMEOUT_MS", 3_000)
    with kafkaanswers.answering() as broker:
        aimed = kafka_sink(broker.address)
        broker.answers(code, code)
        outcome = sinks.open_writer(aimed).write(batch(many(2)), 0)

        assert [each.row for each in outcome.refused] == [0]
        assert len(records(broker.address, "t")) == 1
        kafka._client.cache_clear()


def kafka_sink(address: str) -> Target:
    made = spec_pb2.ResolvedSink()
    made.kafka.bootstrap_servers, made.sink.kafka.topic = address, "t"
    made.sink.kafka.format = spec_pb2.KafkaSink.FORMAT_JSON
    made.kafka.properties["log_level"] = "0"
    return replace(target("d", made), part=part("c", 0))


@contextmanager
def answering(replies: Sequence[bytes]) -> Iterator[str]:
    """A server that answers each command of Redis by the next of these, and then OK."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                left = list(replies)
                with connection, connection.makefile("rb") as said:
                    while line := said.readline():
                        words = [said.read(int(said.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                        is_row = words[0] in (b"SET", b"HSET", b"HDEL")
                        connection.sendall((left.pop(0) if left and is_row else b"+OK") + b"\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def redis_sink(address: str) -> Target:
    made = spec_pb2.ResolvedSink()
    own = spec_pb2.RedisSink(address=address, plaintext=True, key="${tag_city}", type="TYPE_STRING")
    made.sink.redis.CopyFrom(own)
    return replace(target("d", made), part=part("c", 0))


REDIS: Final = {
    b"-OOM command not allowed when used memory > 'maxmemory'.": "SINK_UNAVAILABLE",
    b"-MISCONF Redis is configured to save RDB snapshots, and cannot": "SINK_UNAVAILABLE",
    b"-LOADING Redis is loading the dataset in memory": "SINK_UNAVAILABLE",
    b"-READONLY You can't write against a read only replica.": "SINK_READ_ONLY",
    b"-MASTERDOWN Link with MASTER is down": "SINK_UNAVAILABLE",
    b"-NOREPLICAS Not enough good replicas to write.": "SINK_UNAVAILABLE",
    b"-BUSY Redis is busy running a script.": "SINK_UNAVAILABLE",
    b"-NOAUTH Authentication required.": "SINK_DENIED",
    b"-MOVED 1 127.0.0.1:1": "SINK_SCHEMA",
}


@pytest.mark.parametrize(("reply", "reason"), REDIS.items(), ids=[each[1:9].decode() for each in REDIS])
def test_keys_wait_for_a_server_that_takes_none_now(reply: bytes, reason: str) -> None:
    with answering([b"+OK", reply]) as address:
        aimed = redis_sink(address)

        assert error_of(aimed).error.reason == reason
        redis_client.drop(aimed.resolved)


@pytest.mark.parametrize(
    "reply",
    [
        b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        b"-NOPERM this user has no permissions to access one of the keys used as arguments",
        b"-WRONGTYPE Operation against a key holding the wrong kind of value",
        b"-CUSTOM whatever a module says",
    ],
)
def test_one_key_that_is_refused_in_whatever_words_is_refused_by_itself(reply: bytes) -> None:
    with answering([b"+OK", reply]) as address:
        aimed = redis_sink(address)
        outcome = sinks.open_writer(aimed).write(batch(many(3)), 0)
        redis_client.drop(aimed.resolved)

    assert [(each.row, each.by_server) for each in outcome.refused] == [(1, True)]


def test_keys_that_somebody_may_not_write_any_of_wait() -> None:
    with answering([b"-NOPERM this user has no permissions to run the 'set' command"] * 3) as address:
        aimed = redis_sink(address)

        assert error_of(aimed).error.reason == "SINK_DENIED"
        redis_client.drop(aimed.resolved)
