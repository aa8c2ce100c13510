"""The sink kafka on a real broker: keys, headers, both formats, and what is refused."""

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import NewTopic
from daggers.v1 import spec_pb2
from services.runtime.tests.test_sink_contract import (
    COUNTS,
    LAYOUT,
    SCHEMA,
    batch,
    create,
    fresh_topic,
    records,
)
from services.runtime.tests.test_sink_protobuf import FILES

from runtime import sinks
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Target

pytestmark = pytest.mark.integration


def target(
    servers: str,
    topic: str,
    *,
    message: str = "",
    updates: bool = False,
    properties: dict[str, str] | None = None,
) -> Target:
    sink = spec_pb2.ResolvedSink()
    sink.kafka.bootstrap_servers = servers
    sink.kafka.properties.update(properties or {})
    sink.sink.kafka.topic = topic
    formats = spec_pb2.KafkaSink
    sink.sink.kafka.format = formats.FORMAT_PROTOBUF if message else formats.FORMAT_JSON
    sink.sink.kafka.message = message
    return Target("counts", sink.SerializeToString(), LAYOUT, SCHEMA, FILES, updates)


def ids(found: list[Any]) -> list[bytes]:
    return [dict(record.headers())["ce_id"] for record in found]


def test_a_record_is_a_cloudevent_with_the_rows_key(kafka: str) -> None:
    topic = fresh_topic(kafka)
    sinks.open_writer(target(kafka, topic)).write(batch({("2026-01-01T12:01:00Z", "1"): 5}), 0)

    (record,) = records(kafka, topic)

    headers = dict(record.headers() or [])
    assert len(headers.pop("ce_id")) == 32
    assert headers == {
        "ce_specversion": b"1.0",
        "ce_source": b"/daggers/counts",
        "ce_type": b"daggers.v1.Row",
        "ce_subject": b"counts",
        "ce_time": b"2026-01-01T12:01:00Z",
        "content-type": b"application/json",
    }
    assert record.key() == b'["2026-01-01T12:00:00Z","2026-01-01T12:01:00Z","1"]'
    assert record.value() == b'{"tag_city":"1","n":5,"window_timestamp":"2026-01-01T12:01:00Z"}'


def test_a_row_that_is_computed_again_is_an_event_of_its_own_with_the_same_key(kafka: str) -> None:
    topic = fresh_topic(kafka)
    before = target(kafka, topic)
    for written in (before, replace(before, corrects="r1"), replace(before, corrects="r1")):
        sinks.open_writer(written).write(batch({("2026-01-01T12:01:00Z", "1"): 5}), 0)

    found = records(kafka, topic)

    first, again, once_more = ids(found)
    assert (again, once_more) == (first + b"/rr1", first + b"/rr1")
    assert len({record.key() for record in found}) == 1


def test_a_repeated_row_has_the_same_id_and_another_row_another_one(kafka: str) -> None:
    topic = fresh_topic(kafka)
    for batch_id in (3, 4):
        sinks.open_writer(target(kafka, topic)).write(batch(COUNTS), batch_id)

    found = ids(records(kafka, topic))

    assert (len(found), len(set(found))) == (6, 3)


def test_each_update_of_an_open_window_is_an_event_of_its_own(kafka: str) -> None:
    topic = fresh_topic(kafka)
    for batch_id in (3, 4, 4):
        sinks.open_writer(target(kafka, topic, updates=True)).write(batch(COUNTS), batch_id)

    found = records(kafka, topic)

    assert (len(set(ids(found))), len({record.key() for record in found})) == (6, 3)


def test_a_row_that_does_not_fit_its_message_is_found_before_the_start(kafka: str) -> None:
    with pytest.raises(JobError) as refused:
        sinks.check(target(kafka, "any", message="row.v1.Row"))

    assert refused.value.error.reason == "SINK_MESSAGE_MISMATCH"


def test_a_row_that_is_too_large_is_refused_and_the_others_are_written(kafka: str) -> None:
    topic = fresh_topic(kafka)
    counts = {("2026-01-01T12:01:00Z", "x" * 2000): 1, ("2026-01-01T12:01:00Z", "2"): 2}
    small = target(kafka, topic, properties={"message.max.bytes": "1500"})

    outcome = sinks.open_writer(small).write(batch(counts), 0)

    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(0, "SINK_REFUSED")]
    assert [json.loads(record.value() or b"")["n"] for record in records(kafka, topic)] == [2]


def test_records_that_nothing_was_heard_of_are_not_taken_for_written(monkeypatch: pytest.MonkeyPatch) -> None:
    away = target("127.0.0.1:1", "any", properties={"message.timeout.ms": "300000", "log_level": "0"})
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", 1_000)
    with pytest.raises(TemporaryError, match=r"does not take records now"):  # heard of within our own limit
        sinks.open_writer(away).write(batch(COUNTS), 0)
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", -4_900)  # nothing is heard of in 100 ms

    with pytest.raises(TemporaryError, match=r"has not taken 3 records yet"):
        sinks.open_writer(away).write(batch(COUNTS), 1)


def test_a_record_that_the_broker_finds_too_large_is_refused(kafka: str) -> None:
    small = NewTopic(f"sink-{uuid4().hex[:8]}", 1, 1, config={"max.message.bytes": "1500"})
    plain = target(kafka, create(kafka, small), properties={"compression.type": "none"})
    counts = {("2026-01-01T12:01:00Z", uuid4().hex * 100): 1}

    outcome = sinks.open_writer(plain).write(batch(counts), 0)

    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(0, "SINK_REFUSED")]


def test_a_broker_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    away = target("127.0.0.1:1", "any", properties={"log_level": "0"})
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", 1_000)

    with pytest.raises(TemporaryError, match="does not take records now"):
        sinks.open_writer(away).write(batch(COUNTS), 0)


def test_every_row_goes_to_the_partition_of_its_key(kafka: str) -> None:
    topic = fresh_topic(kafka)
    for _ in range(2):
        sinks.open_writer(target(kafka, topic)).write(batch(COUNTS), 0)

    places: dict[Any, set[Any]] = {}
    for record in records(kafka, topic):
        places.setdefault(record.key(), set()).add(record.partition())

    assert [len(partitions) for partitions in places.values()] == [1, 1, 1]
