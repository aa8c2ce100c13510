"""What the runtime's tests stand on, beside the real stack: a way to a service that can be cut, streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from daggers.v1 import spec_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.streams import FILES, WINDOWS, Feed, Job, running, source_session
from tests.proxy import Proxy, port_of

from daggerspec.defaults import consumer_group
from runtime import hiding
from runtime.clients import sending
from runtime.source.context import SourceContext


@pytest.fixture(scope="session", autouse=True)
def zone() -> Iterator[None]:
    """The zone that a scheduler gives drivers and workers (`scheduler.drivers.command`), where they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test hides is an ordinary word to the next."""
    monkeypatch.setattr(hiding, "_values", {})
    monkeypatch.setattr(hiding, "_tokens", {})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no server that takes nothing. Tests of such a server say what they wait."""
    monkeypatch.setattr(sending, "PATIENCE_S", 60.0)


@pytest.fixture(scope="session")
def influx(influx: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The database, its token in a file: what a launch may read."""
    return _readable(influx, tmp_path_factory)


@pytest.fixture(scope="session")
def influx2(influx2: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same of InfluxDB 2, where there is one."""
    return _readable(influx2, tmp_path_factory)


def _readable(database: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("secret") / "token"
    file.write_text(f"{database['token'] or 'user:password'}\n")
    return database | {"token_file": str(file)}


@pytest.fixture
def detour(influx: dict[str, str]) -> Iterator[Proxy]:
    """A way to the database that can be cut."""
    with Proxy(port_of(influx["url"])) as way:
        yield way


@pytest.fixture
def feed(kafka: str) -> Feed:
    """A topic to create and to write to."""
    return Feed(kafka)


@pytest.fixture
def run(stream_session: SparkSession, kafka: str, tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Makes jobs of one dagger."""
    dagger = f"d{uuid4().hex[:8]}"
    context = SourceContext(
        dagger=dagger,
        generation=1,
        checkpoint=str(tmp_path / "checkpoint"),
        run_dir=tmp_path,
        platform=spec_pb2.KafkaAddress(bootstrap_servers=kafka),
        descriptors=FILES,
        windows=WINDOWS,
        consumer_group=consumer_group(dagger),
        late_for=(WINDOWS,),
    )
    with running(stream_session, context) as make:
        yield make


@pytest.fixture(scope="module")
def stream_session() -> Iterator[SparkSession]:
    """What they run in."""
    with source_session() as session:
        yield session
