"""The configuration of librdkafka's clients out of an address, of the platform's Kafka or any other."""

from __future__ import annotations

from collections.abc import Callable

from daggers.v1 import spec_pb2


def librdkafka(
    address: spec_pb2.KafkaAddress, resolve: Callable[[spec_pb2.SecretRef], str]
) -> dict[str, str]:
    """Build a client's properties, secrets resolved by `resolve`: never log or print what this returns."""
    secrets = {name: resolve(reference) for name, reference in address.secret_properties.items()}
    return {"bootstrap.servers": address.bootstrap_servers, **address.properties, **secrets}
