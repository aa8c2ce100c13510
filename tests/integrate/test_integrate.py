"""docs/integrate.md as a service follows it: the client installed from its wheels, in an empty venv."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from daggers.v1 import spec_pb2
from tests.documents.pages import ROOT, Page
from tests.gateways import served
from tests.integrate.environment import UV, installed, wheels

from api_gateway.auth.teams import UnknownTeamAction
from chassis.endpoint import Endpoint
from chassis.tokenfile import read_tokens
from cli.__main__ import run
from daggerclient import Client

PAGE = Page(ROOT / "docs" / "integrate.md")


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The token's file of a client; the gateway's list is beside it."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text("a-token-of-the-tests\n")
    file.with_name("tokens").write_text("administrator:a-token-of-the-tests\n")
    return file


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, token: Path) -> Iterator[str]:
    """Address of a gateway that knows what the page registers, and does with teams as a local stack's."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    database = f"sqlite:///{tmp_path_factory.mktemp('gateway') / 'projection.db'}"
    further = {"enforce": True, "unknown_teams": UnknownTeamAction.MAKE}
    endpoint = Endpoint("127.0.0.1:0", tokens=lambda: read_tokens(token.with_name("tokens")))
    with served(endpoint, database, **further) as port, pytest.MonkeyPatch.context() as environment:
        environment.setenv("DAGGERS_TOKEN_FILE", str(token))
        address = f"127.0.0.1:{port}"
        cluster = spec_pb2.Cluster(
            name="local",
            kafka=spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1"),
            spark_master="local[2]",
        )
        with Client(address, token_file=token) as client:
            client.register_cluster(cluster)
        for line in registrations():
            assert run([*line, "--gateway", address]) == 0
        yield address
    structlog.reset_defaults()


def registrations() -> list[list[str]]:
    """The words of the page's commands that register something."""
    text = PAGE.blocks("console")[0].replace("\\\n", " ")
    lines = [line.removeprefix("$ .venv/bin/daggers ").split() for line in text.splitlines()]
    found = [line for line in lines if "register" in line]
    assert len(found) == 2
    return [[str(ROOT / word) if word.startswith("examples/") else word for word in line] for line in found]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the client, and what it asks for."""
    files = wheels(tmp_path_factory.mktemp("dist"))
    return installed(tmp_path_factory.mktemp("environment") / "venv", files)


def test_an_installed_client_creates_watches_retries_and_is_told_of_a_conflict(
    gateway: str, token: Path, python: Path, tmp_path: Path
) -> None:
    (script := tmp_path / "first.py").write_text(PAGE.blocks("python")[0])

    done = subprocess.run(
        [python, "-I", script, gateway, token],
        capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path,
    )  # fmt: skip

    assert (done.stdout, done.stderr) == (PAGE.blocks("")[0], "")


def test_an_installed_client_brings_nothing_of_the_services(python: Path) -> None:
    listed = subprocess.run(
        [*UV, "pip", "list", "--python", python, "--format", "json"],
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip

    assert {each["name"] for each in json.loads(listed.stdout)} == {
        "chassis", "daggerclient", "daggers-proto", "daggerspec", "googleapis-common-protos", "grpcio",
        "grpcio-status", "protobuf", "pyyaml", "typing-extensions", "tzdata",
    }  # fmt: skip
