"""Compose's Kafka, run by its own script: who does not log in reaches every topic but the platform's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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

from daggerspec import topics
from devstack import ports
from devstack.tools import java, kafka

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose"
DEADLINE_S = 300
PLATFORMS = [topics.CONTROL, topics.HEARTBEATS, topics.QUARANTINE, topics.ALERTS, topics.AUDIT]
EVERYTHING = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)


@dataclass(frozen=True)
class Broker:
    """Where it listens, and how to log in."""

    ports: Mapping[str, int]
    password: Path
    before: list[int] = field(default_factory=list)
    """What Kafka said to strangers before it was said who may what."""

    @property
    def strangers(self) -> list[dict[str, str]]:
        """Clients that do not log in: on this machine, and in another container."""
        return [{"bootstrap.servers": f"127.0.0.1:{self.ports[name]}"} for name in ("HOST", "DATA")]

    @property
    def ours(self) -> dict[str, str]:
        """A client of the platform's."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.ports['PLATFORM']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "daggers",
            "sasl.password": self.password.read_text(),
        }

    def grant(self) -> None:
        """Run what Compose runs at every start."""
        login = {
            "DAGGERS_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "DAGGERS_KAFKA_SASL_USERNAME": "daggers",
            "DAGGERS_KAFKA_SASL_PASSWORD_FILE": str(self.password),
        }
        subprocess.run(
            [sys.executable, COMPOSE / "image" / "access.py", self.ours["bootstrap.servers"]],
            check=True, capture_output=True, timeout=DEADLINE_S, env={"PATH": os.defpath, **login},
        )  # fmt: skip


def installed(tmp_path: Path) -> Broker:
    """As in its container, but for the places of files, names and ports; not started yet."""
    chosen = ports.choose(("PLATFORM", "HOST", "DATA", "CONTROLLER"), {})
    (tmp_path / "run").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "data").mkdir()
    password = tmp_path / "run" / "password"
    password.write_text("of-this-test")
    places = {
        "/etc/daggers/kafka": tmp_path,
        "/run/daggers/kafka": tmp_path / "run",
        "/tmp/server.properties": tmp_path / "tmp" / "server.properties",
        "/opt/kafka/libs": Path(sys.prefix) / "share" / "daggers" / kafka.NAME,
        "/var/lib/kafka/data": tmp_path / "data",
        "kafka:9092": f"127.0.0.1:{chosen['PLATFORM']}",
        "kafka:9095": f"127.0.0.1:{chosen['DATA']}",
        "localhost:": "127.0.0.1:",
        "127.0.0.1:9093": f"127.0.0.1:{chosen['CONTROLLER']}",
        **{
            f"{name}://:{port}": f"{name}://127.0.0.1:{chosen[name]}"
            for name, port in {"PLATFORM": 9092, "HOST": 9094, "DATA": 9095}.items()
        },
    }
    for name in ("start.sh", "server.properties", "log4j2.properties"):
        text = (COMPOSE / "kafka" / name).read_text()
        for there, here in places.items():
            text = text.replace(there, str(here))
        (tmp_path / name).write_text(text)
    return Broker(chosen, password)


@contextmanager
def started(broker: Broker, tmp_path: Path) -> Iterator[None]:
    """Around its life, until it is killed."""
    home = java.system_home(None)
    assert home is not None, "no Java"
    environment = {"PATH": f"{home}/bin:{os.defpath}", "KAFKA_PORT": str(broker.ports["HOST"])}
    with (tmp_path / "broker.log").open("wb") as log:
        process = subprocess.Popen(["sh", tmp_path / "start.sh"], env=environment, stdout=log, stderr=log)
    try:
        end = time.monotonic() + DEADLINE_S
        while not all(map(ports.is_open, broker.ports.values())):
            assert process.poll() is None, (tmp_path / "broker.log").read_text()
            assert time.monotonic() < end, (tmp_path / "broker.log").read_text()
            time.sleep(0.1)  # polling a broker that starts; bounded by the deadline
        yield
    finally:
        process.kill()
        process.wait(DEADLINE_S)


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
        assert [(write(client, name), read(client, name)) for name in PLATFORMS] == [(denied, denied)] * 5
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
