"""How the runtime talks to Kafka: client properties out of an address."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException
from daggers.v1 import spec_pb2

from daggerspec import kafka
from kafkaclient.address import librdkafka
from kafkaclient.tail import READER
from runtime.clients import secrets
from runtime.errors import TemporaryError, external, refused
from runtime.hiding import hide

LOG = logging.getLogger("librdkafka")
Client = TypeVar("Client")


def client_properties(address: spec_pb2.KafkaAddress) -> dict[str, str]:
    """librdkafka properties for `address`, secrets resolved: never log or print what this returns.

    Raises `JobError`: USER for an address that no cluster could be registered with (all that is wrong is
    named), EXTERNAL when a secret cannot be read.
    """
    if wrong := list(kafka.address("cluster.kafka", address)):
        raise refused(wrong)
    return librdkafka(address, lambda reference: secrets.resolve(reference, address.bootstrap_servers))


def consumer(
    address: spec_pb2.KafkaAddress, group: str, more: Mapping[str, int] = MappingProxyType({})
) -> Consumer:
    """A consumer that reads for a person, and nothing yet. Raises `JobError`."""
    return client(Consumer, {**client_properties(address), **READER, **more, "group.id": group})


def client(kind: Callable[..., Client], properties: Mapping[str, Any]) -> Client:
    """A client of librdkafka with these properties. What it logs is in our log when it is polled.

    Raises: JobError (EXTERNAL) for properties that librdkafka refuses.
    """
    with made(properties):
        return kind(dict(properties), logger=LOG)


@contextmanager
def made(properties: Mapping[str, Any]) -> Iterator[None]:
    """While a client is made with these properties: their secrets are hidden from now on.

    Raises: JobError (EXTERNAL) for properties that librdkafka refuses.
    """
    for name in properties:
        if kafka.is_secret(name):
            hide(str(properties[name]))
    try:
        yield
    except KafkaException as refusal:
        broker = f"Kafka at {properties['bootstrap.servers']}"
        why = f"{broker} cannot be used with its cluster's properties: {refusal.args[0].str()}"
        raise external("KAFKA_REFUSED", why) from None


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
