"""The real stack for every test that asks for it: one embedded Kafka, InfluxDB, gateway and scheduler a run.

Tests name `stack`, `kafka` or `influx`; the first that does starts it through the CLI, as a user would.
`--kafka HOST:PORT` and `--influx URL` name a broker and an InfluxDB that are running already: quicker while
working on one member. `DAGGERS_INFLUXD2=PATH` in the environment names an influxd 2.x; what is tested on 1.8
only because that is what the embedded stack has is then tested on it, too.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
from hypothesis import HealthCheck, settings
from tests import postgres as postgres_server
from tests import redis as redis_server
from tests import searchservers

# before pytest takes the folders cli/ and devstack/ for packages of these names (importlib mode)
import cli  # noqa: F401
from devstack.settings import StackSettings
from devstack.tools import java

# Some tests speak gRPC and others start Spark, which forks: gRPC's fork handlers end such a child.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # noqa: TID251 - gRPC has no other way to be told
# A spare beside each stack would take processor and memory from what is tested. Who tests spares has one.
os.environ.setdefault("DAGGERS_SCHEDULER_SPARE", "false")  # noqa: TID251 - stacks are started as by a user

# Where the machine has no Java, tests start the one that `make setup` brought, as the stack does.
if not java.system_home(StackSettings().java_home) and (_home := java.wheel_home(StackSettings().tools_dir)):
    os.environ["JAVA_HOME"] = str(_home)  # noqa: TID251 - what tests start inherits it
    os.environ["PATH"] = f"{_home / 'bin'}{os.pathsep}{os.environ['PATH']}"  # noqa: TID251 - as above

# A busy machine is no failure. `make test` tries the same each time; `make test-long` tries more and always
# something else, and prints the line that tries a failure again.
settings.register_profile(
    "daggers", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("explore", settings.get_profile("daggers"), max_examples=1_000)
settings.register_profile("same", settings.get_profile("daggers"), derandomize=True)
settings.load_profile("same")

pytest_plugins = ["tests.skips"]

DAGGERS = Path(sys.executable).with_name("daggers")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What is running already, and which of the slow tests are wanted."""
    parser.addoption("--kafka", default="", help="bootstrap servers of a running broker")
    parser.addoption("--influx", default="", help="URL of a running InfluxDB 1.8 without authentication")
    parser.addoption("--part", help="only slow tests: of this part, or `all` (make test-long)")


def part_of(item: pytest.Item) -> str | None:
    """The part of `make test-long` that a test is in: its member or suite, or `properties`."""
    if item.get_closest_marker("long"):
        return [name for name in item.path.parts[:-1] if name != "tests"][-1]
    return "properties" if item.get_closest_marker("hypothesis") else None


@pytest.hookimpl(trylast=True)  # hypothesis marks its tests in this hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --part, leave out what is not in it."""
    wanted: str | None = config.getoption("--part")
    if wanted is None:
        return
    parts = {part for item in items if (part := part_of(item))}
    if wanted not in parts | {"all"}:
        known = ", ".join(["all", *sorted(parts)])
        raise pytest.UsageError(f"the slow tests have no part {wanted!r}, but these: {known}")
    chosen = parts if wanted == "all" else {wanted}
    config.hook.pytest_deselected(items=[item for item in items if part_of(item) not in chosen])
    items[:] = [item for item in items if part_of(item) in chosen]


