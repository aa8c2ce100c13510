#!/usr/bin/env python3
"""What the official image of InfluxDB 2 has beside influxd, as far as Compose asks for it: ping and serve.

`serve` sets the database up once, from DOCKER_INFLUXDB_INIT_*, while it listens on another port; then it
becomes influxd.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SETUP_PORT = 9999
ENVIRONMENT = os.environ  # noqa: TID251 - a program of its own, in an image
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def given(name: str) -> str:
    """What the container is told under this name, itself or by a file."""
    variable = f"DOCKER_INFLUXDB_INIT_{name}"
    file = ENVIRONMENT.get(f"{variable}_FILE")
    return Path(file).read_text().strip() if file else ENVIRONMENT.get(variable, "")


def seconds(text: str) -> int:
    """A duration such as 90d."""
    return sum(int(count) * UNITS_S[unit] for count, unit in re.findall(r"(\d+)([smhdw])", text))


def answers(port: int) -> bool:
    """Whether influxd does."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=2) as answer:
            return bool(answer.status == 204)
    except OSError:
        return False


def setup() -> None:
    """Make organisation, bucket, user and token."""
    server = subprocess.Popen(["influxd", f"--http-bind-address=127.0.0.1:{SETUP_PORT}"])
    while not answers(SETUP_PORT):
        if server.poll() is not None:
            sys.exit(f"influxd ended with exit code {server.returncode}")
        time.sleep(0.2)
    wanted = {
        "username": given("USERNAME"),
        "password": given("PASSWORD"),
        "token": given("ADMIN_TOKEN"),
        "org": given("ORG"),
        "bucket": given("BUCKET"),
        "retentionPeriodSeconds": seconds(given("RETENTION")),
    }
    request = urllib.request.Request(
        f"http://127.0.0.1:{SETUP_PORT}/api/v2/setup",
        json.dumps(wanted).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()
    server.terminate()
    server.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["ping"]:
        sys.exit(not answers(8086))
    if given("MODE") == "setup" and not Path(ENVIRONMENT["INFLUXD_BOLT_PATH"]).exists():
        setup()
    os.execvp("influxd", ["influxd"])
