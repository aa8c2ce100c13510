"""What the feeder does with records that a broker refuses: each is in its topic once."""

from __future__ import annotations

import time
import uuid
from functools import partial

import pytest
from confluent_kafka import Consumer, IsolationLevel, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.chaos.feeder import Event, Feeder, Record

from kafkaclient.tail import READER, tail

pytestmark = pytest.mark.integration


class Topic:
    """A topic of two partitions that refuses every record, or none."""

    def __init__(self, kafka: str) -> None:
        self.name = f"fed-{uuid.uuid4().hex[:8]}"
        self._kafka = kafka
        self._admin = AdminClient({"bootstrap.servers": kafka})
        for done in self._admin.create_topics([NewTopic(self.name, 2, 1)]).values():
            done.result(30)

    def refuse(self, every: bool) -> None:
        """Give every record too little room, or the usual one; the second partition tells when it holds."""
        size = ConfigEntry(
            "max.message.bytes", "1" if every else "1000000", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[size])
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(30)
        producer = Producer({"bootstrap.servers": self._kafka, "log_level": 0})
        errors: list[object] = [None if every else "refused"]
        deadline = time.monotonic() + 60
        while (errors[-1] is not None) != every and time.monotonic() < deadline:
            producer.produce(self.name, b"probe", partition=1, on_delivery=lambda e, _: errors.append(e))
            producer.flush(30)

    def records(self) -> list[bytes]:
        """The keys in its first partition."""
        consumer = Consumer({"bootstrap.servers": self._kafka, "group.id": self.name, **READER})
        try:
            return [m.key() or b"" for m in tail(consumer, self.name, 100) if m.partition() == 0]
        finally:
            consumer.close()


def settled(feeder: Feeder) -> None:
    deadline = time.monotonic() + 60
    while feeder.flush():
        assert time.monotonic() < deadline


def test_a_record_that_was_refused_and_is_not_in_its_topic_is_sent_again(kafka: str) -> None:
    topic = Topic(kafka)
    feeder = Feeder(kafka, topic.name, topic.name, seed=1)
    topic.refuse(every=True)
    feeder.send_ahead((topic.name, 0))
    refused = feeder.flush()
    topic.refuse(every=False)
    settled(feeder)

    assert refused == 1
    assert feeder.fed.ahead == [(topic.name, 0, 0)]
    assert len(topic.records()) == 1


def test_a_record_that_was_refused_and_is_in_its_topic_is_not_doubled(kafka: str) -> None:
    topic = Topic(kafka)
    feeder = Feeder(kafka, topic.name, topic.name, seed=1)
    taken: list[Message] = []
    record = Record((topic.name, 0), b"key", b"value", 0, taken.append)
    feeder.send(record)
    settled(feeder)
    topic.refuse(every=True)
    feeder.send(record)
    settled(feeder)

    assert [message.offset() for message in taken] == [0, 0]
    assert topic.records() == [b"key"]


def test_records_of_a_delayed_partition_come_later_in_their_order(kafka: str) -> None:
    topic = Topic(kafka)
    feeder = Feeder(kafka, topic.name, topic.name, seed=1)
    times = (1_000, 2_000, 3_000)
    with feeder.delayed((topic.name, 0)):
        for at_ms in times:
            feeder.send_booking((topic.name, 0), Event(at_ms, "o", 1, "COMPLETED"))
        settled(feeder)
        during = topic.records()
    settled(feeder)

    assert during == []
    assert topic.records() == [f"o-{at_ms}".encode() for at_ms in times]


def test_deleted_records_are_known_and_what_follows_is_not_gone(kafka: str) -> None:
    topic = Topic(kafka)
    feeder = Feeder(kafka, topic.name, topic.name, seed=1)
    target = (topic.name, 0)
    events = [Event(at_ms, "o", 1, "COMPLETED") for at_ms in (1_000, 2_000, 3_000)]
    for event in events[:2]:
        feeder.send_booking(target, event, taken=partial(feeder._placed, event))
    until = feeder.delete(target)
    feeder.send_booking(target, events[2], taken=partial(feeder._placed, events[2]))
    settled(feeder)

    assert (until, feeder.fed.gone()) == (2, events[:2])
    assert topic.records() == [b"o-3000"]


def test_an_open_transaction_hides_what_follows_until_it_is_aborted(kafka: str) -> None:
    topic = Topic(kafka)
    feeder = Feeder(kafka, topic.name, topic.name, seed=1)
    abort = feeder.begin_transaction((topic.name, 0))
    feeder.send_booking((topic.name, 0), Event(1_000, "o", 1, "COMPLETED"))
    settled(feeder)
    admin, place = AdminClient({"bootstrap.servers": kafka}), TopicPartition(topic.name, 0)

    def stable() -> int:
        (end,) = admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED
        ).values()
        return end.result(30).offset

    during = stable()
    abort()
    deadline = time.monotonic() + 60
    while stable() == during and time.monotonic() < deadline:
        time.sleep(0.1)

    assert (during, stable()) == (0, 3)  # the booking of the transaction, the other one, the abort
