"""The catalogue of registered names, and the rules of a cluster and a stream that need nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from daggers.v1 import spec_pb2
from google.protobuf.descriptor import Descriptor

from daggerspec import executors, fields, kafka, limits, master, topics
from daggerspec.violation import Violation


class UnresolvedName(Exception):  # noqa: N818 - reads as what is wrong
    """A name of a spec stands for nothing. `reason` is UPPER_SNAKE; the text is one sentence for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Catalogue(Protocol):
    """Look-up of registered names: by the fold in a gateway and a scheduler, by a JobSpec in a driver."""

    def cluster(self, name: str) -> spec_pb2.Cluster | None:
        """Return a registered cluster."""

    def stream(self, name: str) -> spec_pb2.Stream | None:
        """Return a registered stream."""

    def message(self, name: str) -> Descriptor:
        """Return a registered message. Raises: UnresolvedName."""

    def sink(self, name: str) -> spec_pb2.RegisteredSink | None:
        """Return a registered sink."""

    def secret(self, name: str) -> spec_pb2.Secret | None:
        """Return a registered secret."""


def cluster(
    path: str, value: spec_pb2.Cluster, before: spec_pb2.Cluster | None = None
) -> Iterator[Violation]:
    """Yield the violations of a cluster that is to be registered; `before` is the one that it replaces."""
    yield from fields.name(f"{path}.name", value.name)
    if value.HasField("kafka"):
        yield from kafka.check_registration(
            f"{path}.kafka", value.kafka, (before or spec_pb2.Cluster()).kafka
        )
    if value.spark_master:
        yield from master.violations(f"{path}.spark_master", value.spark_master)
    yield from executors.cluster_violations(path, value)
    if value.spark_web_url:
        yield from fields.url(f"{path}.spark_web_url", value.spark_web_url)
    if value.HasField("influx"):
        yield from influx_address(f"{path}.influx", value.influx)
        if not value.influx.url:
            yield Violation(f"{path}.influx.url", "is required", "REQUIRED")
    if not (value.HasField("kafka") or value.spark_master or value.HasField("influx")):
        yield Violation(path, "must have a Kafka, a Spark master or an InfluxDB", "REQUIRED")


def stream(path: str, value: spec_pb2.Stream) -> Iterator[Violation]:
    """Yield the violations of a stream that show without the catalogue."""
    yield from fields.name(f"{path}.name", value.name)
    if not value.topics:
        yield Violation(f"{path}.topics", "must name at least one topic", "REQUIRED")
    if len(value.topics) > limits.MAX_TOPICS:
        yield Violation(f"{path}.topics", f"must not be more than {limits.MAX_TOPICS}", "TOO_MANY")
    for number, topic_name in enumerate(value.topics):
        yield from fields.topic(f"{path}.topics[{number}]", topic_name)
        if topic_name in topics.INTERNAL:
            yield Violation(f"{path}.topics[{number}]", f"{topic_name} is Kafka's own", "RESERVED")
        if topic_name in value.topics[:number]:
            yield Violation(f"{path}.topics[{number}]", f"{topic_name} is named twice", "DUPLICATE")


def influx_address(path: str, address: spec_pb2.InfluxAddress) -> Iterator[Violation]:
    """Yield the violations of the parts of an InfluxDB address that are set."""
    if address.url:
        yield from fields.url(f"{path}.url", address.url)
    yield from fields.text(f"{path}.org", address.org, limit=256)
    yield from fields.text(f"{path}.bucket", address.bucket, limit=256)
    if address.HasField("token"):
        yield from fields.secret(f"{path}.token", address.token)
