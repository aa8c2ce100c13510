"""The sink kafka on a real broker: keys, headers, both formats, and what is refused."""

import json
import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import (
    COUNTS,
    LAYOUT,
    SCHEMA,
    Counts,
    batch,
    create,
    fresh_topic,
    records,
)
from services.runtime.tests.sink_protobuf import FILES

from daggersql import Column, Role
from runtime import sinks
from runtime.clients.topiclimits import TopicLimits
from runtime.encode.rows import Layout
from runtime.errors import JobError, TemporaryError
from runtime.sinks import Target
from runtime.sinks.kafka import KafkaWriter

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
    assert KafkaWriter(away)._client.producer.flush(30) == 0  # of the batch before
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", -4_900)  # nothing is heard of in 100 ms

    with pytest.raises(TemporaryError, match=r"has not taken 3 records yet"):
        sinks.open_writer(away).write(batch(COUNTS), 1)


def test_a_record_that_the_broker_finds_too_large_is_refused(kafka: str) -> None:
    small = NewTopic(f"sink-{uuid4().hex[:8]}", 1, 1, config={"max.message.bytes": "1500"})
    plain = target(kafka, create(kafka, small), properties={"compression.type": "none"})
    counts = {("2026-01-01T12:01:00Z", uuid4().hex * 100): 1}

    outcome = sinks.open_writer(plain).write(batch(counts), 0)

    assert [(refusal.row, refusal.reason) for refusal in outcome.refused] == [(0, "SINK_REFUSED")]


def limited(kafka: str, **said: str) -> str:
    """A topic of one partition with these settings."""
    config = {name.replace("_", "."): value for name, value in said.items()}
    return create(kafka, NewTopic(f"sink-{uuid4().hex[:8]}", 1, 1, config=config))


def of_150_bytes(rows: int) -> Counts:
    """As many rows, none of which is like another to who compresses them."""
    return {(f"2026-01-01T12:0{row % 6}:00Z", uuid4().hex * 3): row for row in range(rows)}


def test_rows_that_fit_their_topic_are_written_however_many_a_batch_of_the_client_has(kafka: str) -> None:
    topic = limited(kafka, max_message_bytes="20000")
    outcome = sinks.open_writer(target(kafka, topic)).write(batch(of_150_bytes(600)), 0)

    assert (outcome.refused, len(records(kafka, topic))) == ([], 600)


def test_a_record_that_is_larger_than_a_segment_is_refused_by_itself(kafka: str) -> None:
    topic = limited(kafka, max_message_bytes="5000000", segment_bytes="1048576")
    counts = of_150_bytes(20) | {("2026-01-01T12:01:00Z", "".join(uuid4().hex for _ in range(60_000))): 20}
    plain = target(kafka, topic, properties={"compression.type": "none"})
    outcome = sinks.open_writer(plain).write(batch(counts), 0)

    assert [each.row for each in outcome.refused] == [20]
    assert len({record.key() for record in records(kafka, topic)}) == 20


