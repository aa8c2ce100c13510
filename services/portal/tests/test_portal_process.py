"""`python -m portal` as it is started: exit codes, its last line, what it keeps private."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from services.portal.tests.portals import ticket

WITHIN_S = 60


def started(folder: Path, **settings: str) -> subprocess.Popen[str]:
    environment = {"PATH": "/usr/bin:/bin", "DAGGERS_PORTAL_STATE_DIR": str(folder / "portal")}
    environment |= {"DAGGERS_PORTAL_BIND": "127.0.0.1:0"} | settings
    return subprocess.Popen(
        [sys.executable, "-m", "portal"], env=environment, stderr=subprocess.PIPE, text=True
    )


def until_it_serves(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stderr is not None
    for line in process.stderr:
        if (said := json.loads(line))["event"] == "service.started":
            return said
    raise AssertionError("it has ended")


def test_sigterm_drains_it_and_it_ends_with_0(tmp_path: Path) -> None:
    process = started(tmp_path)
    try:
        address = until_it_serves(process)["address"]
        alive = httpx.get(f"http://{address}/healthz", headers={"host": address}, timeout=WITHIN_S)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()

    last = json.loads(log.splitlines()[-1])
    assert (alive.status_code, process.returncode) == (200, 0)
    assert (last["event"], last["exit_code"], last["service"]) == ("service.stopped", 0, "portal")


def test_an_address_that_is_taken_ends_it_with_69(tmp_path: Path) -> None:
    first = started(tmp_path)
    try:
        address = until_it_serves(first)["address"]
        second = started(tmp_path, DAGGERS_PORTAL_BIND=address)
        _, log = second.communicate(timeout=WITHIN_S)
    finally:
        first.kill()
        first.communicate()

    last = json.loads(log.splitlines()[-1])
    assert (second.returncode, last["exit_code"]) == (69, 69)
    assert address in last["detail"]


def test_what_is_no_certificate_is_a_bad_setting(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("cert", "key")}
    for file in files.values():
        file.write_text("no certificate")
    process = started(
        tmp_path, **{f"DAGGERS_PORTAL_TLS_{name.upper()}_FILE": str(file) for name, file in files.items()}
    )
    _, said = process.communicate(timeout=WITHIN_S)

    assert process.returncode == 2
    assert "are no certificate and its key" in said


def test_its_sessions_are_its_users_alone(tmp_path: Path) -> None:
    process = started(tmp_path)
    try:
        until_it_serves(process)
        files = list((tmp_path / "portal").iterdir())
        modes = {stat.S_IMODE(file.stat().st_mode) for file in files}
    finally:
        process.kill()
        process.communicate()

    assert files
    assert modes == {0o600}


def test_secrets_are_in_no_line_of_its_log(tmp_path: Path) -> None:
    key, token = tmp_path / "key", tmp_path / "token"
    key.write_text("k" * 40)
    token.write_text("a-token-of-the-gateway")
    process = started(tmp_path, DAGGERS_PORTAL_KEY_FILE=str(key), DAGGERS_PORTAL_TOKEN_FILE=str(token))
    try:
        address = until_it_serves(process)["address"]
        with httpx.Client(base_url=f"http://{address}", timeout=WITHIN_S) as browser:
            shown = ticket("k" * 40)
            entered = browser.get("/auth/key", params={"key": shown})
            second = entered.headers["location"].partition("#call=")[2]
            cookies = list(browser.cookies.values())
            browser.post(
                "/api/daggers.v1.DaggerService/ListDaggers",
                content=b"",
                headers={
                    "content-type": "application/proto",
                    "sec-fetch-site": "same-origin",
                    "x-daggers-call": second,
                },
            )
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()

    assert "login.accepted" in log
    assert cookies
    assert second
    for secret in ("k" * 40, shown, second, "a-token-of-the-gateway", *cookies):
        assert secret not in log
