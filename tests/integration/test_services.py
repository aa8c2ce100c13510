"""All services have one shape: the same exit codes, and the same last line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.integration.faults import until

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
def test_without_kafka_it_says_so_and_ends_with_69(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", name], env=told(name, "127.0.0.1:1", tmp_path),
        capture_output=True, text=True, check=False, timeout=DEADLINE_S,
    )  # fmt: skip

    service = name.replace("_", "-")
    assert (done.returncode, last(done.stderr)) == (
        69,
        {"event": "stopped", "exit_code": 69, "service": service},
    )
    assert "Kafka at 127.0.0.1:1 does not answer" in done.stderr.splitlines()[-1]


@pytest.mark.integration
@every_service
def test_sigterm_drains_it_and_it_ends_with_0(
    name: str, tmp_path: Path, kafka: str, influx: dict[str, str]
) -> None:
    log = tmp_path / "log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-m", name],
            env=told(name, kafka, tmp_path, influx["url"], influx["token"]),
            stderr=out,
        ) as running,
    ):
        until(lambda: running.poll() is not None or _catches_sigterm(running.pid))
        assert running.returncode is None, log.read_text()
        running.terminate()
        code = running.wait(DEADLINE_S)

    assert (code, last(log.read_text())["exit_code"]) == (0, 0)


def _catches_sigterm(pid: int) -> bool:
    """Whether the process has a handler of its own for SIGTERM."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)
