"""A deployment of Compose on an engine of its own, from images that are made here: no registry is asked.

Everything is kept in one folder, so that the next run has engine, plugin and base images. Grafana's image
cannot be made here: that service is behind a profile.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from devstack import ports

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).with_name("compose_walk")
NEEDED = ("dockerd", "docker", "iptables", "debootstrap", "go", "cargo", "mvn")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # noqa: TID251 - a child's own
PUBLISHED = {
    "DAGGERS_PORT": "gateway",
    "GRAFANA_PORT": "grafana",
    "INFLUXDB_PORT": "influxdb",
    "KAFKA_PORT": "kafka",
    "SPARK_PORT": "spark",
    "DAGGERS_PORTAL_PORT": "portal",
}


def lacks() -> str:
    """Why no engine can be had here, in one sentence; empty where it can."""
    missing = [name for name in NEEDED if shutil.which(name, path=PATH) is None]
    if os.getuid() == 0 and not missing:
        return ""
    of = f"and {', '.join(missing)}" if missing else "alone"
    return f"an engine for docker compose of a test's own needs root {of}"


@dataclass(frozen=True)
class Engine:
    """An engine that runs, with its client, the plugin, and the base images."""

    work: Path

    def run(self, *words: str | Path, timeout: float = 600) -> str:
        """What a command prints, with this engine as its own. Raises: CalledProcessError."""
        done = subprocess.run(
            [*map(str, words)],
            check=True, text=True, timeout=timeout, capture_output=True,
            env=self.environment(), cwd=self.work,
        )  # fmt: skip
        return done.stdout

    def environment(self, **more: str) -> dict[str, str]:
        """What leads a client here."""
        return {
            **os.environ,  # noqa: TID251 - proxies, certificates and registries are the user's
            "PATH": PATH,
            "DOCKER_HOST": f"unix://{self.work}/run/docker.sock",
            "DOCKER_CONFIG": str(self.work / "config"),
            **more,
        }


def _answers(engine: Engine) -> bool:
    try:
        engine.run("docker", "info", timeout=60)
    except subprocess.CalledProcessError:
        return False
    return True


@contextmanager
def engine() -> Iterator[Engine]:
    """The engine while the context is open, for one at a time; the first time it takes half an hour."""
    where = os.environ.get("DAGGERS_COMPOSE_WORK")  # noqa: TID251 - an option of these tests
    work = Path(where) if where else Path(sys.prefix) / "share" / "daggers" / "compose"
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several workers, and of two runs
        yield from _started(Engine(work))


def _started(has: Engine) -> Iterator[Engine]:
    work = has.work
    runs = _answers(has)
    if not runs:
        has.run(SCRIPTS / "engine.sh", work, "start")
    try:
        if not (work / "bin" / "influxd2").exists():
            has.run(SCRIPTS / "influxd2.sh", work, timeout=3600)
        has.run(SCRIPTS / "plugin.sh", work, timeout=3600)
        images = set(has.run("docker", "images", "--format", "{{.Repository}}").split())
        missing = [name for name in ("python", "kafka", "influxdb") if f"daggers-base/{name}" not in images]
        if missing:
            has.run(SCRIPTS / "images.sh", work, *missing, timeout=3600)
        yield has
    finally:
        if not runs:
            has.run(SCRIPTS / "engine.sh", work, "stop")


@dataclass
class Deployment:
    """One deployment, with ports and volumes of its own."""

    engine: Engine
    folder: Path
    """Where commands are called; what is in there is in /work."""
    name: str = "daggers-test"
    checkout: Path = ROOT

    def __post_init__(self) -> None:
        """Choose the ports, and write what replaces Grafana's image."""
        chosen = ports.choose(tuple(PUBLISHED.values()), {})
        self.ports = {name: chosen[service] for name, service in PUBLISHED.items()}
        without = self.folder / "without-grafana.yaml"
        without.write_text(yaml.safe_dump({"services": {"grafana": {"profiles": ["grafana"]}}}))
        self.environment = self.engine.environment(
            COMPOSE_FILE=f"{self.checkout / 'deploy' / 'compose' / 'compose.yaml'}:{without}",
            COMPOSE_PROJECT_NAME=self.name,
            PWD=str(self.folder),
            PYTHON_IMAGE="daggers-base/python",
            KAFKA_IMAGE="daggers-base/kafka",
            INFLUXDB_IMAGE="daggers-base/influxdb",
            **{name: str(port) for name, port in self.ports.items()},
        )

    @property
    def kafka(self) -> str:
        """Where this machine feeds it."""
        return f"localhost:{self.ports['KAFKA_PORT']}"

    def try_(self, *words: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """`docker compose …`, however it ends."""
        return subprocess.run(
            ["docker", "compose", *words],
            check=False, text=True, timeout=timeout, capture_output=True,
            env=self.environment, cwd=self.folder,
        )  # fmt: skip

    def __call__(self, *words: str, timeout: float = 600) -> str:
        """What `docker compose …` prints; it must succeed."""
        done = self.try_(*words, timeout=timeout)
        assert done.returncode == 0, f"docker compose {' '.join(words)}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def daggers(self, *words: str, timeout: float = 240) -> str:
        """What the command prints."""
        return self("run", "--rm", "-T", "daggers", *words, timeout=timeout)

    def up(self, *words: str) -> float:
        """Start it, and wait until it is well; how long that took, in seconds."""
        begun = time.monotonic()
        self("up", "--detach", "--wait", *words, timeout=900)
        return time.monotonic() - begun

    def pid(self, service: str) -> int:
        """The first process of a service's container, as this machine knows it."""
        container = self("ps", "--quiet", service).strip()
        return int(self.engine.run("docker", "inspect", "--format", "{{.State.Pid}}", container))

    def addresses(self) -> dict[str, str]:
        """The address of each container that runs, by its service."""
        shown = self("ps", "--format", "{{.Service}} {{.ID}}").split("\n")
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        pairs = (line.split() for line in shown if line)
        return {
            service: self.engine.run("docker", "inspect", "--format", template, container).strip()
            for service, container in pairs
        }


@contextmanager
def deployed(
    engine: Engine, folder: Path, *, name: str = "daggers-test", checkout: Path = ROOT
) -> Iterator[Deployment]:
    """A deployment that is built, and of which nothing is left afterwards; not started yet."""
    folder.chmod(0o755)  # containers read there as user 10001
    deployment = Deployment(engine, folder, name, checkout=checkout)
    deployment("build", timeout=3600)
    try:
        yield deployment
    finally:
        deployment("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "20")


def say(line: str) -> None:
    """Print a line for who watches."""
    sys.__stdout__.write(f"\n{time.strftime('%T')} {line}")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]
