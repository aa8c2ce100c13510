"""`daggers login` against a real provider and a real gateway: by code and by browser, renewed, given up."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from tests.gateways import served
from tests.oidc.browser import walk
from tests.oidc.oidc_login import BROWSER

from api_gateway.auth.oidc import OidcProvider, Verifier, build_fetch
from chassis.egress.addresses import EgressRules
from chassis.endpoint import Endpoint
from cli.login.credentials import Login
from cli.login.store import Logins

WITHIN_S = 60


@pytest.fixture(scope="module")
def gateway(issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a gateway that trusts the provider, and enforces."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    database = tmp_path_factory.mktemp("gateway") / "projection.db"
    verifier = Verifier(OidcProvider(issuer, "daggers", "email"), build_fetch(issuer, EgressRules()))
    endpoint = Endpoint("127.0.0.1:0", tokens=dict)
    with served(endpoint, f"sqlite:///{database}", verifier=verifier, enforce=True) as port:
        yield f"127.0.0.1:{port}"
    structlog.reset_defaults()


@pytest.fixture
def command(gateway: str, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts a command of somebody whose home is the test's folder."""

    def started(*words: str, **environment: str) -> subprocess.Popen[str]:
        home = {"XDG_STATE_HOME": str(tmp_path), "PATH": os.defpath, "HOME": str(tmp_path), **environment}
        return subprocess.Popen(
            [sys.executable, "-m", "cli", *words, "--gateway", gateway],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=home,
        )

    return started


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """How a command ended: exit code, stdout, stderr."""
    out, said = process.communicate(timeout=WITHIN_S)
    return process.returncode, out, said


def line(process: subprocess.Popen[str], wanted: str) -> str:
    """What a command says that matches; the watchdog ends it when it says nothing of the kind."""
    watchdog = threading.Timer(WITHIN_S, process.kill)
    watchdog.start()
    assert process.stderr is not None
    for said in process.stderr:
        if match := re.search(wanted, said):
            watchdog.cancel()
            return match[1]
    raise AssertionError(f"it ended and did not say {wanted}")


def kept(folder: Path, gateway: str) -> Login:
    found = Logins(folder).read(gateway)
    assert isinstance(found, Login)
    return found


def test_who_types_the_code_into_a_browser_is_logged_in(
    command: Callable[..., subprocess.Popen[str]], gateway: str, tmp_path: Path
) -> None:
    begun = command("login", "--device", "-o", "json")
    page = line(begun, r"or open (\S+),")
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        walk(browser, page, "ada")
    code, out, said = ended(begun)
    told = json.loads(out)
    again = ended(command("whoami"))
    [file] = tmp_path.glob("daggers/logins/*.json")

    assert (code, told["principal"], told["renews"]) == (0, "user:ada@example.org", True), said
    assert told["groups"] == ["group:analysts", "group:riders"]
    assert again[0] == 0
    assert again[1].startswith("user:ada@example.org: no role\nin group:analysts, group:riders\nuntil 20")
    assert "renewed by itself" in again[1]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_browser_of_this_machine_brings_the_login_and_it_is_renewed_and_given_up(
    command: Callable[..., subprocess.Popen[str]], gateway: str, tmp_path: Path
) -> None:
    script = tmp_path / "browser.py"
    script.write_text(BROWSER)
    browser = f"{sys.executable} {script} %s"
    root = str(Path(__file__).parents[2])
    code, out, said = ended(command("login", BROWSER=browser, PYTHONPATH=root))
    ending = time.time() + 1
    Logins(tmp_path).keep(gateway, replace(kept(tmp_path, gateway), ends=ending))
    renewed = ended(command("whoami"))
    second = kept(tmp_path, gateway)
    gone, nothing = ended(command("logout", "-o", "json")), ended(command("logout"))
    without = ended(command("whoami"))
    Logins(tmp_path).keep(gateway, replace(second, ends=0.0))
    revoked = ended(command("whoami", "-o", "json"))

    assert code == 0, said
    assert out.startswith(f"logged in at {gateway} as user:ada@example.org")
    assert renewed[0] == 0, renewed[2]
    assert second.ends > ending + 60
    assert (gone[0], json.loads(gone[1])["provider_told"]) == (0, True)
    assert nothing[:2] == (0, f"there was no login at {gateway}\n")
    assert (without[0], "`daggers login`" in without[2]) == (1, True)
    assert (revoked[0], json.loads(revoked[1])["error"]["reason"]) == (1, "LOGIN_ENDED")


@pytest.mark.parametrize("way", [(), ("--device",)])
def test_ctrl_c_ends_the_wait_and_keeps_nothing(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path, way: tuple[str, ...]
) -> None:
    begun = command("login", *way, BROWSER="true")
    line(begun, r"(log in at|or open) ")
    begun.send_signal(signal.SIGINT)
    code, out, said = ended(begun)

    assert (code, out) == (130, "")
    assert "Traceback" not in said
    assert list(tmp_path.glob("daggers/logins/*.json")) == []


def test_who_was_refused_in_the_browser_is_told_so(
    command: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    begun = command("login", "-o", "json", BROWSER="true")
    page = httpx.URL(line(begun, r"log in at (\S+)"))
    back, state = page.params["redirect_uri"], page.params["state"]
    other = httpx.get(back, params={"code": "of-somebody-else", "state": "guessed"})
    httpx.get(back, params={"error": "access_denied", "state": state})
    code, out, _ = ended(begun)
    error: Any = json.loads(out)["error"]

    assert other.status_code == 404
    assert (code, error["reason"]) == (1, "LOGIN_REFUSED")
    assert "access_denied" in error["message"]


def test_an_issuer_that_nobody_should_log_in_at_is_refused(
    command: Callable[..., subprocess.Popen[str]],
) -> None:
    plain = ended(command("login", "--issuer", "http://login.example.com", "--client-id", "x", "-o", "json"))
    half = ended(command("login", "--issuer", "https://login.example.com", "-o", "json"))

    assert (plain[0], json.loads(plain[1])["error"]["reason"]) == (1, "NO_PROVIDER")
    assert (half[0], json.loads(half[1])["error"]["findings"][0]["field"]) == (2, "--client-id")
