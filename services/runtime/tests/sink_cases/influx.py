"""The sink `influx` against the database of the stack."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import Case, influx_sink, points

SERVES_APART = True
"""Its server is a process of its own, which can be made to stand still."""
POISON = "1", None
"""A row without a field."""


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del printed
    address = request.getfixturevalue("influx")
    sink = influx_sink(address, dagger)
    return sink, lambda: {(time, city): n for time, n, city in points(address, dagger)}


def at(sink: spec_pb2.ResolvedSink, port: int) -> spec_pb2.ResolvedSink:
    """The sink behind another port of this machine."""
    moved = spec_pb2.ResolvedSink()
    moved.CopyFrom(sink)
    moved.sink.influx.address.url = f"http://127.0.0.1:{port}"
    return moved


@contextmanager
def silence(sink: spec_pb2.ResolvedSink, _: pytest.MonkeyPatch) -> Iterator[spec_pb2.ResolvedSink]:
    """The sink where nobody listens."""
    yield at(sink, 1)
