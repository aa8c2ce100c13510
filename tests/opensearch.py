"""A real OpenSearch of a test run's own, on loopback. `python -m tests.opensearch` installs it, once.

It is the distribution that OpenSearch's own tests start: its core, without plugins, from Maven's repository.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VERSION = "2.19.4"
DIGEST = "3902e642715210d1d9d7cbdcc8f5abd6f931d1d7a679cea3750937becf16c406"
"""SHA-256 of the archive."""
ARTIFACT = f"org.opensearch.distribution.integ-test-zip:opensearch:{VERSION}:zip"
HOME = Path(sys.prefix) / "share" / "daggers" / f"opensearch-{VERSION}"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_DEADLINE_S = 180
_OLDEST_JAVA, _NEWEST_JAVA = 11, 24
"""With 24 Java lost what its security stands on."""


def install() -> str:
    """Put it where tests look for it. Answers what is missing on this machine; empty when it is there."""
    if HOME.is_dir():
        return ""
    if shutil.which("mvn") is None:
        return "mvn is missing (Debian: apt-get install maven)"
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=HOME.parent) as made:
        folder = Path(made)
        maven = ["mvn", "-q", "-B", "--strict-checksums", _COPY, f"-Dartifact={ARTIFACT}"]
        subprocess.run([*maven, f"-DoutputDirectory={folder}"], check=True, cwd=folder, timeout=900)
        (archive,) = folder.glob("*.zip")
        if hashlib.sha256(archive.read_bytes()).hexdigest() != DIGEST:
            return f"{archive.name} is not the one that is pinned"
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        unpacked = folder / HOME.name
        for program in (unpacked / "bin").iterdir():
            program.chmod(0o755)
        unpacked.rename(HOME)
    return ""


@contextmanager
def serving() -> Iterator[str]:
    """Its URL. Skips the test where the machine cannot have it."""
    java = _java()
    if not HOME.is_dir():
        pytest.skip(f"no OpenSearch {VERSION} on this machine: make opensearch")
    if java is None:
        pytest.skip(f"no Java from {_OLDEST_JAVA} to {_NEWEST_JAVA - 1} for OpenSearch {VERSION}")
    folder = Path(tempfile.mkdtemp(prefix="daggers-opensearch-"))
    home = folder / "home"
    shutil.copytree(HOME, home)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # it does not run as root
        user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": ()}
        subprocess.run(["chown", "-R", f"nobody:{user['group']}", folder], check=True)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, transport = one.getsockname()[1], other.getsockname()[1]
    said = {
        "discovery.type": "single-node",
        "network.host": "127.0.0.1",
        "http.port": port,
        "transport.port": transport,
        "cluster.routing.allocation.disk.threshold_enabled": "false",
    }
    options = "-Xms256m -Xmx256m -XX:TieredStopAtLevel=1 -XX:-HeapDumpOnOutOfMemoryError"
    environment = {
        "PATH": os.defpath,
        "OPENSEARCH_JAVA_HOME": str(java),
        "OPENSEARCH_JAVA_OPTS": options,
    }
    log = folder / "output"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [str(home / "bin" / "opensearch"), *(f"-E{name}={value}" for name, value in said.items())],
            cwd=home, env=environment, stdout=output, stderr=output, start_new_session=True, **user,
        )  # fmt: skip
    try:
        _wait(f"http://127.0.0.1:{port}", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _DEADLINE_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/_cluster/health", timeout=10):
                return
        except OSError:
            assert server.poll() is None, log.read_text(errors="replace")[-4000:]
            assert time.monotonic() < end, log.read_text(errors="replace")[-4000:]
            time.sleep(0.2)  # polling a server that starts; bounded by the deadline


def _java() -> Path | None:
    """The home of a Java that it runs on."""
    program = shutil.which("java")
    if program is None:
        return None
    home = Path(program).resolve().parents[1]
    told = subprocess.run([program, "-XshowSettings:properties", "-version"], capture_output=True, text=True)
    versions = [
        line.partition("=")[2] for line in told.stderr.splitlines() if "java.specification.version " in line
    ]
    number = versions[0].strip() if versions else ""
    return home if number.isdigit() and _OLDEST_JAVA <= int(number) < _NEWEST_JAVA else None


if __name__ == "__main__":
    if lacking := install():
        sys.stderr.write(f"OpenSearch {VERSION} is not installed, and its tests are skipped: {lacking}\n")
