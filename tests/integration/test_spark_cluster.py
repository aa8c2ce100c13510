"""A dagger on a Spark standalone cluster: master and worker of the wheel, the driver in client mode."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least

pytestmark = pytest.mark.integration

SPARK_HOME = Path(pyspark.__file__).parent


@pytest.fixture(scope="module")
def spark_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a standalone master with one worker, on loopback."""
    folder = tmp_path_factory.mktemp("spark")
    port, web, worker_web = free_port(), free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", web]
    worker = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", worker_web, "-c", 1, "-m", "1g",
              "--work-dir", folder / "work", url]  # fmt: skip
    with ExitStack() as stack:
        for words in (master, worker):
            stack.enter_context(running(words, folder))
        wait_for_worker(web)
        yield url


def test_a_dagger_on_a_standalone_cluster_counts_exactly(
    stack: Stack, tmp_path: Path, spark_master: str
) -> None:
    cli = Cli(stack.state_dir)
    cli(
        "cluster", "register", "standalone", "--kafka", stack.kafka, "--spark-master", spark_master,
        "--influx-url", stack.influx["url"], "--influx-org", stack.influx["org"],
        "--influx-bucket", stack.influx["bucket"], "--influx-token-file", token_file(stack, tmp_path),
    )  # fmt: skip
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, cluster="standalone")
    events = spread(range(120), cities=2)

    bookings.write(booking(second, city_id=city) for second, city in events)
    cli("apply", "-f", file, "--wait", "--timeout", 180)
    rows = cli.rows(name, enough=at_least(4))
    cli("delete", name, "--wait")

    assert counted(rows) == recount(events)


def running(words: list[object], folder: Path) -> "Daemon":
    """A Spark daemon of the wheel; its context ends it."""
    python = Path(sys.executable)
    environment = {
        "HOME": str(Path.home()),
        "LC_ALL": "C.UTF-8",
        "PATH": f"{python.parent}:{os.defpath}:/usr/local/bin",
        "PYSPARK_PYTHON": str(python),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    name = f"org.apache.spark.deploy.{words[0]}"
    command = [SPARK_HOME / "bin" / "spark-class", name, *words[1:]]
    with (folder / f"{words[0]}.log").open("wb") as log:
        return Daemon([str(word) for word in command], env=environment, stdout=log, stderr=log)


class Daemon(subprocess.Popen[bytes]):
    """A process that is terminated when its context ends."""

    def __exit__(self, *error: object) -> None:
        self.terminate()
        self.wait(30)


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def wait_for_worker(web: int) -> None:
    """Wait until the master has a living worker."""
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == 1:
                    return
        except OSError:
            pass
        assert time.monotonic() < end, "the standalone cluster did not start"
        time.sleep(0.2)  # polling a daemon; bounded by the deadline


def token_file(stack: Stack, folder: Path) -> Path:
    """The stack's InfluxDB token in a file."""
    path = folder / "token"
    path.write_text(stack.influx["token"])
    return path
