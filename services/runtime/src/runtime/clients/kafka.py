"""Build Kafka clients out of addresses, and map their errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from confluent_kafka import Consumer, KafkaException
from daggers.v1 import spec_pb2

from daggerspec import kafka
from kafkaclient.address import librdkafka
from kafkaclient.tail import READER
from runtime.clients import secrets
from runtime.errors import TemporaryError, external, violation_error
from runtime.hiding import hide

LOG = logging.getLogger("librdkafka")
Client = TypeVar("Client")
PropertiesKey: TypeAlias = tuple[tuple[str, str], ...]
"""Properties of clients that may be shared, hashable."""


def key_of(properties: Mapping[str, str]) -> PropertiesKey:
    """Return the key of clients with these properties."""
    return tuple(sorted(properties.items()))


def client_properties(address: spec_pb2.KafkaAddress) -> dict[str, str]:
    """Return librdkafka's properties for an address, with secrets resolved: never log or print them.

    Raises `JobError`: USER for an address that no cluster could be registered with (all that is wrong is
    named), EXTERNAL when a secret cannot be read.
    """
    if violations := list(kafka.address("cluster.kafka", address)):
        raise violation_error(violations)
    return librdkafka(address, lambda reference: secrets.resolve(reference, address.bootstrap_servers))


def consumer(
    address: spec_pb2.KafkaAddress, group: str, more: Mapping[str, int] = MappingProxyType({})
) -> Consumer:
    """Create a consumer without an assignment, with the settings of ad-hoc reads. Raises: JobError."""
    return client(Consumer, {**client_properties(address), **READER, **more, "group.id": group})


def client(kind: Callable[..., Client], properties: Mapping[str, Any]) -> Client:
    """Create a client of librdkafka. Its log lines reach our log when it is polled.

    Raises: JobError (EXTERNAL) for properties that librdkafka refuses.
    """
    with hiding_secrets(properties):
        return kind(dict(properties), logger=LOG)


@contextmanager
def hiding_secrets(properties: Mapping[str, Any]) -> Iterator[None]:
    """Hide the properties' secrets from logs from now on, and map errors of creating a client with them.

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
def mapping_errors(address: spec_pb2.KafkaAddress) -> Iterator[None]:
    """Raise errors of reading as TemporaryError KAFKA_UNREACHABLE."""
    try:
        yield
    except TimeoutError as late:
        detail = str(late)
        raise TemporaryError("KAFKA_UNREACHABLE", f"{detail[0].upper()}{detail[1:]}.") from None
    except KafkaException as error:
        detail = f"Kafka at {address.bootstrap_servers} does not answer: {error.args[0].str()}"
        raise TemporaryError("KAFKA_UNREACHABLE", detail) from None
