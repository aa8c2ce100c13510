"""The peer: Flink 2.2.1, SQL and Protobuf format, S2 in Java, as a session cluster of one machine.

Built from public packages into a folder of its own: Flink's jars from the Python package index, connector and
format from Maven, the message's classes and ours by javac. `build` says in one line what is missing.
"""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from machine import Meter, Spent
from workload import PROTO

PROTOC = "4.32.1"
_PEER = Path(__file__).with_name("flink_peer")
_OPENED = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent")
_JAVA = [
    "java",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "-Dorg.apache.logging.log4j.level=WARN",
]
_CONFIG = """\
jobmanager:
  bind-host: localhost
  rpc: {{address: localhost, port: {rpc}}}
  memory: {{process: {{size: 1600m}}}}
rest: {{address: localhost, bind-address: localhost, port: {rest}}}
taskmanager:
  bind-host: localhost
  host: localhost
  numberOfTaskSlots: 2
  cpu: {{cores: 2.0}}
  memory:
    framework: {{heap: {{size: 128m}}, off-heap: {{size: 128m}}}}
    task: {{heap: {{size: 768m}}, off-heap: {{size: 0m}}}}
    managed: {{size: 256m}}
    network: {{min: 64m, max: 64m}}
    jvm-metaspace: {{size: 256m}}
    jvm-overhead: {{min: 192m, max: 192m}}
parallelism: {{default: 2}}
"""
_DEADLINE_S = 900


def build(folder: Path) -> str:
    """Puts all jars into `folder`/lib. Answers what is missing on this machine; empty when it is built."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        return f"no Flink beside it: {', '.join(missing)} missing (Debian: default-jdk, maven)"
    lib, classes = folder / "lib", folder / "classes"
    classes.mkdir(parents=True)
    _run(sys.executable, "-m", "venv", folder / "venv")
    pip = [folder / "venv" / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    _run(*pip, "--require-hashes", "-r", _PEER / "apache-flink.lock")
    (jars,) = folder.glob("venv/lib/*/site-packages/pyflink/lib")
    shutil.copytree(jars, lib)
    maven = ["mvn", "-q", "-B", "--strict-checksums", "-f", _PEER / "pom.xml"]
    _run(*maven, "dependency:copy-dependencies", f"-DoutputDirectory={lib}")
    artifact = f"com.google.protobuf:protoc:{PROTOC}:exe:linux-x86_64"
    _run(*maven, "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
    (protoc,) = folder.glob("protoc-*.exe")
    protoc.chmod(0o755)
    google = resources.files("grpc_tools") / "_proto"
    _run(protoc, f"-I{PROTO.parent}", f"-I{google}", f"--java_out={folder}", PROTO.name)
    sources = [*folder.rglob("bench/**/*.java"), *_PEER.glob("*.java")]
    _run("javac", "-nowarn", "-cp", f"{lib}/*", "-d", classes, *sources)
    _run("jar", "cf", lib / "peer.jar", "-C", classes, ".")
    return ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running session cluster. `meter` counts its processes, and the clients'."""

    folder: Path
    rest_port: int
    meter: Meter

    def run(self, kafka: str, topic: str, rows_topic: str) -> Spent:
        """Run the query over everything in the topic, and wait for its end; the client is not counted."""
        before = self.meter.read()
        self._submit("peer.Job", kafka, topic, rows_topic)
        return self.meter.read() - before

    def begin(self, kafka: str, topic: str, rows_topic: str, case: str) -> None:
        """Begin a query of bench/freshness.py, which runs until the cluster ends."""
        self._submit("peer.LiveJob", kafka, topic, rows_topic, case)

    def _submit(self, main: str, kafka: str, topic: str, rows_topic: str, *more: str) -> None:
        words = [kafka, topic, rows_topic, str(self.rest_port), *more]
        _run(*_JAVA, "-cp", f"{self.folder / 'lib'}/*", main, *words)


@contextmanager
def cluster(folder: Path, logs: Path | None = None) -> Iterator[Cluster]:
    """A job manager and a task manager with two slots, ended afterwards.

    folder: what `build` has filled. logs: a new folder for settings and logs; `folder`/run where unsaid.
    """
    rest, rpc = _free_port(), _free_port()
    logs = logs or folder / "run"
    settings = logs / "conf"
    settings.mkdir(parents=True)
    (settings / "config.yaml").write_text(_CONFIG.format(rest=rest, rpc=rpc))
    java = [*_JAVA, "-cp", f"{folder / 'lib'}/*"]
    mains = {
        "job": ["-Xmx768m", "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"],
        "task": ["-Xmx896m", "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"],
    }
    running = []
    try:
        for name, (heap, main) in mains.items():
            with (logs / f"{name}.log").open("w") as log:
                command = [*java[:1], heap, *java[1:], main, "--configDir", settings]
                running.append(
                    subprocess.Popen(command, stdout=log, stderr=log, cwd=logs, start_new_session=True)
                )
        _wait_for_slots(rest)
        with Meter(*(process.pid for process in running)) as meter:
            yield Cluster(folder, rest, meter)
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()


def _wait_for_slots(rest_port: int) -> None:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://localhost:{rest_port}/overview", timeout=5) as answer:
                if b'"slots-available":2' in answer.read():
                    return
        except OSError:
            pass
        time.sleep(0.5)
    raise SystemExit("Flink's task manager did not register in time")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _run(*command: str | Path) -> None:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=_DEADLINE_S
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
