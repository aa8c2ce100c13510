"""The address of a Kafka cluster, and which client properties it may set.

Those who connect take the address as librdkafka has its properties: nothing here is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields
from daggerspec.kafka_properties import LISTED
from daggerspec.nearest import hint, nearest
from daggerspec.violation import Violation

_PROPERTY: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_SECRET: Final = re.compile(
    r"password|passphrase|secret|jaas|credential|private|user\.info|key\.pem|bearer\.config|(^|\.)token$"
)
# Daggers sets these itself: another value would break how it connects, reads and commits.
_OURS: Final = frozenset(
    {
        "auto.commit.enable",
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "group.id",
        "metadata.broker.list",
    }
)
# librdkafka loads code or starts programs for these.
_CODE: Final = frozenset(
    {
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.id",
        "ssl.engine.location",
        "ssl.providers",
    }
)
_MAX_PROPERTIES: Final = 100


def address(path: str, value: spec_pb2.KafkaAddress) -> Iterator[Violation]:
    """Check the address of a Kafka cluster."""
    servers = value.bootstrap_servers.split(",") if value.bootstrap_servers else []
    if not servers:
        yield Violation(f"{path}.bootstrap_servers", "is required: host:port,host:port …", "REQUIRED")
    elif not all(fields.is_host_port(server.strip()) for server in servers):
        yield Violation(f"{path}.bootstrap_servers", "must be host:port,host:port …", "INVALID_ADDRESS")
    for key, text in sorted(value.properties.items()):
        yield from _property(f'{path}.properties["{key}"]', key)
        if is_secret(key):
            yield Violation(
                f'{path}.properties["{key}"]',
                "is a secret: give it by reference, as a secret property",
                "INLINE_SECRET",
            )
        yield from fields.text(f'{path}.properties["{key}"]', text, limit=4096)
        if key in value.secret_properties:
            yield Violation(f'{path}.properties["{key}"]', "is a secret property too", "DUPLICATE")
    for key, reference in sorted(value.secret_properties.items()):
        yield from _property(f'{path}.secret_properties["{key}"]', key)
        yield from fields.secret(f'{path}.secret_properties["{key}"]', reference)
    if len(value.properties) + len(value.secret_properties) > _MAX_PROPERTIES:
        yield Violation(f"{path}.properties", f"must not be more than {_MAX_PROPERTIES}", "TOO_MANY")


def is_secret(key: str) -> bool:
    """Return whether the value of a property of this name is a secret."""
    return _SECRET.search(key.lower()) is not None


def is_same(one: spec_pb2.KafkaAddress, other: spec_pb2.KafkaAddress) -> bool:
    """Return whether two addresses are certainly of one Kafka: they name a server in common."""
    servers = ({part.strip().lower() for part in its.bootstrap_servers.split(",")} for its in (one, other))
    return bool(set.intersection(*servers) - {""})


def check_registration(
    path: str, value: spec_pb2.KafkaAddress, before: spec_pb2.KafkaAddress
) -> Iterator[Violation]:
    """Check the address of a cluster to register: it may set listed properties, and those of `before`."""
    wrong = list(address(path, value))
    yield from wrong
    reported = {violation.field for violation in wrong}
    previous = {*before.properties, *before.secret_properties}
    for kind, keys in (("properties", value.properties), ("secret_properties", value.secret_properties)):
        for key in sorted(set(keys) - LISTED - previous):
            field, near = f'{path}.{kind}["{key}"]', nearest(key, LISTED, cutoff=0.8)
            if not any(path.startswith(field) for path in reported):
                text = f"is not among the client properties that may be set{hint(near, '')}"
                yield Violation(field, text, "FORBIDDEN_PROPERTY", suggestion=near or "")


def _property(path: str, key: str) -> Iterator[Violation]:
    if not _PROPERTY.fullmatch(key):
        yield Violation(path, "is not a client property of librdkafka", "INVALID_PROPERTY")
    elif key in _OURS:
        yield Violation(path, "is set by Daggers: remove it", "FORBIDDEN_PROPERTY")
    elif key in _CODE:
        yield Violation(path, "is not allowed: it loads code or starts a program", "FORBIDDEN_PROPERTY")
