"""Check before the first record whether a topic exists and lets this client write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public by its docs only
    AclOperation,
    AdminClient,
    ConfigResource,
    ResourceType,
)

from runtime.clients.kafka import client
from runtime.errors import external

_ANSWER_S: Final = 3.0
_CREATES: Final = "auto.create.topics.enable"


def check(properties: Mapping[str, Any], topic: str) -> str:
    """Describe a topic to write to in a sentence; empty where the broker does not tell.

    Raises: JobError for a topic that is missing and not created automatically, or that denies writes.
    """
    place = f"Kafka at {properties['bootstrap.servers']}"
    admin = client(AdminClient, properties)
    try:
        described = admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=_ANSWER_S
        )[topic].result(_ANSWER_S + 1)
    except (KafkaException, TimeoutError) as problem:
        return _check_missing(admin, place, topic, problem, properties)
    rights = described.authorized_operations  # empty from brokers that do not support it
    if rights and AclOperation.WRITE not in rights:
        raise _denied_error(place, topic, properties)
    return f"It has the topic {topic}, of {len(described.partitions)} partitions, and lets this job write."


def _check_missing(
    admin: AdminClient, place: str, topic: str, problem: Exception, properties: Mapping[str, Any]
) -> str:
    error = problem.args[0] if isinstance(problem, KafkaException) else None
    code = error.code() if isinstance(error, KafkaError) else None
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:  # who may write may describe
        raise _denied_error(place, topic, properties)
    if code != KafkaError.UNKNOWN_TOPIC_OR_PART:
        return ""
    creates = _creates_topics(admin)
    if creates is False:
        create = f"kafka-topics.sh --bootstrap-server {properties['bootstrap.servers']} --create"
        detail = f"{place} has no topic {topic!r} and does not create it: {create} --topic {topic}"
        raise external("SINK_MISSING", detail, retryable=True)
    return f"It has no topic {topic}, and makes it with the first record." if creates else ""


def _creates_topics(admin: AdminClient) -> bool | None:
    """Tell whether the broker creates missing topics; None where it does not tell."""
    try:
        cluster = admin.describe_cluster(request_timeout=_ANSWER_S).result(_ANSWER_S + 1)
        broker = ConfigResource(ResourceType.BROKER, str(cluster.nodes[0].id))
        settings = admin.describe_configs([broker], request_timeout=_ANSWER_S)[broker].result(_ANSWER_S + 1)
    except (KafkaException, TimeoutError, LookupError):
        return None
    setting = settings.get(_CREATES)
    return None if setting is None or setting.value is None else setting.value == "true"


def _denied_error(place: str, topic: str, properties: Mapping[str, Any]) -> Exception:
    principal = f"User:{properties.get('sasl.username') or 'NAME'}"
    allow = f"kafka-acls.sh --bootstrap-server {properties['bootstrap.servers']} --add"
    allow += f" --allow-principal {principal} --operation Write --topic {topic}"
    detail = f"{place} does not let this job write to {topic!r}: {allow}"
    return external("SINK_DENIED", detail, retryable=True)
