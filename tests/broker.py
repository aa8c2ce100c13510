"""A Kafka broker of a test's own, which can be killed and comes back with what it has."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack import ports
from devstack.broker import PROPERTIES
from devstack.tools import java, kafka

DEADLINE_S = 60


class Broker:
    """One node in a folder of its own, at the same port whenever it runs."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._ports = folder, ports.choose(("kafka", "controller"), {})
        self.address = f"127.0.0.1:{self._ports['kafka']}"
        home = java.system_home(None)
        assert home is not None, "no Java"
        jars = Path(sys.prefix) / "share" / "daggers" / kafka.NAME
        self._run = [str(home / "bin" / "java"), "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        self._properties = folder / "server.properties"
        self._properties.write_text(PROPERTIES.format(**self._ports, data=folder / "data"))
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", "-t", f"d{cluster_id[1:]}", "-c", str(self._properties)]
        subprocess.run([*self._run, *tool], check=True, capture_output=True, timeout=DEADLINE_S)

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._run, "kafka.Kafka", str(self._properties)], stdout=log, stderr=log
            )
        end = time.monotonic() + DEADLINE_S
        while not ports.is_open(self._ports["kafka"]):
            assert self._process.poll() is None, (self._folder / "broker.log").read_text()
            assert time.monotonic() < end, (self._folder / "broker.log").read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()


@contextmanager
def serving(folder: Path) -> Iterator[Broker]:
    """A broker that runs; nothing of it is left afterwards."""
    folder.mkdir(parents=True)
    broker = Broker(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
