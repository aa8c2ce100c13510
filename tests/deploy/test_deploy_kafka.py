"""Compose's Kafka, run by its own script: who does not log in reaches every topic but the platform's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from tests.deploy.composed_kafka import DEADLINE_S, Broker, installed, started

from daggerspec import topics

PLATFORMS = [
    topics.CONTROL,
    topics.HEARTBEATS,
    topics.QUARANTINE,
    topics.ALERTS,
    topics.AUDIT,
    topics.OBSERVATIONS,
]
EVERYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that runs; twice it was said who may what."""
    broker = installed(tmp_path := tmp_path_factory.mktemp("kafka"))
    with started(broker, tmp_path):
        broker.before.extend(create(client, "orders") for client in broker.strangers)
        broker.grant()
        broker.grant()
        yield broker


def code(error: BaseException) -> int:
    """What Kafka calls it."""
    assert isinstance(error, KafkaException)
    return int(error.args[0].code())


def create(client: Mapping[str, str], topic: str) -> int:
    """Create a topic; Kafka's code of what came of it."""
    admin = AdminClient(dict(client))
    (done,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    failed = done.exception(DEADLINE_S)
    return KafkaError.NO_ERROR if failed is None else code(failed)


def write(client: Mapping[str, str], topic: str) -> int:
    """Write a record; Kafka's code of what came of it."""
    codes: list[int] = []
    producer = Producer({**client, "message.timeout.ms": 60_000, "enable.idempotence": True, "log_level": 0})
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else KafkaError.NO_ERROR)
    )
    producer.flush(DEADLINE_S)
    return codes[0]


def read(client: Mapping[str, str], topic: str, group: str = "somebody") -> int:
    """Read the first record and commit it; Kafka's code of what came of it."""
    consumer = Consumer({**client, "group.id": group, "log_level": 0})
    try:
        if (denied := consumer.list_topics(topic, timeout=DEADLINE_S).topics[topic].error) is not None:
            return int(denied.code())
        consumer.assign([TopicPartition(topic, 0, 0)])
        record = consumer.poll(DEADLINE_S)
        assert record is not None
        if (error := record.error()) is not None:
            return int(error.code())
        consumer.commit(record, asynchronous=False)
    except KafkaException as error:
        return code(error)
    finally:
        consumer.close()
    return KafkaError.NO_ERROR


def test_who_does_not_log_in_may_nothing_before_it_is_said_who_may_what(broker: Broker) -> None:
    assert broker.before == [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 2


def test_who_does_not_log_in_reaches_what_is_not_the_platforms(broker: Broker) -> None:
    for topic in PLATFORMS:
        assert (create(broker.ours, topic), write(broker.ours, topic)) == (0, 0)

    for client in broker.strangers:
        topic = f"orders-{client['bootstrap.servers'].rpartition(':')[2]}"
        done = create(client, topic), write(client, topic), read(client, topic, "daggers.orders")
        assert done == (0, 0, 0)
        denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert {(write(client, name), read(client, name)) for name in PLATFORMS} == {(denied, denied)}
        assert create(client, "daggers.other") == denied
        assert read(client, "__consumer_offsets") == denied
        admin = AdminClient(dict(client))
        (rules,) = admin.delete_acls([EVERYTHING]).values()
        (group,) = admin.delete_consumer_groups(["daggers.health-monitor.x"]).values()
        assert code(rules.exception(DEADLINE_S)) == KafkaError.CLUSTER_AUTHORIZATION_FAILED
        assert code(group.exception(DEADLINE_S)) == KafkaError.GROUP_AUTHORIZATION_FAILED


def test_a_password_that_is_not_ours_is_refused(broker: Broker) -> None:
    with pytest.raises(KafkaException) as refused:
        AdminClient({**broker.ours, "sasl.password": "a guess", "log_level": "0"}).list_topics(timeout=20)

    assert code(refused.value) in (KafkaError._TRANSPORT, KafkaError._AUTHENTICATION)


def test_a_volume_from_before_there_were_rules_is_open_until_they_are_said(tmp_path: Path) -> None:
    broker = installed(tmp_path)
    with started(broker, tmp_path):
        pass
    (tmp_path / "data" / "closed").unlink()
    with started(broker, tmp_path):
        before = [write(client, "orders") for client in broker.strangers]
        broker.grant()
        orders = [write(client, "orders") for client in broker.strangers]
        forged = [write(client, topics.CONTROL) for client in broker.strangers]

    assert before == orders == [KafkaError.NO_ERROR] * 2
    assert forged == [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 2
