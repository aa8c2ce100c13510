"""The sink `kafka` against the broker of the stack."""

import json

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.test_sink_contract import Case, Counts, fresh_topic, records


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
