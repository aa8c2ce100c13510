"""A service: it creates, retries, is told of a conflict, and watches on over a connection that broke.

The client is installed from its wheels into an empty environment; the stack is real.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import Stack
from tests.integrate.environment import installed, wheels
from tests.integration.bookings import Bookings
from tests.integration.cli import Cli
from tests.integration.faults import until
from tests.proxy import Proxy
from tests.walks.conftest import Say

pytestmark = [pytest.mark.integration, pytest.mark.long]

SERVICE = Path(__file__).with_name("service.py")
STORY = """\
network deaf
unknown, by its id: True
network well
version 1 taken once: True
second version 2
third ABORTED VERSION_MISMATCH
network cut
dropped
network well
resumed, nothing missed or twice: True requests seen: 3
went on: True
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a service that has our client."""
    return installed(tmp_path_factory.mktemp("environment") / "venv", wheels(tmp_path_factory.mktemp("dist")))


def test_a_service_creates_retries_meets_a_conflict_and_watches_on(
    stack: Stack, cli: Cli, python: Path, tmp_path: Path, say: Say
) -> None:
    name = Bookings(stack.kafka, cli).name
    port = int(stack.gateway.rpartition(":")[2])
    with Proxy(port) as network:
        changes = {"deaf": network.deafen, "cut": network.cut, "well": network.open}
        story = ""
        with subprocess.Popen(
            [python, "-I", SERVICE, stack.gateway, f"127.0.0.1:{network.port}", name, stack.token_file],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
        ) as service:  # fmt: skip
            assert service.stdin is not None
            assert service.stdout is not None
            for line in service.stdout:
                story += line
                if line.startswith("network "):
                    changes[wanted := line.split()[1]]()
                    service.stdin.write("\n")
                    service.stdin.flush()
                    if wanted == "deaf":  # the request arrives, and then the connection breaks
                        until(lambda: cli.try_("get", name).code == 0)
                        network.cut()
    cli("delete", name, "--wait")
    say(f"service: {', '.join(story.splitlines())}")

    assert (story, service.returncode) == (STORY, 0)
