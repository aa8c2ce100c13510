"""Who may do what in this deployment's Kafka: access.py HOST:PORT. Again is no harm.

Who logs in is Daggers, and may all. Who does not, in another container or on this machine, has every topic
that is not the platform's: a forged record there is a forged fact, and a monitor whose group somebody moves
hears not all.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from cli.checked_settings import KafkaLogin
from daggerspec.topics import PREFIX

ANYBODY = "User:ANONYMOUS"
TIMEOUT_S = 30
# Topics of the platform and of Kafka itself; the groups of monitors. Those of daggers begin with PREFIX, too.
PLATFORMS = (
    (ResourceType.TOPIC, PREFIX),
    (ResourceType.TOPIC, "__"),
    (ResourceType.GROUP, f"{PREFIX}health-monitor."),
)
DATA = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
CLUSTER = (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS, AclOperation.IDEMPOTENT_WRITE)


def bindings() -> list[AclBinding]:
    """What anybody may do, and may not; what is denied goes before what is allowed."""
    denied = [
        _binding(kind, prefix, ResourcePatternType.PREFIXED, AclOperation.ALL, AclPermissionType.DENY)
        for kind, prefix in PLATFORMS
    ]
    data = [
        _binding(kind, "*", ResourcePatternType.LITERAL, AclOperation.ALL, AclPermissionType.ALLOW)
        for kind in DATA
    ]
    cluster = [
        _binding(
            ResourceType.BROKER,
            "kafka-cluster",
            ResourcePatternType.LITERAL,
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in CLUSTER
    ]
    return [*denied, *data, *cluster]


def _binding(
    kind: ResourceType,
    name: str,
    pattern: ResourcePatternType,
    operation: AclOperation,
    may: AclPermissionType,
) -> AclBinding:
    return AclBinding(kind, name, pattern, ANYBODY, "*", operation, may)


def grant(properties: Mapping[str, Any]) -> None:
    """Tell Kafka. Raises: KafkaException."""
    admin = AdminClient(dict(properties))
    for answer in admin.create_acls(bindings(), request_timeout=TIMEOUT_S).values():
        answer.result(TIMEOUT_S)


if __name__ == "__main__":
    try:
        grant(KafkaLogin().at(sys.argv[1]).librdkafka())
    except KafkaException as error:
        sys.exit(f"Kafka did not take who may do what: {error.args[0].str()}")
    sys.stdout.write("Kafka knows who may do what\n")