def committed(kafka: str, topic: str) -> list[int]:
    """What a reader of committed records is given of a topic of one partition."""
    how = {"bootstrap.servers": kafka, "group.id": topic, "isolation.level": "read_committed"}
    consumer = Consumer({**how, "enable.partition.eof": True, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[int] = []
        while True:
            [message] = consumer.consume(1, 20)
            if message.error() is not None:
                return found
            found.append(json.loads(message.value() or b"")["n"])
    finally:
        consumer.close()


def test_who_reads_committed_records_has_each_row_but_those_behind_an_open_transaction_of_others(
    kafka: str,
) -> None:
    topic = limited(kafka, retention_ms="-1")
    other = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    other.init_transactions(30)
    writer = sinks.open_writer(target(kafka, topic))
    writer.write(batch({("2026-01-01T12:01:00Z", "1"): 1}), 0)
    before = committed(kafka, topic)
    other.begin_transaction()
    other.produce(topic, b'{"n": 0}')
    other.flush(30)
    writer.write(batch({("2026-01-01T12:01:00Z", "2"): 2}), 1)
    during = committed(kafka, topic)
    other.abort_transaction(30)

    assert (before, during, committed(kafka, topic)) == ([1], [1], [1, 2])


@pytest.mark.long
def test_rows_wait_for_a_topic_that_was_deleted_and_go_to_the_one_that_is_made_in_its_place(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", 3_000)
    topic = limited(kafka, retention_ms="-1")
    aimed = target(kafka, topic, properties={"log_level": "0", "allow.auto.create.topics": "false"})
    sinks.open_writer(aimed).write(batch({("2026-01-01T12:01:00Z", "1"): 1}), 0)
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([topic])[topic].result(30)
    waits: list[str] = []
    for _ in range(2):
        with pytest.raises(JobError) as error:
            sinks.open_writer(aimed).write(batch({("2026-01-01T12:01:00Z", "2"): 2}), 1)
        assert error.value.error.retryable
        waits.append(error.value.error.reason)
    create(kafka, NewTopic(topic, 1, 1))
    deadline = time.monotonic() + 60
    while True:
        try:
            assert sinks.open_writer(aimed).write(batch({("2026-01-01T12:01:00Z", "2"): 2}), 1).refused == []
            break
        except JobError:
            assert time.monotonic() < deadline

    assert {*waits} <= {"SINK_UNAVAILABLE", "SINK_MISSING"}
    assert [json.loads(record.value() or b"")["n"] for record in records(kafka, topic)] == [2]


def test_a_topic_that_takes_less_from_now_on_is_looked_at_again(kafka: str) -> None:
    topic = limited(kafka, max_message_bytes="900000")
    writer = sinks.open_writer(target(kafka, topic))
    assert writer.write(batch(of_150_bytes(10)), 0).refused == []
    change = ConfigResource(ResourceType.TOPIC, topic)
    change.add_incremental_config(
        ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    )
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.incremental_alter_configs([change])[change].result(30)
    counts = of_150_bytes(300) | {("2026-01-01T12:01:00Z", "".join(uuid4().hex for _ in range(200))): 1}
    outcome = writer.write(batch(counts), 1)

    assert [each.row for each in outcome.refused] == [300]
    assert len({record.key() for record in records(kafka, topic)}) == 310


@pytest.mark.parametrize(
    ("is_described", "keyless"), [(True, [7]), (False, [7]), (False, [7, 8, 31]), (True, [7, 8, 31])]
)
def test_a_record_without_a_key_is_refused_by_a_compacted_topic_and_the_others_are_written(
    kafka: str, is_described: bool, keyless: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not everybody may read a topic's settings; then the broker refuses the client's whole batch."""
    if not is_described:
        monkeypatch.setattr("runtime.clients.topiclimits.of", lambda *_: TopicLimits())
    topic = limited(kafka, cleanup_policy="compact")
    hidden = ("__key_0", "__key_1", "__key_2")
    schema = pa.schema(
        [("value", pa.binary()), ("key", pa.binary()),
         ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
         ("__key_0", pa.string()), ("__key_1", pa.int32()), ("__key_2", pa.int64())]
    )  # fmt: skip
    rows = [
        {"value": str(row).encode(), "key": None if row in keyless else str(row % 5).encode(),
         "headers": None, "__key_0": "t", "__key_1": 0, "__key_2": row}
        for row in range(40)
    ]  # fmt: skip
    columns = tuple(Column(name, Role.FIELD, name, "binary") for name in ("value", "key", "headers"))
    layout = Layout(columns, hidden, has_records=True)
    forwarding = replace(target(kafka, topic), layout=layout, schema=schema)
    outcome = sinks.open_writer(forwarding).write(pa.RecordBatch.from_pylist(rows, schema=schema), 0)

    found = records(kafka, topic)
    assert [each.row for each in outcome.refused] == keyless
    assert {int(record.value() or b"") for record in found} == {*range(40)} - {*keyless}
    last = {record.key(): int(record.value() or b"") for record in found}
    assert last == {str(row % 5).encode(): row for row in range(35, 40)}


@pytest.mark.parametrize("most", [0, 1_000_000, 1_000_000_001, 2**31 - 1])
def test_a_producer_is_made_for_whatever_a_topic_takes(most: int) -> None:
    made = Producer(TopicLimits(most).properties)

    assert len(made) == 0


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
