"""What a request must look like: field by field, every violation at once. Pure.

Each check yields violations whose paths begin with `at`, for example cluster.kafka.bootstrap_servers. What
needs the state (does this stream exist?) is in `specs` and `schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from daggers.v1 import spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerspec.violation import Violation

MAX_EVENT_BYTES: Final = 512 * 1024
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{1,61}[a-z0-9]")
_PLAIN: Final = re.compile(r"[\x21-\x7e]{1,128}")
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_HOST_PORT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):(\d{1,5})")
_MASTER: Final = re.compile(r"local|local\[(\*|[1-9]\d{0,3})\]|yarn|spark://.+|k8s://.+")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PROPERTY: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_SECRET_PROPERTY: Final = re.compile(
    r"password|passphrase|secret|jaas|credential|private|user\.info|key\.pem|bearer\.config|(^|\.)token$"
)
# Daggers sets these itself.
_OURS: Final = frozenset({"bootstrap.servers", "group.id", "enable.auto.commit", "auto.offset.reset"})
# librdkafka loads code or starts programs for these.
_FORBIDDEN: Final = frozenset(
    {
        "plugin.library.paths",
        "sasl.kerberos.kinit.cmd",
        "ssl.engine.location",
        "ssl.engine.id",
        "ssl.providers",
    }
)
_MAX_TOPICS: Final = 100
_MAX_PROPERTIES: Final = 100
_MAX_DURATION: Final = timedelta(days=31)


def name(at: str, value: str) -> Iterator[Violation]:
    """Name of a dagger, cluster or stream."""
    if not _NAME.fullmatch(value):
        yield Violation(
            at,
            "must be 3 to 63 of a-z, 0-9, _ and -, begin with a letter and end with a letter or digit",
            "INVALID_NAME",
        )


def request_id(at: str, value: str) -> Iterator[Violation]:
    """Identity of a request; empty lets the server make one."""
    if value and not _PLAIN.fullmatch(value):
        yield Violation(at, "must be 1 to 128 ASCII characters without spaces", "INVALID_REQUEST_ID")


def version(at: str, value: int) -> Iterator[Violation]:
    """An expected version."""
    if value < 0:
        yield Violation(at, "must not be negative", "OUT_OF_RANGE")


def sequence(at: str, value: int) -> Iterator[Violation]:
    """A minimum sequence."""
    if value < 0:
        yield Violation(at, "must not be negative", "OUT_OF_RANGE")


def page_size(at: str, value: int) -> Iterator[Violation]:
    """How much to answer."""
    if value < 0:
        yield Violation(at, "must not be negative", "OUT_OF_RANGE")


def text(at: str, value: str, *, limit: int) -> Iterator[Violation]:
    """One line for people."""
    if len(value) > limit:
        yield Violation(at, f"must not be longer than {limit} characters", "TOO_LONG")
    if not value.isprintable():
        yield Violation(at, "must be one line of printable characters", "INVALID_CHARACTER")


def event_size(at: str, size: int) -> Iterator[Violation]:
    """Size of the event a request becomes, in bytes."""
    if size > MAX_EVENT_BYTES:
        yield Violation(
            at, f"makes an event of {size} bytes; the log takes at most {MAX_EVENT_BYTES}", "TOO_LARGE"
        )


def topic(at: str, value: str) -> Iterator[Violation]:
    """Name of a Kafka topic."""
    if not _TOPIC.fullmatch(value) or value in (".", ".."):
        yield Violation(at, "must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'", "INVALID_TOPIC")


def duration(at: str, value: Duration, *, positive: bool = False) -> Iterator[Violation]:
    """A span of time that is not negative, nor zero if it must be `positive`."""
    # Written by hand: ToTimedelta raises for what is out of range, and rounds.
    nanos = value.seconds * 1_000_000_000 + value.nanos
    if abs(value.nanos) > 999_999_999 or value.seconds * value.nanos < 0:
        yield Violation(at, "is not a valid duration", "INVALID_DURATION")
    elif nanos < 0:
        yield Violation(at, "must not be negative", "OUT_OF_RANGE")
    elif positive and nanos == 0:
        yield Violation(at, "must be longer than 0 s", "OUT_OF_RANGE")
    elif nanos > _MAX_DURATION.total_seconds() * 1_000_000_000:
        yield Violation(at, f"must not be longer than {_MAX_DURATION.days} days", "OUT_OF_RANGE")


def secret(at: str, value: spec_pb2.SecretRef) -> Iterator[Violation]:
    """A reference to a secret: never the secret itself."""
    match value.WhichOneof("source"):
        case "env" if not _ENV_NAME.fullmatch(value.env):
            yield Violation(f"{at}.env", "must be the name of an environment variable", "INVALID_REFERENCE")
        case "file" if not value.file.startswith("/") or not value.file.isprintable():
            yield Violation(f"{at}.file", "must be an absolute path", "INVALID_REFERENCE")
        case None:
            yield Violation(at, "must name an environment variable (env) or a file (file)", "REQUIRED")


def url(at: str, value: str) -> Iterator[Violation]:
    """An http(s) base URL without credentials."""
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not value.isprintable() or " " in value:
        yield Violation(at, "must be a URL such as http://127.0.0.1:8086", "INVALID_URL")
    elif parts.username is not None or parts.password is not None:
        yield Violation(
            at, "must not hold credentials: give the token by reference, {env: NAME}", "INLINE_SECRET"
        )
    elif parts.query or parts.fragment:
        yield Violation(at, "must be a base URL, without ? and #", "INVALID_URL")


def kafka_address(at: str, address: spec_pb2.KafkaAddress) -> Iterator[Violation]:
    """How to reach a Kafka cluster."""
    servers = address.bootstrap_servers.split(",") if address.bootstrap_servers else []
    if not servers:
        yield Violation(f"{at}.bootstrap_servers", "is required: host:port,host:port …", "REQUIRED")
    elif not all(_is_host_port(server.strip()) for server in servers):
        yield Violation(f"{at}.bootstrap_servers", "must be host:port,host:port …", "INVALID_ADDRESS")
    for key, value in sorted(address.properties.items()):
        yield from _property(f'{at}.properties["{key}"]', key)
        if _SECRET_PROPERTY.search(key.lower()):
            yield Violation(
                f'{at}.properties["{key}"]',
                "is a secret: give it by reference, as a secret property",
                "INLINE_SECRET",
            )
        yield from text(f'{at}.properties["{key}"]', value, limit=4096)
        if key in address.secret_properties:
            yield Violation(f'{at}.properties["{key}"]', "is a secret property too", "DUPLICATE")
    for key, reference in sorted(address.secret_properties.items()):
        yield from _property(f'{at}.secret_properties["{key}"]', key)
        yield from secret(f'{at}.secret_properties["{key}"]', reference)
    if len(address.properties) + len(address.secret_properties) > _MAX_PROPERTIES:
        yield Violation(f"{at}.properties", f"must not be more than {_MAX_PROPERTIES}", "TOO_MANY")


def influx_address(at: str, address: spec_pb2.InfluxAddress) -> Iterator[Violation]:
    """The parts of an InfluxDB address that are given."""
    if address.url:
        yield from url(f"{at}.url", address.url)
    yield from text(f"{at}.org", address.org, limit=256)
    yield from text(f"{at}.bucket", address.bucket, limit=256)
    if address.HasField("token"):
        yield from secret(f"{at}.token", address.token)


def cluster(at: str, value: spec_pb2.Cluster) -> Iterator[Violation]:
    """A place where daggers run and streams live."""
    yield from name(f"{at}.name", value.name)
    if value.HasField("kafka"):
        yield from kafka_address(f"{at}.kafka", value.kafka)
    if value.spark_master:
        yield from _master(f"{at}.spark_master", value.spark_master)
    if value.HasField("influx"):
        yield from influx_address(f"{at}.influx", value.influx)
        if not value.influx.url:
            yield Violation(f"{at}.influx.url", "is required", "REQUIRED")
    if not (value.HasField("kafka") or value.spark_master or value.HasField("influx")):
        yield Violation(at, "must have a Kafka, a Spark master or an InfluxDB", "REQUIRED")


def stream(at: str, value: spec_pb2.Stream) -> Iterator[Violation]:
    """A named source of events, as far as it can be judged by itself."""
    yield from name(f"{at}.name", value.name)
    if not value.topics:
        yield Violation(f"{at}.topics", "must name at least one topic", "REQUIRED")
    if len(value.topics) > _MAX_TOPICS:
        yield Violation(f"{at}.topics", f"must not be more than {_MAX_TOPICS}", "TOO_MANY")
    for number, topic_name in enumerate(value.topics):
        yield from topic(f"{at}.topics[{number}]", topic_name)
        if topic_name in value.topics[:number]:
            yield Violation(f"{at}.topics[{number}]", f"{topic_name} is named twice", "DUPLICATE")


def _property(at: str, key: str) -> Iterator[Violation]:
    if not _PROPERTY.fullmatch(key):
        yield Violation(at, "is not a client property of librdkafka", "INVALID_PROPERTY")
    elif key in _OURS:
        yield Violation(at, "is set by Daggers: remove it", "FORBIDDEN_PROPERTY")
    elif key in _FORBIDDEN:
        yield Violation(at, "is not allowed: it makes the client load code", "FORBIDDEN_PROPERTY")


def _master(at: str, value: str) -> Iterator[Violation]:
    kind, _, hosts = value.partition("://")
    if kind == "k8s":
        hosts = re.sub(r"^https?://", "", hosts)
    if not (_MASTER.fullmatch(value) and (not hosts or all(map(_is_host_port, hosts.split(","))))):
        yield Violation(
            at, "must be local[n], spark://host:port, yarn or k8s://https://host:port", "INVALID_ADDRESS"
        )


def _is_host_port(value: str) -> bool:
    found = _HOST_PORT.fullmatch(value)
    return found is not None and 0 < int(found[2]) <= 65535
