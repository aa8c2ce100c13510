"""How the runtime talks to Kafka: client properties out of an address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaException
from daggers.v1 import spec_pb2

from daggerspec import kafka
from kafkaclient.address import librdkafka
from kafkaclient.tail import READER
from runtime.clients import secrets
from runtime.errors import TemporaryError, external, refused


def client_properties(address: spec_pb2.KafkaAddress) -> dict[str, str]:
    """librdkafka properties for `address`, secrets resolved: never log or print what this returns.

    Raises `JobError`: USER for an address that no cluster could be registered with (all that is wrong is
    named), EXTERNAL when a secret cannot be read.
    """
    if wrong := list(kafka.address("cluster.kafka", address)):
        raise refused(wrong)
    return librdkafka(address, lambda each: secrets.resolve(each, address.bootstrap_servers))


def consumer(
    address: spec_pb2.KafkaAddress, group: str, more: Mapping[str, int] = MappingProxyType({})
) -> Consumer:
    """A consumer that reads for a person, and nothing yet. Raises `JobError`."""
    properties = client_properties(address)
    try:
        return Consumer({**properties, **READER, **more, "group.id": group})
    except KafkaException:  # what it says may quote a secret
        broker = f"Kafka at {address.bootstrap_servers}"
        raise external("KAFKA_REFUSED", f"{broker} cannot be read with its cluster's properties.") from None


@contextmanager
def explained(address: spec_pb2.KafkaAddress) -> Iterator[None]:
    """What reading raises, as TemporaryError."""
    try:
        yield
    except TimeoutError as late:
        detail = str(late)
        raise TemporaryError("KAFKA_UNREACHABLE", f"{detail[0].upper()}{detail[1:]}.") from None
    except KafkaException as error:
        detail = f"Kafka at {address.bootstrap_servers} does not answer: {error.args[0].str()}"
        raise TemporaryError("KAFKA_UNREACHABLE", detail) from None
