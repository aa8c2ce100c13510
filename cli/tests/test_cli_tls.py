"""A gateway with TLS and tokens as the command reaches it, and what it says when it does not."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from chassis.endpoint import Endpoint

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of its own authority, with its key, and files of tokens."""
    found = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", "key.pem", "-out", "cert.pem", "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True, cwd=found, timeout=60,
    )  # fmt: skip
    for name, text in {"token": f"{TOKEN}\n", "wrong": "f" * 16, "two": "one\ntwo\n", "not.pem": "x"}.items():
        (found / name).write_text(text)
    return found


@pytest.fixture(scope="module")
def port(serve: Callable[[Endpoint], int], folder: Path) -> int:
    """The port of a gateway that asks for TLS and a token."""
    pair = ((folder / "key.pem").read_bytes(), (folder / "cert.pem").read_bytes())
    tokens = {hashlib.sha256(TOKEN.encode()).digest(): "ana"}
    return serve(Endpoint("localhost:0", grpc.ssl_server_credentials([pair]), lambda: tokens))


def ask(folder: Path, address: str, *, ca: str = "", token: str = "") -> tuple[int, Any, str]:
    """Exit code, JSON document and stderr of `daggers cluster list`, run as a process of its own."""
    env = {"PATH": os.defpath, "HOME": str(folder), "DAGGERS_CA_FILE": ca and str(folder / ca)}
    done = subprocess.run(
        [sys.executable, "-m", "cli", "cluster", "list", "--gateway", address, "-o", "json"],
        env=env | {"DAGGERS_TOKEN_FILE": token and str(folder / token)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout), done.stderr


def test_with_its_authority_and_a_token_the_gateway_answers(folder: Path, port: int) -> None:
    assert ask(folder, f"https://localhost:{port}", ca="cert.pem", token="token") == (0, [], "")


@pytest.mark.parametrize(
    ("scheme", "ca", "token", "code", "said"),
    [
        ("https://", "cert.pem", "wrong", 1, "does not know this user: DAGGERS_TOKEN_FILE"),
        ("https://", "cert.pem", "", 1, "does not know this user: DAGGERS_TOKEN_FILE"),
        ("https://", "", "token", 3, "a certificate that is not trusted here: DAGGERS_CA_FILE"),
        ("", "", "token", 3, "closed the connection: if it speaks TLS, name it https://HOST:PORT"),
        ("https://", "not.pem", "token", 2, "holds no certificate in PEM"),
        ("https://", "gone.pem", "token", 2, "gone.pem cannot be read"),
        ("https://", "cert.pem", "two", 2, "must hold one token"),
    ],
)
def test_what_keeps_a_user_out_is_said_in_one_line_without_the_token(
    folder: Path, port: int, scheme: str, ca: str, token: str, code: int, said: str
) -> None:
    ended, document, err = ask(folder, f"{scheme}localhost:{port}", ca=ca, token=token)

    assert (ended, said in document["error"]["message"], err.count("\n")) == (code, True, 1)
    assert TOKEN not in err


def test_https_to_a_gateway_without_tls_says_so(folder: Path, gateway: str) -> None:
    code, document, _ = ask(folder, f"https://{gateway}")

    assert (code, "does not speak TLS: name it without https://" in document["error"]["message"]) == (3, True)
