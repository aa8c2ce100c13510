"""Faults on the real stack: its processes by name, signals, and how it is brought back."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import urllib3
from confluent_kafka import Consumer, Message, TopicPartition
from conftest import Stack
from google.protobuf.message import Message as Event
from tests.integration.cli import DAGGERS

from chassis.processes import start_ticks
from daggerspec import rundir
from daggerspec.rundir import DriverIdentity
from devstack import drivers

DEADLINE_S = 300.0


def process(stack: Stack, name: str) -> psutil.Process:
    """The stack's process of that name."""
    found = next(each for each in stack.status()["processes"] if each["name"] == name)
    return psutil.Process(found["pid"])


def kill(stack: Stack, name: str) -> None:
    """kill -9 of one process of the stack; returns when it is gone."""
    victim = process(stack, name)
    victim.kill()
    victim.wait(10)


def up(stack: Stack, env: Mapping[str, str] | None = None, only: str = "") -> None:
    """Start what is missing of the stack, as a user does; `env` is added to the user's environment.

    only: the one part that is started.
    """
    words = ["--only", only] if only else []
    subprocess.run(
        [DAGGERS, "local", "up", "--detach", "--state-dir", stack.state_dir, *words],
        env={**os.environ, **(env or {})},  # noqa: TID251 - handed on to a child
        check=True, capture_output=True, timeout=DEADLINE_S,
    )  # fmt: skip


def down(stack: Stack) -> None:
    """Stop the stack."""
    subprocess.run(
        [DAGGERS, "local", "down", "--state-dir", stack.state_dir],
        check=True, capture_output=True, timeout=DEADLINE_S,
    )  # fmt: skip


@contextmanager
def serving(module: str, env: dict[str, str], folder: Path) -> Iterator[None]:
    """A service of ours, and its log in `folder`."""
    log = folder / f"{module}.log"
    with log.open("wb") as out:
        service = subprocess.Popen(
            [sys.executable, "-m", module], env=env, stderr=out, stdout=out, cwd=folder
        )
    try:
        yield
    finally:
        service.terminate()
        service.wait(30)


@contextmanager
def loaded(processes: int) -> Iterator[None]:
    """So many processes compute without a pause; each ends by itself, too."""
    compute = "import time\nend = time.monotonic() + 3000\nwhile time.monotonic() < end: pass"
    started = [subprocess.Popen([sys.executable, "-c", compute]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def until(wanted: Callable[[], bool], *, deadline_s: float = DEADLINE_S) -> None:
    """Wait until `wanted()`; fails at the deadline."""
    end = time.monotonic() + deadline_s
    while not wanted():
        assert time.monotonic() < end, f"not so within {deadline_s:g} s"
        lasting(0.2)


def lasting(seconds: float) -> None:
    """Let a fault last."""
    threading.Event().wait(seconds)


def driver(stack: Stack, name: str) -> dict[int, list[psutil.Process]]:
    """What runs of a dagger's launches: the processes of each, by the process id of its leader."""
    found = [each for each in drivers.find(stack.state_dir) if each.dagger == name]
    return {each.pid: drivers.session(each).members() for each in found}


def halves(stack: Stack, name: str) -> tuple[psutil.Process, psutil.Process]:
    """The JVM and the Python half of a dagger's only driver."""
    (only,) = (each for each in drivers.find(stack.state_dir) if each.dagger == name)
    found = halves_of(only)
    return found["jvm"], found["python"]


def halves_of(driver: DriverIdentity) -> dict[str, psutil.Process]:
    """The JVM, which the wrapper has started, and the Python half, which says who it is; if they run."""
    found: dict[str, psutil.Process] = {}
    with suppress(FileNotFoundError):
        told = json.loads((Path(driver.run_dir) / rundir.DRIVER).read_text())
        if start_ticks(told["pid"]) == told["start_ticks"]:
            found["python"] = psutil.Process(told["pid"])
    for member in drivers.session(driver).members():
        with suppress(psutil.Error):
            if member.ppid() == driver.pid and Path(member.exe()).name == "java":
                found["jvm"] = member
    return found


def kill_driver(stack: Stack, name: str) -> None:
    """kill -9 of every process of a dagger's drivers."""
    for session in driver(stack, name).values():
        for each in session:
            with suppress(psutil.NoSuchProcess):
                each.kill()


def send(number: signal.Signals, *processes: psutil.Process) -> None:
    """A signal to each."""
    for each in processes:
        each.send_signal(number)


def records(kafka: str, topic: str, partition: int = 0) -> list[Message]:
    """Every record of a topic's partition, as it stands."""
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "faults", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        consumer.assign([TopicPartition(topic, partition, first)])
        found: list[Message] = []
        deadline = time.monotonic() + DEADLINE_S
        while first + len(found) < end:
            assert time.monotonic() < deadline, f"{topic} could not be read"
            found += [each for each in consumer.consume(1000, timeout=1) if each.error() is None]
        return found
    finally:
        consumer.close()


def header(message: Message, name: str) -> str:
    """A CloudEvents attribute of a record."""
    return dict(message.headers() or ()).get(name, b"").decode()


def of_type(found: Iterable[Message], kind: type[Event]) -> list[Message]:
    """Those of the records that are of this type, by their CloudEvents attribute."""
    return [record for record in found if header(record, "ce_type") == kind.DESCRIPTOR.full_name]


def belonging(state_dir: Path) -> Iterator[psutil.Process]:
    """Every process that has the state directory in its words or its environment, ourselves left out."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = [*process.cmdline(), *process.environ().values()]
            if process.pid != os.getpid() and any(str(state_dir) in word for word in words):
                yield process


def listens(port: int) -> bool:
    """Whether anybody listens at a loopback port."""
    return any(
        connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        for connection in psutil.net_connections(kind="tcp")
    )


def influxql(stack: Stack, text: str) -> dict[str, Any]:
    """What the stack's InfluxDB says to a statement of its administrator."""
    with urllib3.PoolManager() as http:
        answer = http.request(
            "POST",
            f"{stack.influx['url']}/query",
            fields={"db": stack.influx["bucket"], "q": text},
            headers=urllib3.make_headers(basic_auth=stack.influx["token"]),
            encode_multipart=False,
        )
    assert answer.status == 200, answer.data
    found: dict[str, Any] = answer.json()["results"][0]
    return found
