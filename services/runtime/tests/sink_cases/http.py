"""The sink `http` against a server of the test's own, which knows rows by their ids and takes no NULL."""

from contextlib import ExitStack

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Received, Reply
from services.runtime.tests.sink_contract import Case, Counts

from daggerspec.sinks import http as kind

POISON = "1", None
"""A row without a count."""


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, printed
    running = ExitStack()
    server = running.enter_context(httpserver.serving())
    request.addfinalizer(running.close)
    rows: Counts = {}

    def answer(got: Received) -> Reply:
        row = got.json
        if row["n"] is None:
            return Reply(422)
        rows[row["window_timestamp"], row["tag_city"]] = row["n"]
        return Reply()

    server.answer = answer
    return sink(server.url), lambda: dict(rows)


def sink(url: str, **said: object) -> spec_pb2.ResolvedSink:
    """A sink with its defaults said."""
    made = spec_pb2.ResolvedSink()
    made.sink.http.CopyFrom(spec_pb2.HttpSink(url=url, **said))  # type: ignore[arg-type]
    kind.fill(made.sink.http, "d", spec_pb2.DaggerSpec())
    return made


at = httpserver.at
silence = httpserver.silence
