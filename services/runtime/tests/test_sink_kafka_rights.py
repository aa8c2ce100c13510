"""A topic that takes no record of ours is told before the first one, with the command that helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import target
from services.runtime.tests.sink_rotation import DEADLINE_S, User
from tests.integration.securedkafka import USER, secured

from kafkaclient import Connection
from runtime import sinks
from runtime.errors import JobError
from runtime.sinks import kafka

pytestmark = pytest.mark.integration
SETTINGS = f"""\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:{USER};User:ANONYMOUS
auto.create.topics.enable=false
"""


@dataclass(frozen=True)
class Rights:
    """A broker where nobody may do anything but whom it was told of."""

    broker: Connection
    admin: AdminClient

    def allow(self, name: str, operation: AclOperation, topic: str) -> None:
        """From now on a user may do this with a topic."""
        rule = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{name}", "*", operation,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        self.admin.create_acls([rule])[rule].result(DEADLINE_S)

    def user(self, folder: Path, topic: str) -> User:
        """One with a password that the broker knows, and no rights."""
        made = User(self.broker, f"writer-{uuid4().hex[:8]}", topic, folder / "password", self.admin)
        made.is_known_by("canary")
        made.has("canary")
        return made


@pytest.fixture(scope="module")
def rights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rights]:
    with secured(tmp_path_factory.mktemp("rights"), SETTINGS) as broker:
        yield Rights(broker, AdminClient({**broker.librdkafka(), "log_level": 0}))
        kafka._client.cache_clear()


def test_a_topic_that_may_not_be_written_is_told_with_the_command_that_lets_it(
    rights: Rights, tmp_path: Path
) -> None:
    topic = f"rows-{uuid4().hex[:8]}"
    rights.admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(DEADLINE_S)
    user = rights.user(tmp_path, topic)
    for operation in (None, AclOperation.READ):  # it does not see it, and sees it
        if operation is not None:
            rights.allow(user.name, operation, topic)
        for look in (sinks.check, sinks.ask):
            with pytest.raises(JobError) as denied:
                look(user.target)
            assert (denied.value.error.reason, denied.value.error.retryable) == ("SINK_DENIED", True)
    assert denied.value.error.detail.endswith(
        f"--add --allow-principal User:{user.name} --operation Write --topic {topic}"
    )

    rights.allow(user.name, AclOperation.WRITE, topic)
    sinks.check(user.target)
    assert sinks.ask(user.target) == f"It has the topic {topic}, of 3 partitions, and lets this job write."


def test_a_topic_that_is_not_there_is_told_where_no_record_makes_it(rights: Rights) -> None:
    own = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(name="out"), kafka=rights.broker.address())
    own.sink.kafka.topic = f"rows-{uuid4().hex[:8]}"
    with pytest.raises(JobError, match="--create --topic rows-") as missing:
        sinks.check(target("d", own))
    assert (missing.value.error.reason, missing.value.error.retryable) == ("SINK_MISSING", True)


def test_a_topic_that_the_first_record_makes_is_no_error(kafka: str) -> None:
    own = spec_pb2.ResolvedSink(sink=spec_pb2.Sink(name="out"))
    own.kafka.bootstrap_servers, own.sink.kafka.topic = kafka, f"rows-{uuid4().hex[:8]}"
    sinks.check(target("d", own))
