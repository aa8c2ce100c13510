"""The real stack for every test that asks for it: one embedded Kafka, InfluxDB, gateway and scheduler a run.

Tests name `stack`, `kafka` or `influx`; the first that does starts it through the CLI, as a user would.
`--kafka HOST:PORT` and `--influx URL` name a broker and an InfluxDB that are running already: quicker while
working on one member.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import cli  # noqa: F401 - before pytest takes the folder cli/ for a package of that name (importlib mode)

# Some tests speak gRPC and others start Spark, which forks: gRPC's fork handlers end such a child.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # noqa: TID251 - gRPC has no other way to be told

DAGGERS = Path(sys.executable).with_name("daggers")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The parts that are running already."""
    parser.addoption("--kafka", default="", help="bootstrap servers of a running broker")
    parser.addoption("--influx", default="", help="URL of a running InfluxDB 1.8 without authentication")


@dataclass(frozen=True)
class Stack:
    """A running embedded stack, as `daggers local status -o json` tells of it."""

    state_dir: Path
    kafka: str
    gateway: str
    influx: dict[str, str]

    def status(self) -> dict[str, Any]:
        """The stack as it is now."""
        done = subprocess.run(
            [DAGGERS, "local", "status", "--state-dir", self.state_dir, "-o", "json"],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        status: dict[str, Any] = json.loads(done.stdout)
        return status


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The embedded stack, started once for the whole run and stopped at its end."""
    state_dir = tmp_path_factory.mktemp("stack")
    up = subprocess.run(
        [DAGGERS, "local", "up", "--detach", "--state-dir", state_dir],
        capture_output=True, text=True, check=False, timeout=1500,
    )  # fmt: skip
    try:
        assert up.returncode == 0, f"the stack did not start:\n{up.stderr}"
        bare = Stack(state_dir, kafka="", gateway="", influx={})
        status = bare.status()
        yield Stack(
            state_dir,
            kafka=status["kafka"]["bootstrap_servers"],
            gateway=status["gateway"]["address"],
            influx=status["influx"],
        )
    finally:
        subprocess.run([DAGGERS, "local", "down", "--state-dir", state_dir], check=True, timeout=180)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> str:
    """Bootstrap servers of a real broker; use a fresh topic in every test."""
    given: str = request.config.getoption("--kafka")
    return given or str(request.getfixturevalue("stack").kafka)


@pytest.fixture(scope="session")
def influx(request: pytest.FixtureRequest) -> dict[str, str]:
    """A real InfluxDB: url, org, token, bucket."""
    if given := request.config.getoption("--influx"):
        return {"url": given, "org": "-", "token": "", "bucket": "daggers"}
    address: dict[str, str] = request.getfixturevalue("stack").influx
    return address
