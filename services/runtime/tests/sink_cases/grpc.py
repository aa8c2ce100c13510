"""The sink `grpc` against a server of the test's own, which knows rows by their keys and takes no NULL."""

from contextlib import ExitStack
from datetime import UTC
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from grpc import StatusCode
from services.runtime.tests import grpcserver
from services.runtime.tests.grpcserver import Received, Reply
from services.runtime.tests.sink_contract import Case, Counts

from daggerspec.sinks import grpc as kind

POISON = "1", None
"""A row without a count."""
DESCRIPTORS = grpcserver.DESCRIPTORS


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, printed
    running = ExitStack()
    server = running.enter_context(grpcserver.serving())
    running.callback(grpcserver.forget)
    request.addfinalizer(running.close)
    rows: Counts = {}

    def answer(got: Received) -> Reply:
        if not got.row.HasField("n"):
            return Reply(StatusCode.INVALID_ARGUMENT, "there is no n")
        end, city, n = counted(got)
        rows[end, city] = n
        return Reply()

    server.answer = answer
    return sink(server.target), lambda: dict(rows)


def counted(got: Received) -> tuple[str, str, int]:
    """End of the window, city and count of a row."""
    end = got.row.window_timestamp.ToDatetime(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return end, got.row.tag_city, got.row.n


def sink(target: str, **said: Any) -> spec_pb2.ResolvedSink:
    """A sink with its defaults said, in plain text."""
    own = {"plaintext": True, "method": grpcserver.METHOD, "message": grpcserver.MESSAGE} | said
    made = spec_pb2.ResolvedSink()
    made.sink.grpc.CopyFrom(spec_pb2.GrpcSink(target=target, **own))
    kind.fill(made.sink.grpc, "d", spec_pb2.DaggerSpec())
    return made


at = grpcserver.at
silence = grpcserver.silence
