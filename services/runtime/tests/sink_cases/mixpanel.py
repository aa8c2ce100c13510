"""The sink `mixpanel` against a server that holds it to what Mixpanel says that it takes."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.collectors import PASSWORD, Mixpanel
from services.runtime.tests.sink_contract import Case, Counts

from daggerspec.sinks import mixpanel as kind

POISON = "1", None
"""A row that the server refuses for its NULL, which is left out."""


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, printed
    running = ExitStack()
    fake = Mixpanel(running.enter_context(httpserver.serving()))
    request.addfinalizer(running.close)
    fake.wrong = lambda event: "" if "n" in event["properties"] else "properties.n"
    made = sink(fake.server.url, request.getfixturevalue("tmp_path"))

    def read() -> Counts:
        said = [event["properties"] for event in fake.imported.values()]
        times = [datetime.fromtimestamp(each["time"] / 1000, UTC) for each in said]
        rows = zip(times, said, strict=True)
        return {(f"{time:%Y-%m-%dT%H:%M:%SZ}", each["distinct_id"]): each["n"] for time, each in rows}

    return made, read


def sink(url: str, folder: Path, **said: Any) -> spec_pb2.ResolvedSink:
    """A sink with its defaults said."""
    (folder / "secret").write_text(f"{PASSWORD}\n")
    made = spec_pb2.ResolvedSink()
    own = spec_pb2.MixpanelSink(project="42", user="u", url=url, event="counted", identity="tag_city")
    own.secret.file = str(folder / "secret")
    for name, value in said.items():
        setattr(own, name, value)
    kind.fill(own, "d", spec_pb2.DaggerSpec())
    made.sink.mixpanel.CopyFrom(own)
    return made


at = httpserver.at
silence = httpserver.silence
