"""Topics of a real Kafka, and the messages that their records are."""

from __future__ import annotations

import json
import time
import uuid
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from daggers.v1 import gateway_pb2, spec_pb2
from services.runtime.tests.sample_stream import NAME, resolved

from runtime import discovertopics
from runtime.discovertopics import discover, messages

pytestmark = pytest.mark.integration


def written(
    kafka: str, values: list[bytes | None], partitions: int = 2, prefix: str = "found", **config: str
) -> str:
    topic = f"{prefix}-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka})
    for number, value in enumerate(values):
        producer.produce(topic, value, key=f"k{number}", partition=number % partitions)
    assert producer.flush(30) == 0
    return topic


def looked(kafka: str, *topics: str, message: str = "") -> list[gateway_pb2.DiscoverTopicsResponse]:
    stream, files = resolved(kafka, *topics)
    stream.stream.message = message
    return list(discover(stream, messages(files, message)))


def test_of_each_topic_it_is_said_what_it_holds_and_which_message_fits(kafka: str) -> None:
    address = {"bootstrap_servers": "k:9092", "properties": {"security.protocol": "SSL"}}
    influx = {"url": "http://i:8086", "org": "-", "bucket": "b"}
    value = spec_pb2.Cluster(
        name="local", kafka=address, spark_master="local[2]", influx=influx, playground=True
    )
    topic = written(kafka, [value.SerializeToString()] * 30, **{"retention.ms": "3600000"})
    other = written(kafka, [b"\xff\xff", None], **{"cleanup.policy": "compact"})
    empty = written(kafka, [])

    steps = looked(kafka, topic, other, empty, f"{topic}x")
    told = {topic.topic: topic for step in steps for topic in step.topics}

    assert [topic.topic for topic in steps[0].missing_topics] == [f"{topic}x"]
    assert (steps[-1].topics_read, steps[-1].topics_total) == (3, 3)
    first = told[topic]
    assert (first.partitions, first.offsets, first.sampled) == (2, 30, 10)
    assert first.records_per_second == pytest.approx(0.5)
    assert first.retention.ToTimedelta() == timedelta(hours=1)
    assert (first.fits[0].message, first.fits[0].score, first.fits[0].problem) == (
        "daggers.v1.Cluster", 1.0, "",
    )  # fmt: skip
    assert 0 < first.fits[0].coverage < 1
    assert json.loads(first.fits[0].example)["spark_master"] == "local[2]"
    assert (told[other].sampled, list(told[other].fits), told[other].HasField("retention")) == (1, [], False)
    assert (told[empty].sampled, told[empty].offsets) == (0, 0)


def test_one_message_is_looked_for_and_it_is_said_how_badly_it_fits(kafka: str) -> None:
    topic = written(kafka, [spec_pb2.Stream(time_field="x" * 50).SerializeToString()] * 3)
    [found] = [each for step in looked(kafka, topic, message=NAME) for each in step.topics]

    assert [fit.message for fit in found.fits] == [NAME]
    assert (found.fits[0].score < 0.5, found.fits[0].problem != "") == (True, True)


def test_the_newest_records_are_shown_of_the_message_that_fits_best(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [
        spec_pb2.Cluster(name=f"c{number}", spark_master="x" * 40).SerializeToString() for number in range(9)
    ]
    topic = written(kafka, [*values, b"\xff\xff"], partitions=1)
    stream, files = resolved(kafka, topic)
    stream.stream.message = "daggers.v1.Cluster"
    kinds = messages(files, "daggers.v1.Cluster")

    def names_of(examples: int) -> list[str]:
        [found] = [topic for step in discover(stream, kinds, examples=examples) for topic in step.topics]
        [fit] = found.fits
        return [json.loads(text)["name"] for text in (fit.example, *fit.earlier_examples)]

    assert (names_of(3), names_of(1)) == (["c8", "c7", "c6"], ["c8"])
    monkeypatch.setattr(discovertopics, "MAX_JSON", 1)
    assert names_of(3) == ["c8"]


def test_without_names_all_topics_are_looked_into_but_the_platforms_and_kafkas_own(kafka: str) -> None:
    mine = written(kafka, [b"x"])
    written(kafka, [b"x"], prefix="daggers.found")
    names = [topic.topic for step in looked(kafka) for topic in step.topics]

    assert mine in names
    assert [name for name in names if name.startswith(("daggers.", "__"))] == []


def test_what_takes_too_long_is_cut_and_that_is_said(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [written(kafka, [b"x"]) for _ in range(2)]
    monkeypatch.setattr(discovertopics, "PATIENCE_S", -1.0)

    assert looked(kafka, *topics)[-1].cut == "2 topics were not looked into: name some of them"


def test_topics_that_were_written_last_come_before_those_with_earlier_names(kafka: str) -> None:
    value = spec_pb2.Stream(name="s", time_field="t").SerializeToString()
    old, quiet = written(kafka, [value], prefix="a"), written(kafka, [], prefix="b")
    new = written(kafka, [value], prefix="c")

    assert [topic.topic for step in looked(kafka, quiet, old, new) for topic in step.topics] == [
        new,
        old,
        quiet,
    ]


def test_records_of_longer_ago_than_a_minute_are_no_rate(kafka: str) -> None:
    topic = written(kafka, [b"x"] * 3)
    stream, files = resolved(kafka, topic)
    later = list(discover(stream, messages(files, ""), now=lambda: time.time() + 3600))

    assert [topic.records_per_second for step in later for topic in step.topics] == [0.0]


def test_of_too_many_topics_those_written_last_are_looked_into(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovertopics, "MAX_TOPICS", 2)
    value = spec_pb2.Stream(name="s", time_field="t").SerializeToString()
    old, empty = written(kafka, [value], prefix="a"), written(kafka, [], prefix="b")
    new = [written(kafka, [value], prefix=prefix) for prefix in ("d", "c")]

    steps = looked(kafka, old, empty, *new)

    assert [topic.topic for step in steps for topic in step.topics] == new[::-1]
    assert steps[-1].cut == "2 topics were not looked into: name some of them"
