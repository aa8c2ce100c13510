"""Registered secrets: where they are, whose they are, and where they may be sent. Never their values.

A specification names one by its name. A launch is told its place and its addresses in the stead of the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from daggers.v1 import spec_pb2
from google.protobuf.message import Message

from daggerspec import address, fields
from daggerspec.protobuf import children
from daggerspec.violation import Violation

MAX_BYTES: Final = 64 * 1024
"""Of a value."""
MAX_ADDRESSES: Final = 20
Lookup: TypeAlias = Callable[[str], spec_pb2.Secret | None]
"""A registered secret by its name."""


def is_place(reference: spec_pb2.SecretRef) -> bool:
    """Return whether a reference has the place of the secret itself, and no registered name."""
    return reference.WhichOneof("source") in ("env", "file")


def violations(path: str, value: spec_pb2.Secret) -> Iterator[Violation]:
    """Yield the violations of a secret that is to be registered, which show without others."""
    yield from fields.name(f"{path}.name", value.name)
    if value.team:
        yield from fields.team(f"{path}.team", value.team)
    if value.place.name:
        text = "must name an environment variable (env) or a file (file), and no other secret"
        yield Violation(f"{path}.place", text, "INVALID_REFERENCE")
    else:
        yield from fields.secret(f"{path}.place", value.place)
    if value.place.addresses:
        text = "are said of the secret, not of its place"
        yield Violation(f"{path}.place.addresses", text, "UNEXPECTED")
    if not value.addresses:
        text = "are required: the servers it may be sent to, host:port or https://host"
        yield Violation(f"{path}.addresses", text, "REQUIRED")
    if len(value.addresses) > MAX_ADDRESSES:
        yield Violation(f"{path}.addresses", f"must not be more than {MAX_ADDRESSES}", "TOO_MANY")
    for number, to in enumerate(value.addresses):
        if address.base(to) is None:
            text = "must be host:port, or a URL without a path such as https://host"
            yield Violation(f"{path}.addresses[{number}]", text, "INVALID_ADDRESS")


def wrong_use(path: str, reference: spec_pb2.SecretRef, to: str, secret_of: Lookup) -> Iterator[Violation]:
    """Yield why a registered secret may not be sent to `to`; nothing for a reference that is a place."""
    if not reference.name:
        return
    secret = secret_of(reference.name)
    if secret is None:
        # What stands there may be the secret itself, by mistake: it is not repeated.
        text = "is the name of no registered secret; a secret itself is kept nowhere"
        about = {"kind": "secret", "name": reference.name}
        yield Violation(path, text, "UNKNOWN_SECRET", metadata=about)
    elif to and not address.covers(secret.addresses, to):
        text = f"secret {secret.name} may not be sent to {to}, only to {', '.join(secret.addresses)}"
        about = {"name": secret.name, "address": to}
        yield Violation(path, text, "SECRET_ADDRESS", metadata=about)


def of_cluster(path: str, cluster: spec_pb2.Cluster, secret_of: Lookup) -> Iterator[Violation]:
    """Yield the violations of the registered secrets that a cluster names."""
    for key, reference in sorted(cluster.kafka.secret_properties.items()):
        where = f'{path}.kafka.secret_properties["{key}"]'
        yield from wrong_use(where, reference, cluster.kafka.bootstrap_servers, secret_of)
    yield from wrong_use(f"{path}.influx.token", cluster.influx.token, cluster.influx.url, secret_of)


def fill_places(message: Message, secret_of: Lookup) -> None:
    """Say the place and the addresses of each registered secret that a message names, instead of its name.

    What is not registered stays as it is: the rules tell of it.
    """
    for reference in references(message):
        secret = secret_of(reference.name) if reference.name else None
        if secret is not None:
            reference.CopyFrom(secret.place)
            reference.addresses.extend(secret.addresses)


def references(message: Message) -> Iterator[spec_pb2.SecretRef]:
    """Yield every reference to a secret in a message, to be changed in place."""
    if isinstance(message, spec_pb2.SecretRef):
        yield message
        return
    yield from (reference for child in children(message) for reference in references(child))
