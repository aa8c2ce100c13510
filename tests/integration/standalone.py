"""A Spark standalone cluster of the wheel on loopback, and how it is registered with the stack."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from conftest import Stack
from tests.integration.cli import Cli

from devstack import ports

SPARK_HOME = Path(pyspark.__file__).parent


class Standalone:
    """A master with one worker, on loopback."""

    def __init__(self, folder: Path, daemons: ExitStack) -> None:
        self._folder, self._daemons = folder, daemons
        self._port, self._web, self._worker_web = ports.choose(("master", "web", "worker"), {}).values()
        self.url = f"spark://127.0.0.1:{self._port}"
        self.pages = f"http://127.0.0.1:{self._web}"
        self._master = self._start_master()
        worker = ["worker.Worker", "--host", "127.0.0.1", "--webui-port", self._worker_web,
                  "-c", 1, "-m", "1g", "--work-dir", folder / "work", self.url]  # fmt: skip
        daemons.enter_context(daemon(worker, folder))
        wait_for_worker(self._web)

    def end(self) -> None:
        """End both."""
        self._daemons.close()

    def forget(self) -> None:
        """Kill the master, and start one that knows nothing of before."""
        self._master.kill()
        self._master.wait(30)
        self._master = self._start_master()
        wait_for_worker(self._web)

    def _start_master(self) -> "Daemon":
        words = ["master.Master", "--host", "127.0.0.1", "--port", self._port, "--webui-port", self._web]
        return self._daemons.enter_context(daemon(words, self._folder))


@contextmanager
def standalone(folder: Path) -> Iterator[Standalone]:
    """A cluster that ends with the context."""
    with ExitStack() as daemons:
        yield Standalone(folder, daemons)


def register(cli: Cli, stack: Stack, name: str, spark_master: str, folder: Path, *more: object) -> None:
    """Register a cluster of the stack's Kafka and InfluxDB with this Spark master, and more flags."""
    token = folder / "token"
    token.write_text(stack.influx["token"])
    cli(
        "cluster", "register", name, "--kafka", stack.kafka, "--spark-master", spark_master, *more,
        "--influx-url", stack.influx["url"], "--influx-org", stack.influx["org"],
        "--influx-bucket", stack.influx["bucket"], "--influx-token-file", token,
    )  # fmt: skip


def daemon(words: list[object], folder: Path) -> "Daemon":
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


def wait_for_worker(web: int) -> None:
    """Wait until the master has a living worker."""
    end = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == 1:
                    return
        except (OSError, ValueError):  # it listens before it answers, and answers in HTML before in JSON
            pass
        assert time.monotonic() < end, "the standalone cluster did not start"
        time.sleep(0.2)  # polling a daemon; bounded by the deadline
