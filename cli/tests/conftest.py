"""A real gateway in this process, for commands that need one but no stack: its log is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.gateways import served

from api_gateway.quarantine.memory import MemoryQuarantine
from chassis.endpoint import Endpoint
from cli.__main__ import run
from eventlog import Log
from eventlog.memory import MemoryLog

SHOP = """\
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
message Order {
  // When it was placed.
  google.protobuf.Timestamp event_time = 1;
  string city = 2;
  double price = 3;
  Status status = 4;
  enum Status { UNKNOWN = 0; COMPLETED = 1; }
}
"""
DAGGER = """\
name: orders_by_city
team: pricing
cluster: local
streams:
  - stream: orders
sql: |
  SELECT city AS tag_city, COUNT(1) AS orders,
         TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp
  FROM `data_stream`
  GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), city
sinks:
  - influx:
      measurement: orders
"""


@dataclass(frozen=True)
class Shell:
    """Commands run against one gateway: exit code, what stood on stdout, what on stderr."""

    address: str
    folder: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *words: object) -> tuple[int, str, str]:
        """Run one command line in this process."""
        self.capture.readouterr()
        code = run([*map(str, words), "--gateway", self.address])
        said = self.capture.readouterr()
        return code, said.out, said.err

    def file(self, name: str, text: str) -> Path:
        """A file to give to a command."""
        path = self.folder / name
        path.write_text(text)
        return path

    def fill(self) -> None:
        """Register the cluster `local`, the message shop.v1.Order and the stream `orders`."""
        done = [
            self("cluster", "register", "local", "--kafka", "127.0.0.1:1", "--spark-master", "local[2]",
                 "--influx-url", "http://i:1", "--influx-bucket", "b"),
            self("schema", "register", self.file("shop.proto", SHOP)),
            self("stream", "register", "orders", "--cluster", "local", "--topic", "orders",
                 "--message", "shop.v1.Order", "--time-field", "event_time"),
        ]  # fmt: skip
        assert [code for code, _, _ in done] == [0, 0, 0], done


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., int]]:
    """Starts a gateway at an endpoint, in a thread of its own: its port. `log` and `alerts` make its logs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    with ExitStack() as running:

        def start(
            endpoint: Endpoint,
            log: Callable[[], Log] = MemoryLog,
            alerts: Callable[[], Log] = MemoryLog,
            quarantine: Callable[[], MemoryQuarantine] = MemoryQuarantine,
            **further: Any,
        ) -> int:
            database = f"sqlite:///{tmp_path_factory.mktemp('gateway') / 'projection.db'}"
            return running.enter_context(served(endpoint, database, log, alerts, quarantine, **further))

        yield start
    structlog.reset_defaults()


@pytest.fixture(scope="module")
def gateway(serve: Callable[[Endpoint], int]) -> str:
    """Address of a gateway without TLS and tokens."""
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'))}"


@pytest.fixture
def shell(gateway: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs commands against the gateway of the module."""
    return Shell(gateway, tmp_path, capsys)


@pytest.fixture
def shop() -> str:
    """The schema that the filled gateway knows."""
    return SHOP


@pytest.fixture
def dagger_file() -> str:
    """A dagger file that the filled gateway accepts."""
    return DAGGER
