"""How the runtime talks to Kafka: client properties out of an address."""

from __future__ import annotations

from daggers.v1 import spec_pb2

from daggerspec import kafka
from kafkaclient.address import librdkafka
from runtime.clients import secrets
from runtime.errors import refused


def client_properties(address: spec_pb2.KafkaAddress) -> dict[str, str]:
    """librdkafka properties for `address`, secrets resolved: never log or print what this returns.

    Raises `JobError`: USER for an address that no cluster could be registered with (all that is wrong is
    named), EXTERNAL when a secret cannot be read.
    """
    if wrong := list(kafka.address("cluster.kafka", address)):
        raise refused(wrong)
    return librdkafka(address, secrets.resolve)
