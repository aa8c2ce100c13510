"""The newest records of a stream: which they are, how they are shown, and what bounds them."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf import timestamp_pb2
from google.protobuf.message_factory import GetMessageClass
from services.runtime.tests.sample_stream import NAME, resolved

from runtime import samplestream
from runtime.errors import JobError
from runtime.samplestream import STEP_BYTES, Newest, content, missing, sample, steps

EVENT = events_pb2.SchedulerStarted


def read(time: int, size: int = 1, offset: int = 0) -> Message:
    return Message(topic="t", partition=0, offset=offset, value=b"x" * size, timestamp=(1, time))


def test_the_newest_are_kept_and_come_first() -> None:
    newest = Newest(3)
    for time in (5, 1, 4, 2, 3):
        newest.take(read(time))

    assert ([record.timestamp()[1] for record in newest.records()], newest.cut) == ([5, 4, 3], "")


def test_of_one_instant_the_greater_offset_is_newer() -> None:
    newest = Newest(2)
    for offset in (2, 9, 4):
        newest.take(read(7, offset=offset))

    assert [record.offset() for record in newest.records()] == [9, 4]


def test_large_records_leave_older_ones_out_and_that_is_said() -> None:
    newest = Newest(10, room=3 * 1024 * 1024)
    for time in range(5):
        newest.take(read(time, size=1024 * 1024))

    assert [record.timestamp()[1] for record in newest.records()] == [4, 3, 2]
    assert newest.cut == "further records are left out: these have 3 MiB"


def test_one_record_that_is_larger_than_the_room_is_shown() -> None:
    newest = Newest(10, room=10)
    newest.take(read(1, size=100))

    assert (len(newest.records()), newest.cut) == (1, "")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "it has no value (a tombstone)"),
        (b"\xff\xff", f"it does not decode as {NAME}"),
        (
            EVENT(host="here").SerializeToString() + b"\xff",
            f'it does not decode as {NAME}; what stands before the damage: {{"host":"here"}}',
        ),
    ],
)
def test_what_does_not_decode_says_so(value: bytes | None, problem: str) -> None:
    text, said = content(value, EVENT)

    assert (text, said.replace(": ", ":")) == ("", problem.replace(": ", ":"))


@pytest.mark.parametrize(
    ("value", "is_another"),
    [
        (EVENT(host="here").SerializeToString(), False),
        (b"\xff\xff", True),
        (EVENT(host="here").SerializeToString() + b"\xff", True),
        (gateway_pb2.SampledRecord(mismatch=True).SerializeToString(), True),
    ],
)
def test_a_value_that_is_another_message_is_told_apart(value: bytes, is_another: bool) -> None:
    assert samplestream.is_another(value, EVENT) is is_another


def test_a_value_without_json_says_why() -> None:
    kind: Any = GetMessageClass(events_pb2.RelaunchScheduled.DESCRIPTOR)
    late = kind(not_before=timestamp_pb2.Timestamp(seconds=2**40))
    text, problem = content(late.SerializeToString(), kind)

    assert (text, "has no JSON" in problem) == ("", True)


def test_whole_numbers_and_defaults_are_shown_as_a_query_sees_them() -> None:
    event = events_pb2.Exited(meta=events_pb2.FactMeta(epoch=2**60 + 1))
    document = json.loads(content(event.SerializeToString(), events_pb2.Exited)[0])

    assert (document["meta"]["epoch"], document["meta"]["name"]) == (2**60 + 1, "")


def test_json_that_is_too_long_is_not_shown() -> None:
    text, problem = content(EVENT(host="x" * 300_000).SerializeToString(), EVENT)

    assert (text, "characters: 262,144 are shown" in problem) == ("", True)


def test_a_topic_that_is_not_there_names_the_one_that_may_be_meant() -> None:
    told = missing(["bookng-log", "orders", "zzz"], ["booking-log", "orders", "__consumer_offsets"])

    assert [(each.topic, each.suggestion) for each in told] == [("bookng-log", "booking-log"), ("zzz", "")]


def test_many_records_come_in_steps_that_a_client_takes() -> None:
    record = gateway_pb2.SampledRecord(json="x" * 200_000)
    told = list(steps((record for _ in range(20)), "cut"))

    assert [each.cut for each in told] == ["cut", *[""] * (len(told) - 1)]
    assert sum(len(each.records) for each in told) == 20
    assert max(each.ByteSize() for each in told) <= STEP_BYTES + 1000


# ---- With a broker -----------------------------------------------------------------------------------------


def written(kafka: str, partitions: int, count: int, **config: str) -> str:
    """A topic with so many records, the n-th written at n seconds, spread over its partitions."""
    topic = f"sample-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(count):
        producer.produce(
            topic,
            EVENT(host=f"h{number}").SerializeToString(),
            key=f"k{number}".encode(),
            partition=number % partitions,
            timestamp=1_700_000_000_000 + 1000 * number,
        )
    assert producer.flush(30) == 0
    return topic


def hosts(told: list[gateway_pb2.SampleStreamResponse]) -> list[str]:
    return [json.loads(record.json)["host"] for step in told for record in step.records]


@pytest.mark.integration
def test_the_newest_of_all_partitions_and_topics_are_read_and_the_missing_topic_is_told(kafka: str) -> None:
    first, second = written(kafka, 3, 100), written(kafka, 1, 102)
    told = list(sample(*resolved(kafka, first, second, f"{second}x"), 5))
    last = [record for step in told for record in step.records]

    assert hosts(told) == ["h101", "h100", "h99", "h99", "h98"]
    assert [(topic.topic, topic.suggestion) for topic in told[0].missing_topics] == [(f"{second}x", second)]
    assert (told[-2].partitions_read, told[-2].partitions) == (4, 4)
    assert (last[0].topic, last[0].offset, last[0].key, last[0].time.seconds) == (
        second, 101, b"k101", 1_700_000_101,
    )  # fmt: skip


@pytest.mark.integration
def test_how_much_has_come_in_the_last_minute_is_told_before_the_records(kafka: str) -> None:
    first, second = written(kafka, 3, 100), written(kafka, 1, 102)
    stream = resolved(kafka, first, second)
    told, later = (
        next(step for step in sample(*stream, 5, now) if step.HasField("records_per_second"))
        for now in (lambda: 1_700_000_100, lambda: 1_700_000_500)
    )

    assert (told.records_per_second, told.partitions, len(told.records)) == (pytest.approx(122 / 60), 4, 0)
    assert later.records_per_second == 0


@pytest.mark.integration
def test_without_records_only_the_missing_topics_are_told(kafka: str) -> None:
    empty = written(kafka, 1, 0)
    asked = list(sample(*resolved(kafka, empty, "sample-nowhere"), 0))
    none = list(sample(*resolved(kafka, empty), 10))

    assert [[topic.topic for topic in step.missing_topics] for step in asked] == [["sample-nowhere"]]
    assert not asked[0].HasField("records_per_second")
    assert (hosts(none), none[-1].cut) == ([], "")


@pytest.mark.integration
def test_a_kafka_says_the_same_of_itself_by_every_address(kafka: str) -> None:
    """Whoever asks for nothing but that names no topic."""
    port = kafka.rpartition(":")[2]
    told = [list(sample(*resolved(f"{host}:{port}"), 0)) for host in ("127.0.0.1", "localhost")]

    ids = {step.kafka_id for steps in told for step in steps}
    assert len(ids) == 1
    assert ids != {""}


@pytest.mark.integration
def test_where_offsets_hold_no_records_it_reads_further_back(kafka: str) -> None:
    topic = written(kafka, 1, 3)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(30)
    for _ in range(3):  # aborted, their records are no records; markers never are
        producer.begin_transaction()
        for _ in range(20):
            producer.produce(topic, b"never")
        producer.flush(30)
        producer.abort_transaction(30)

    assert hosts(list(sample(*resolved(kafka, topic), 2))) == ["h2", "h1"]


@pytest.mark.integration
def test_time_that_runs_out_is_said(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = written(kafka, 1, 10)
    monkeypatch.setattr(samplestream, "PATIENCE_S", 0.0)
    told = list(sample(*resolved(kafka, topic), 5))

    assert (hosts(told), told[-1].cut.startswith("not everything could be read in 0 s")) == ([], True)


def test_a_broker_that_is_away_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplestream, "_METADATA_S", 0.5)
    stream, files = resolved("127.0.0.1:1", "t")
    with pytest.raises(JobError) as caught:
        list(sample(stream, files, 1))

    assert (caught.value.error.reason, caught.value.error.retryable) == ("KAFKA_UNREACHABLE", True)
