"""The sink `clevertap` against a server that holds it to what CleverTap says that it takes."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.collectors import PASSWORD, CleverTap
from services.runtime.tests.sink_contract import Case, Counts

from daggerspec.sinks import clevertap as kind

POISON = "1", None
"""A row that the server refuses for its NULL, which is left out."""


def case(dagger: str, request: pytest.FixtureRequest, printed: list[str]) -> Case:
    del dagger, printed
    running = ExitStack()
    fake = CleverTap(running.enter_context(httpserver.serving()))
    request.addfinalizer(running.close)
    fake.code = lambda record: 0 if "n" in record["evtData"] else 512
    made = sink(fake.server.url, request.getfixturevalue("tmp_path"))

    def read() -> Counts:
        times = [datetime.fromtimestamp(event["ts"], UTC) for event in fake.processed]
        rows = zip(times, fake.processed, strict=True)
        return {(f"{time:%Y-%m-%dT%H:%M:%SZ}", each["identity"]): each["evtData"]["n"] for time, each in rows}

    return made, read


def sink(url: str, folder: Path, **said: Any) -> spec_pb2.ResolvedSink:
    """A sink with its defaults said."""
    (folder / "secret").write_text(f"{PASSWORD}\n")
    made = spec_pb2.ResolvedSink()
    own = spec_pb2.CleverTapSink(account="ACC-1", region="in1", url=url, event="counted", identity="tag_city")
    own.passcode.file = str(folder / "secret")
    for name, value in said.items():
        setattr(own, name, value)
    kind.fill(own, "d", spec_pb2.DaggerSpec())
    made.sink.clevertap.CopyFrom(own)
    return made


at = httpserver.at
silence = httpserver.silence
