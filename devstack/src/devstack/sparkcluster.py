"""A Spark standalone cluster of the installed PySpark on loopback: a master that remembers, and its workers.

    python -m devstack.sparkcluster up FOLDER [--minutes 60]
    python -m devstack.sparkcluster down FOLDER

Each daemon ends by itself when its time is over. The master has recovery mode FILESYSTEM, as
docs/operations.md asks for: one that is killed and started again knows its workers and applications.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from devstack import ports, processes
from devstack.processes import StackProcess
from devstack.tools.pyspark_home import find_pyspark

MASTER: Final = "spark-master"
WORKER: Final = "spark-worker-{}"
_EXECUTOR: Final = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_DEADLINE_S: Final = 120.0
_GRACE_S: Final = 10.0


@dataclass
class SparkCluster:
    """A master and its workers, which are below `folder`."""

    folder: Path
    workers: int = 2
    cores: int = 1
    """Cores of each worker."""
    memory_mib: int = 1024
    """Memory of each worker for executors."""
    minutes: int = 60
    """Each daemon ends so long after it was started."""
    ports: dict[str, int] = field(
        default_factory=lambda: ports.choose(("master", "web"), {"master": 7077, "web": 8080})
    )

    @property
    def url(self) -> str:
        """Return the URL of the master."""
        return f"spark://{ports.LOOPBACK}:{self.ports['master']}"

    @property
    def pages(self) -> str:
        """Return the URL of the master's pages."""
        return f"http://{ports.LOOPBACK}:{self.ports['web']}"

    def start(self) -> None:
        """Start master and workers, and wait until all are there. Raises: TimeoutError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.start_master()
        for number in range(self.workers):
            self.start_worker(number)
        self.wait()

    def start_master(self) -> None:
        """Start the master, which knows what the one before it knew."""
        recovery = self.folder / "recovery"
        recovery.mkdir(exist_ok=True)
        properties = {
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(recovery),
            "spark.deploy.recoveryTimeout": "10",
        }
        own = ["--host", ports.LOOPBACK, "--port", str(self.ports["master"])]
        self._start(MASTER, "master.Master", [*own, "--webui-port", str(self.ports["web"])], properties)

    def start_worker(self, number: int) -> None:
        """Start one worker."""
        name = WORKER.format(number)
        own = ["--host", ports.LOOPBACK, "--webui-port", str(ports.choose((name,), {})[name])]
        own += ["--cores", str(self.cores), "--memory", f"{self.memory_mib}m"]
        self._start(name, "worker.Worker", [*own, "--work-dir", str(self.folder / name), self.url], {})

    def kill(self, name: str) -> None:
        """Send SIGKILL to a daemon and to all that it has started; return once they are gone."""
        daemon = self.find(name)
        processes.kill(daemon)
        processes.await_end([daemon], _GRACE_S)

    def forget(self) -> None:
        """Kill the master, and start one that knows nothing of before."""
        self.kill(MASTER)
        shutil.rmtree(self.folder / "recovery")
        self.start_master()
        self.wait()

    def find(self, name: str) -> StackProcess:
        """Find a daemon that runs. Raises: StopIteration."""
        return next(one for one in processes.find_marked(self.folder) if one.name == name)

    def executors(self) -> list[psutil.Process]:
        """List the processes of executors on all workers."""
        daemons = processes.find_marked(self.folder)
        return [one for daemon in daemons for one in daemon.members() if is_executor(one)]

    def wait(self, workers: int | None = None) -> None:
        """Wait until the master has so many living workers, all of them unless it is said.

        Raises: TimeoutError.
        """
        wanted, end = self.workers if workers is None else workers, time.monotonic() + _DEADLINE_S
        while _count_workers(self.pages) != wanted:
            if time.monotonic() >= end:
                raise TimeoutError(f"{self.url} has no {wanted} workers; the logs are in {self.folder}")
            time.sleep(0.2)  # nothing tells when a worker is registered

    def stop(self) -> None:
        """Stop all daemons."""
        processes.stop(processes.find_marked(self.folder), grace_s=_GRACE_S)

    def _start(self, name: str, daemon: str, words: list[str], properties: dict[str, str]) -> None:
        options = " ".join(f"-D{key}={value}" for key, value in properties.items())
        environment = {
            "HOME": str(Path.home()),
            "LC_ALL": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}:/usr/local/bin",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:+UseSerialGC {options}",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(find_pyspark()),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_LOCAL_IP": ports.LOOPBACK,
        }
        program = [str(find_pyspark() / "bin" / "spark-class"), f"org.apache.spark.deploy.{daemon}"]
        processes.start(
            name,
            ["timeout", f"{self.minutes}m", *program, *words],
            stack=self.folder,
            log=self.folder / f"{name}.log",
            env=environment,
        )


@contextmanager
def spark_cluster(folder: Path, workers: int, *, minutes: int = 60) -> Iterator[SparkCluster]:
    """Run a cluster of workers with one core each, which ends with the context.

    It never has the usual ports: `make spark-cluster` may have them. Raises: TimeoutError.
    """
    cluster = SparkCluster(folder, workers, minutes=minutes, ports=ports.choose(("master", "web"), {}))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def is_executor(process: psutil.Process) -> bool:
    """Tell whether a process is an executor of Spark's that runs."""
    try:
        return _EXECUTOR in process.cmdline()
    except psutil.Error:  # gone, or about to be
        return False


def _count_workers(pages: str) -> int:
    """Count the living workers of a master by its page; -1 while that does not answer."""
    try:
        with urllib.request.urlopen(f"{pages}/json/", timeout=5) as answer:  # noqa: S310 - of loopback
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):  # it listens before it answers, and answers in HTML before in JSON
        return -1


def main(argv: list[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="devstack.sparkcluster", description=__doc__)
    parser.add_argument("verb", choices=["up", "down"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--minutes", type=int, default=60, help="after which it ends by itself")
    arguments = parser.parse_args(argv)
    running = processes.find_marked(arguments.folder)
    if arguments.verb == "down":
        processes.stop(running, grace_s=_GRACE_S)
        return _say(f"{len(running)} daemons are stopped" if running else "nothing runs there")
    if running:
        return _say("it runs already: make spark-cluster-down stops it", failed=True)
    cluster = SparkCluster(arguments.folder, arguments.workers, arguments.cores, minutes=arguments.minutes)
    try:
        cluster.start()
    except TimeoutError as problem:
        cluster.stop()
        return _say(str(problem), failed=True)
    return _say(
        f"{cluster.url} has {cluster.workers} workers; its pages: {cluster.pages}\n"
        f"It ends by itself after {cluster.minutes} minutes, or by `make spark-cluster-down`. Beside a stack"
        " of `daggers local up`:\n"
        f"  daggers cluster register spark --kafka HOST:PORT --spark-master {cluster.url}"
        f" --spark-web-url {cluster.pages}"
    )


def _say(text: str, *, failed: bool = False) -> int:
    """Print a text; return the exit code that goes with it."""
    (sys.stderr if failed else sys.stdout).write(f"{text}\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
