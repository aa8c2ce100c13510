"""All services have one shape: the same exit codes, and the same last line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker import Broker
from tests.integration.faults import lasting, until

DEADLINE_S = 60
SERVICES = {
    "api_gateway": "DAGGERS_GATEWAY",
    "scheduler": "DAGGERS_SCHEDULER",
    "health_monitor": "DAGGERS_MONITOR",
    "telemetry": "DAGGERS_TELEMETRY",
}
every_service = pytest.mark.parametrize("name", SERVICES)


def told(
    name: str, kafka: str, folder: Path, influx_url: str = "http://127.0.0.1:1", influx_token: str = ""
) -> dict[str, str]:
    """As little of an environment as a service needs."""
    prefix = SERVICES[name]
    token = folder / "influx-token"
    token.write_text(influx_token)
    own = {
        "api_gateway": {"BIND": "127.0.0.1:0", "DATABASE_URL": f"sqlite:///{folder}/x.db"},
        "scheduler": {"STATE_DIR": str(folder)},
        "health_monitor": {},
        "telemetry": {
            "INFLUX_URL": influx_url,
            "INFLUX_ORG": "-",
            "INFLUX_BUCKET": "daggers",
            "INFLUX_TOKEN_FILE": str(token),
        },
    }[name] | {"KAFKA_BOOTSTRAP_SERVERS": kafka}
    inherited = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}  # noqa: TID251
    return inherited | {f"{prefix}_{key}": value for key, value in own.items()}


def last(log: str) -> dict[str, Any]:
    """The last line of a log."""
    line: dict[str, Any] = json.loads(log.splitlines()[-1])
    return {key: line[key] for key in ("event", "exit_code", "service")}


@every_service
def test_bad_settings_are_named_and_end_it_with_2(name: str) -> None:
    command = [sys.executable, "-m", name]
    done = subprocess.run(command, env={}, capture_output=True, text=True, check=False, timeout=DEADLINE_S)

    first, *_, hint = done.stderr.splitlines()
    assert (done.returncode, first) == (2, f"python -m {name}: bad settings:")
    assert hint == f"`python -m {name} --help` explains each setting."
    assert f"{SERVICES[name]}_KAFKA_BOOTSTRAP_SERVERS: Field required" in done.stderr


@every_service
def test_without_kafka_it_waits_and_logs_why_once_and_sigterm_ends_it_with_0(
    name: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with started(name, told(name, "127.0.0.1:1", tmp_path), log) as running:
        until(lambda: _waits(log), deadline_s=DEADLINE_S)
        lasting(3)  # it has tried again
        running.terminate()
        code = running.wait(DEADLINE_S)

    service = name.replace("_", "-")
    waiting, _ = log.read_text().splitlines()
    assert json.loads(waiting)["detail"] == "Kafka at 127.0.0.1:1 does not answer: KafkaConnectionError"
    assert (code, last(log.read_text())) == (
        0,
        {"event": "service.stopped", "exit_code": 0, "service": service},
    )


@pytest.mark.integration
def test_services_that_were_started_before_kafka_serve_once_it_is_there(
    tmp_path: Path, influx: dict[str, str]
) -> None:
    (tmp_path / "kafka").mkdir()
    broker = Broker(tmp_path / "kafka")
    ready = {
        "api_gateway": '"service.started"',
        "scheduler": '"scheduler.leadership_gained"',
        "health_monitor": '"service.started"',
        "telemetry": '"projected"',
    }
    logs = {name: tmp_path / name / "log" for name in SERVICES}
    with ExitStack() as stack:
        services = {}
        for name, log in logs.items():
            log.parent.mkdir()
            env = told(name, broker.address, log.parent, influx["url"], influx["token"])
            services[name] = stack.enter_context(started(name, env, log))
        until(lambda: all(map(_waits, logs.values())), deadline_s=DEADLINE_S)
        stack.callback(broker.kill)
        broker.start()
        until(lambda: all(ready[name] in log.read_text() for name, log in logs.items()))
        assert [name for name, service in services.items() if service.poll() is not None] == []


@pytest.mark.integration
@every_service
def test_sigterm_drains_it_and_it_ends_with_0(
    name: str, tmp_path: Path, kafka: str, influx: dict[str, str]
) -> None:
    log = tmp_path / "log"
    with started(name, told(name, kafka, tmp_path, influx["url"], influx["token"]), log) as running:
        until(lambda: running.poll() is not None or _catches_sigterm(running.pid))
        assert running.returncode is None, log.read_text()
        running.terminate()
        code = running.wait(DEADLINE_S)

    assert (code, last(log.read_text())["exit_code"]) == (0, 0)


@contextmanager
def started(name: str, env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A service that is killed in the end."""
    command = [sys.executable, "-m", name]
    with log.open("wb") as out, subprocess.Popen(command, env=env, stderr=out) as running:
        try:
            yield running
        finally:
            running.kill()


def _waits(log: Path) -> bool:
    """Whether a service has logged that it waits for Kafka."""
    return "kafka.awaited" in log.read_text()


def _catches_sigterm(pid: int) -> bool:
    """Whether the process has a handler of its own for SIGTERM."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
