"""Faults on the real stack: its processes by name, signals, and how it is brought back."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Message, TopicPartition
from conftest import Stack
from tests.integration.cli import DAGGERS

DEADLINE_S = 120.0


def process(stack: Stack, name: str) -> psutil.Process:
    """The stack's process of that name."""
    found = next(each for each in stack.status()["processes"] if each["name"] == name)
    return psutil.Process(found["pid"])


def kill(stack: Stack, name: str) -> None:
    """kill -9 of one process of the stack; returns when it is gone."""
    victim = process(stack, name)
    victim.kill()
    victim.wait(10)


def up(stack: Stack, env: Mapping[str, str] | None = None) -> None:
    """Start what is missing of the stack, as a user does; `env` is added to the user's environment."""
    subprocess.run(
        [DAGGERS, "local", "up", "--detach", "--state-dir", stack.state_dir],
        env={**os.environ, **(env or {})},  # noqa: TID251 - handed on to a child
        check=True, capture_output=True, timeout=DEADLINE_S,
    )  # fmt: skip


def down(stack: Stack) -> None:
    """Stop the stack."""
    subprocess.run(
        [DAGGERS, "local", "down", "--state-dir", stack.state_dir],
        check=True, capture_output=True, timeout=DEADLINE_S,
    )  # fmt: skip


def until(wanted: Callable[[], bool], *, deadline_s: float = DEADLINE_S) -> None:
    """Wait until `wanted()`; fails at the deadline."""
    end = time.monotonic() + deadline_s
    while not wanted():
        assert time.monotonic() < end, f"not so within {deadline_s:g} s"
        lasting(0.2)


def lasting(seconds: float) -> None:
    """Let a fault last."""
    threading.Event().wait(seconds)


def driver(name: str) -> dict[int, list[psutil.Process]]:
    """What runs of a dagger's launches: the processes of each session that names one of its run directories.

    A process that a stopped session leaves unreaped does not run.
    """
    sessions: dict[int, list[psutil.Process]] = {}
    for each in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if any(f"/runs/{name}/" in word for word in each.cmdline()):
                sessions.setdefault(os.getsid(each.pid), []).append(each)
    return sessions


def halves(name: str) -> tuple[psutil.Process, psutil.Process]:
    """The JVM and the Python half of a dagger's only driver."""
    (session,) = driver(name).values()
    jvm = next(each for each in session if Path(each.exe()).name == "java")
    python = next(each for each in session if each.ppid() == jvm.pid and "python" in each.exe())
    return jvm, python


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
