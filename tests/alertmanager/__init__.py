"""The Alertmanager of tests: Prometheus's own program, built by Go, once.

`python -m tests.alertmanager` builds it: so does `make test-long`. Versions and checksums of all that is
built stand in `go.mod` and `go.sum` here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import yaml
from tests.documents.pages import ROOT
from tests.golang import find_go
from tests.maven import LackingError

from cli.environment import environment
from devstack import ports, processes

_HERE: Final = Path(__file__).parent
_MODULE: Final = "github.com/prometheus/alertmanager"
_PINNED: Final = (_HERE / "go.mod").read_text(encoding="utf-8")
VERSION: Final = re.findall(rf"\b{_MODULE} (v\S+)", _PINNED, re.MULTILINE)[0]
_HOME: Final = ROOT / ".cache" / "alertmanager"
_PROGRAM: Final = _HOME / f"alertmanager-{VERSION}"
# Pages that its releases are built with, and that its module lacks; no test opens one.
_PAGES: Final = ("elm", "mantine")
_BUILD_S: Final = 3_600
_DEADLINE_S: Final = 60.0
_GRACE_S: Final = 10.0
_MINUTES: Final = 10
"""It ends by itself after so long."""


def install() -> None:
    """Build the program. Raises: LackingError."""
    if _PROGRAM.is_file():
        return
    go = find_go(_PINNED)
    work = _HOME / "go"  # kept until it is built, so that a build that was interrupted goes on
    work.mkdir(parents=True, exist_ok=True)
    own = environment(
        GOPATH=str(work / "path"), GOCACHE=str(work / "cache"), HOME=str(work), GOTOOLCHAIN="local",
        GOFLAGS="-modcacherw -mod=readonly", CGO_ENABLED="0", GOOS="", GOARCH="", GOWORK="off",
    )  # fmt: skip
    _run([go, "mod", "download", _MODULE], own)
    pages = work / "path" / "pkg" / "mod" / f"{_MODULE}@{VERSION}" / "ui" / "app" / "dist"
    for name in _PAGES:
        (pages / name).mkdir(parents=True, exist_ok=True)
        (pages / name / "index.html").write_text("<!doctype html><title>Alertmanager</title>")
    program = work / "alertmanager"
    _run(
        [
            "nice", "-n", "19", go, "build", "-trimpath", "-ldflags", "-s -w",
            "-o", program, f"{_MODULE}/cmd/alertmanager",
        ],
        own,
    )  # fmt: skip
    program.rename(_PROGRAM)
    shutil.rmtree(work)


def _run(command: list[object], own: Mapping[str, str]) -> None:
    words = list(map(str, command))
    done = subprocess.run(
        words, cwd=_HERE, env=own, capture_output=True, text=True, check=False, timeout=_BUILD_S
    )
    if done.returncode:
        raise LackingError(f"it could not be built: {done.stderr[-500:]}")


@contextmanager
def alertmanager(folder: Path, configuration: Mapping[str, Any]) -> Iterator[str]:
    """Run it by a configuration, with its files in `folder`; yield its URL.

    Raises: LackingError where it is not built and cannot be.
    """
    install()
    folder.mkdir(parents=True)
    file = folder / "alertmanager.yaml"
    file.write_text(yaml.safe_dump(dict(configuration)))
    port = ports.choose(("alertmanager",), {})["alertmanager"]
    url = f"http://{ports.LOOPBACK}:{port}"
    log = folder / "alertmanager.log"
    try:
        processes.start(
            "alertmanager",
            [
                "timeout", f"{_MINUTES}m", _PROGRAM,
                f"--config.file={file}", f"--storage.path={folder / 'data'}",
                f"--web.listen-address={ports.LOOPBACK}:{port}", "--cluster.listen-address=",
            ],
            stack=folder,
            log=log,
            env={"HOME": str(folder), "PATH": os.defpath},
        )  # fmt: skip
        _await_ready(url, log)
        yield url
    finally:
        processes.stop(processes.find_marked(folder), grace_s=_GRACE_S)


def _await_ready(url: str, log: Path) -> None:
    end = time.monotonic() + _DEADLINE_S
    while True:
        try:
            if httpx.get(f"{url}/-/ready", trust_env=False).is_success:
                return
        except httpx.HTTPError:
            pass  # it has not begun to listen
        assert time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.1)  # polling a server that starts; bounded by the deadline
