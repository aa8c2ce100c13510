"""Compose's Kafka, run by its own script on ports of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.compose_file import COMPOSE

from devstack import ports
from devstack.tools import java, kafka

DEADLINE_S = 300


@dataclass(frozen=True)
class Broker:
    """Where it listens, and how to log in."""

    ports: Mapping[str, int]
    password: Path
    before: list[int] = field(default_factory=list)
    """What Kafka said to strangers before it was said who may what."""

    @property
    def strangers(self) -> list[dict[str, str]]:
        """Clients that do not log in: on this machine, and in another container."""
        return [{"bootstrap.servers": f"127.0.0.1:{self.ports[name]}"} for name in ("HOST", "DATA")]

    @property
    def ours(self) -> dict[str, str]:
        """A client of the platform's."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.ports['PLATFORM']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "daggers",
            "sasl.password": self.password.read_text(),
        }

    def grant(self) -> None:
        """Run what Compose runs at every start."""
        login = {
            "DAGGERS_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "DAGGERS_KAFKA_SASL_USERNAME": "daggers",
            "DAGGERS_KAFKA_SASL_PASSWORD_FILE": str(self.password),
        }
        subprocess.run(
            [sys.executable, COMPOSE / "image" / "access.py", self.ours["bootstrap.servers"]],
            check=True, capture_output=True, timeout=DEADLINE_S, env={"PATH": os.defpath, **login},
        )  # fmt: skip


def installed(tmp_path: Path) -> Broker:
    """As in its container, but for the places of files, names and ports; not started yet."""
    chosen = ports.choose(("PLATFORM", "HOST", "DATA", "CONTROLLER"), {})
    (tmp_path / "run").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "data").mkdir()
    password = tmp_path / "run" / "password"
    password.write_text("of-this-test")
    places = {
        "/etc/daggers/kafka": tmp_path,
        "/run/daggers/kafka": tmp_path / "run",
        "/tmp/server.properties": tmp_path / "tmp" / "server.properties",
        "/opt/kafka/libs": Path(sys.prefix) / "share" / "daggers" / kafka.NAME,
        "/var/lib/kafka/data": tmp_path / "data",
        "kafka:9092": f"127.0.0.1:{chosen['PLATFORM']}",
        "kafka:9095": f"127.0.0.1:{chosen['DATA']}",
        "localhost:": "127.0.0.1:",
        "127.0.0.1:9093": f"127.0.0.1:{chosen['CONTROLLER']}",
        **{
            f"{name}://:{port}": f"{name}://127.0.0.1:{chosen[name]}"
            for name, port in {"PLATFORM": 9092, "HOST": 9094, "DATA": 9095}.items()
        },
    }
    for name in ("start.sh", "server.properties", "log4j2.properties"):
        text = (COMPOSE / "kafka" / name).read_text()
        for there, here in places.items():
            text = text.replace(there, str(here))
        (tmp_path / name).write_text(text)
    return Broker(chosen, password)


@contextmanager
def started(broker: Broker, tmp_path: Path) -> Iterator[None]:
    """Around its life, until it is killed."""
    home = java.system_home(None)
    assert home is not None, "no Java"
    environment = {"PATH": f"{home}/bin:{os.defpath}", "KAFKA_PORT": str(broker.ports["HOST"])}
    with (tmp_path / "broker.log").open("wb") as log:
        process = subprocess.Popen(["sh", tmp_path / "start.sh"], env=environment, stdout=log, stderr=log)
    try:
        end = time.monotonic() + DEADLINE_S
        while not all(map(ports.is_open, broker.ports.values())):
            assert process.poll() is None, (tmp_path / "broker.log").read_text()
            assert time.monotonic() < end, (tmp_path / "broker.log").read_text()
            time.sleep(0.1)  # polling a broker that starts; bounded by the deadline
        yield
    finally:
        process.kill()
        process.wait(DEADLINE_S)
