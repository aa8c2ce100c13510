"""Helpers of test_spec_secrets.py and of its neighbours."""

from __future__ import annotations

from typing import Any

from daggers.v1 import spec_pb2

from daggerspec import sinks
from daggerspec.catalogue import UnresolvedName


class Known:
    """A catalogue of one cluster, and of a secret of each of two teams."""

    def cluster(self, name: str) -> spec_pb2.Cluster | None:
        kafka = spec_pb2.KafkaAddress(bootstrap_servers="kafka:9092")
        return spec_pb2.Cluster(name="local", kafka=kafka) if name == "local" else None

    def stream(self, name: str) -> None:
        return None

    def message(self, name: str) -> Any:
        raise UnresolvedName("UNKNOWN_MESSAGE", name)

    def sink(self, name: str) -> None:
        return None

    def secret(self, name: str) -> spec_pb2.Secret | None:
        held = {
            "token": spec_pb2.Secret(name="token", team="pricing", addresses=["http://influx:8086"]),
            "others": spec_pb2.Secret(name="others", team="others", addresses=["http://influx:8086"]),
        }
        return held.get(name)


def registering(sink: spec_pb2.Sink, **more: Any) -> list[tuple[str, str]]:
    value = spec_pb2.RegisteredSink(**{"name": "crm", "teams": ["pricing"], "sink": sink, **more})
    return [(violation.field, violation.reason) for violation in sinks.registration("sink", value, Known())]


def influx(token: str = "token", **fields: str) -> spec_pb2.Sink:
    where = {"url": "http://influx:8086", "bucket": "rows", **fields}
    return spec_pb2.Sink(influx={"address": {**where, "token": {"name": token}}})
