"""The sink `kafka` against the broker of the stack."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import Case, Counts, fresh_topic, records

SERVES_APART = True
"""Its server is a process of its own, which can be made to stand still."""
POISON = "x" * 2_000_000, 1
"""More than a broker takes."""


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, printed
    servers = request.getfixturevalue("kafka")
    topic = fresh_topic(servers)
    sink = spec_pb2.ResolvedSink()
    sink.kafka.bootstrap_servers = servers
    sink.sink.kafka.topic = topic
    sink.sink.kafka.format = spec_pb2.KafkaSink.FORMAT_JSON

    def read() -> Counts:
        found = {record.key(): json.loads(record.value() or b"") for record in records(servers, topic)}
        return {(row["window_timestamp"], row["tag_city"]): row["n"] for row in found.values()}

    return sink, read


def at(sink: spec_pb2.ResolvedSink, port: int) -> spec_pb2.ResolvedSink:
    """The sink behind another port of this machine."""
    moved = spec_pb2.ResolvedSink()
    moved.CopyFrom(sink)
    moved.kafka.bootstrap_servers = f"127.0.0.1:{port}"
    moved.kafka.properties["log_level"] = "0"
    return moved


@contextmanager
def silence(sink: spec_pb2.ResolvedSink, monkeypatch: pytest.MonkeyPatch) -> Iterator[spec_pb2.ResolvedSink]:
    """The sink where nobody listens, given up soon."""
    with monkeypatch.context() as soon:
        soon.setattr("runtime.sinks.kafka.DELIVERY_TIMEOUT_MS", 1_000)
        soon.setattr("runtime.sinks.kafka.PROBE_S", 0.5)
        yield at(sink, 1)
