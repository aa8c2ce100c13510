"""The sink `log`, whose lines the driver prints."""

import json

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import Case, Counts


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, request
    sink = spec_pb2.ResolvedSink()
    sink.sink.log.limit = 10

    def read() -> Counts:
        rows = [json.loads(line.removeprefix("row ")) for line in printed]
        return {(row["window_timestamp"], row["tag_city"]): row["n"] for row in rows}

    return sink, read