@dataclass(frozen=True)
class Stack:
    """A running embedded stack, as `daggers local status -o json` tells of it."""

    state_dir: Path
    kafka: str
    gateway: str
    influx: dict[str, str]

    @property
    def token_file(self) -> Path:
        """The token that its gateway asks for."""
        return self.state_dir / "administrator.token"

    @property
    def bearer(self) -> tuple[tuple[str, str], ...]:
        """The token as metadata, for who calls without our client."""
        return (("authorization", f"Bearer {self.token_file.read_text().strip()}"),)

    def status(self) -> dict[str, Any]:
        """The stack as it is now."""
        done = subprocess.run(
            [DAGGERS, "local", "status", "--state-dir", self.state_dir, "-o", "json"],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        status: dict[str, Any] = json.loads(done.stdout)
        return status


@contextmanager
def running_stack(state_dir: Path, *, within: Sequence[str | Path] = ()) -> Iterator[Stack]:
    """An embedded stack of its own in `state_dir`, stopped when the context ends.

    `within`: words of a command that runs the one behind them.
    """
    up = subprocess.run(
        [*within, DAGGERS, "local", "up", "--detach", "--state-dir", state_dir],
        capture_output=True, text=True, check=False, timeout=1500,
    )  # fmt: skip
    try:
        assert up.returncode == 0, f"the stack did not start:\n{up.stderr}"
        status = Stack(state_dir, kafka="", gateway="", influx={}).status()
        yield Stack(
            state_dir,
            kafka=status["kafka"]["bootstrap_servers"],
            gateway=status["gateway"]["address"],
            influx=status["influx"],
        )
    finally:
        subprocess.run([DAGGERS, "local", "down", "--state-dir", state_dir], check=True, timeout=180)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The embedded stack, started once for the whole run and stopped at its end."""
    with running_stack(tmp_path_factory.mktemp("stack")) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> str:
    """Bootstrap servers of a real broker; use a fresh topic in every test."""
    given: str = request.config.getoption("--kafka")
    return given or str(request.getfixturevalue("stack").kafka)


@pytest.fixture(scope="session")
def influx(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A real InfluxDB: url, org, token, the file with it, bucket."""
    if given := request.config.getoption("--influx"):
        secret = tmp_path_factory.mktemp("influx") / "token"
        secret.write_text("nobody:asks\n")
        return {"url": given, "org": "-", "token": "", "token_file": str(secret), "bucket": "daggers"}
    address: dict[str, str] = request.getfixturevalue("stack").influx
    return address


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """URL of a real PostgreSQL server, without the name of a database."""
    with postgres_server.serving() as url:
        yield url


@pytest.fixture(scope="session")
def redis() -> Iterator[tuple[str, str]]:
    """Address and password of a real Redis server."""
    with redis_server.serving() as server:
        yield server


@pytest.fixture(scope="session")
def opensearch() -> Iterator[str]:
    """URL of a real OpenSearch."""
    with searchservers.serving(searchservers.OPENSEARCH) as url:
        yield url


@pytest.fixture(scope="session")
def elasticsearch() -> Iterator[str]:
    """URL of a real Elasticsearch, where who shows nothing may do everything; it is installed first."""
    lacking = searchservers.install(searchservers.ELASTICSEARCH)
    if lacking:
        pytest.skip(f"no Elasticsearch: {lacking}")
    with searchservers.serving(searchservers.ELASTICSEARCH) as url:
        yield url


@pytest.fixture(scope="session")
def influx2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A real InfluxDB 2 of this run's own: url, org, token, the file with it, bucket."""
    binary = os.environ.get("DAGGERS_INFLUXD2", "")  # noqa: TID251 - an option of whoever runs the tests
    if not binary:
        pytest.skip("DAGGERS_INFLUXD2 names no influxd 2.x")
    folder = tmp_path_factory.mktemp("influx2")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    places = {"bolt": "bolt", "sqlite": "sqlite", "engine": "engine"}
    command = [binary, "--http-bind-address", address, "--reporting-disabled", "--log-level", "error"]
    command += [word for name, place in places.items() for word in (f"--{name}-path", str(folder / place))]
    with (
        (folder / "influxd.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as server,
    ):
        try:
            made = _set_up(f"http://{address}")
            (folder / "token").write_text(f"{made['token']}\n")
            yield made | {"token_file": str(folder / "token")}
        finally:
            server.terminate()


def _set_up(url: str) -> dict[str, str]:
    """Wait for a fresh InfluxDB 2 and give it its first organisation, bucket and token."""
    first = {"org": "daggers", "bucket": "daggers", "token": "of-a-test"}
    wanted = json.dumps(first | {"username": "daggers", "password": "of-a-test"}).encode()
    end = time.monotonic() + 60
    with urllib3.PoolManager(retries=False, timeout=10) as http:
        while True:
            try:
                if http.request("POST", f"{url}/api/v2/setup", body=wanted).status == 201:
                    return first | {"url": url}
            except urllib3.exceptions.HTTPError:
                pass  # not there yet
            assert time.monotonic() < end, f"InfluxDB 2 at {url} cannot be set up"
            time.sleep(0.1)  # polling a server that starts; bounded by the deadline
