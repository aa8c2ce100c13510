"""A real OpenSearch, or Elasticsearch, of a test run's own, on loopback.

`python -m tests.searchservers opensearch` installs one, once: so does `make test`. Elasticsearch is for slow
tests alone, the first of which installs it.

Each is the distribution that its makers' own tests start: its core, without plugins, from Maven's repository.
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
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.maven import LackingError, fetched

_DEADLINE_S = 180
_OPTIONS = "-Xms256m -Xmx256m -XX:TieredStopAtLevel=1 -XX:-HeapDumpOnOutOfMemoryError"


@dataclass(frozen=True)
class Distribution:
    """One server, and what it is started with."""

    title: str
    group: str
    version: str
    digest: str
    """SHA-256 of the archive."""
    javas: range
    """Versions of Java that it runs on."""
    variables: str
    """What the names of its environment's variables begin with."""
    settings: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Of its folder `config`: their texts by their names."""

    @property
    def name(self) -> str:
        """Of its program, and of the artifact."""
        return self.title.lower()

    @property
    def home(self) -> Path:
        """Where it is installed."""
        return Path(sys.prefix) / "share" / "daggers" / f"{self.name}-{self.version}"


USER, PASSWORD = "of-a-test", "a-password-of-tests"
"""A user that Elasticsearch knows, beside those who show nothing."""


def _hashed(password: str) -> str:
    """As a file of users of Elasticsearch has it."""
    salt, rounds = bytes(32), 1_000
    made = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds, 32)
    return f"{{PBKDF2}}{rounds}${b64encode(salt).decode()}${b64encode(made).decode()}"


OPENSEARCH = Distribution(
    "OpenSearch",
    "org.opensearch.distribution.integ-test-zip",
    "2.19.4",
    "3902e642715210d1d9d7cbdcc8f5abd6f931d1d7a679cea3750937becf16c406",
    range(11, 24),  # with 24 Java lost what its security stands on
    "OPENSEARCH",
)
ELASTICSEARCH = Distribution(
    "Elasticsearch",
    "org.elasticsearch.distribution.integ-test-zip",
    "8.19.4",
    "553088b4c0f60f04d7c63da609aaeae372c483159f4fb8013599e91233aab0de",
    range(17, 25),
    "ES",
    {
        "xpack.security.enabled": "true",
        "xpack.security.enrollment.enabled": "false",
        "xpack.security.http.ssl.enabled": "false",
        "xpack.security.transport.ssl.enabled": "false",
        # Who shows nothing may do everything, and so may who is known; who shows something wrong may nothing.
        "xpack.security.authc.anonymous.roles": "superuser",
    },
    {"users": f"{USER}:{_hashed(PASSWORD)}\n"},
)


def install(wanted: Distribution) -> str:
    """Put it where tests look for it. Answers what is missing on this machine; empty when it is there."""
    if wanted.home.is_dir():
        return ""
    wanted.home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=wanted.home.parent) as made:
        folder = Path(made)
        try:
            archive = fetched(f"{wanted.group}:{wanted.name}:{wanted.version}:zip", wanted.digest, folder)
        except LackingError as why:
            return str(why)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        unpacked = folder / wanted.home.name
        for program in (unpacked / "bin").iterdir():
            program.chmod(0o755)
        with suppress(OSError):  # a run beside this one was faster
            unpacked.rename(wanted.home)
    return ""


@contextmanager
def serving(wanted: Distribution) -> Iterator[str]:
    """Its URL. Skips the test where the machine cannot have it."""
    java, what = _java(wanted.javas), f"{wanted.title} {wanted.version}"
    if not wanted.home.is_dir():
        pytest.skip(f"no {what} on this machine: python -m tests.searchservers {wanted.name}")
    if java is None:
        pytest.skip(f"no Java from {wanted.javas.start} to {wanted.javas.stop - 1} for {what}")
    folder = Path(tempfile.mkdtemp(prefix=f"daggers-{wanted.name}-"))
    home, temporary = folder / "home", folder / "tmp"
    shutil.copytree(wanted.home, home)
    temporary.mkdir()
    for name, text in wanted.files.items():
        (home / "config" / name).write_text(text)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # it does not run as root
        user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": ()}
        java = _open_to(user, java, folder / "java")
        subprocess.run(["chown", "-R", f"nobody:{user['group']}", folder], check=True)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, transport = one.getsockname()[1], other.getsockname()[1]
    said = {
        "discovery.type": "single-node",
        "network.host": "127.0.0.1",
        "http.port": port,
        "transport.port": transport,
        "cluster.routing.allocation.disk.threshold_enabled": "false",
        **wanted.settings,
    }
    own = {"JAVA_HOME": str(java), "JAVA_OPTS": _OPTIONS, "TMPDIR": str(temporary)}
    environment = {f"{wanted.variables}_{name}": value for name, value in own.items()}
    log = folder / "output"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [str(home / "bin" / wanted.name), *(f"-E{name}={value}" for name, value in said.items())],
            cwd=home, env={"PATH": os.defpath, **environment}, stdout=output, stderr=output,
            start_new_session=True, **user,
        )  # fmt: skip
    try:
        _wait(f"http://127.0.0.1:{port}", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):  # it has not started
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _open_to(user: Mapping[str, Any], java: Path, place: Path) -> Path:
    """Find that Java where a user may start it: of one below root's home a copy is made."""
    with suppress(PermissionError):
        subprocess.run([java / "bin" / "java", "-version"], check=True, capture_output=True, cwd="/", **user)
        return java
    return Path(shutil.copytree(java, place, ignore_dangling_symlinks=True))


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


def _java(versions: range) -> Path | None:
    """Find the home of a Java of these versions, as it says itself: what PATH leads to may be a script."""
    program = shutil.which("java")
    if program is None:
        return None
    shown = subprocess.run([program, "-XshowSettings:properties", "-version"], capture_output=True, text=True)
    pairs = (line.partition(" = ") for line in shown.stderr.splitlines())
    settings = {name.strip(): value.strip() for name, _, value in pairs}
    number = settings.get("java.specification.version", "")
    return Path(settings["java.home"]) if number.isdigit() and int(number) in versions else None


if __name__ == "__main__":
    for each in (OPENSEARCH, ELASTICSEARCH):
        if each.name in sys.argv[1:] and (lacking := install(each)):
            what = f"{each.title} {each.version}"
            sys.stderr.write(f"{what} is not installed, and its tests are skipped: {lacking}\n")
