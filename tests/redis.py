"""A real Redis server of a test run's own, on loopback, with a password. It ends with the run.

`python -m tests.redis` installs one, once, where the machine has none: so does `make test`. It is Redis's own
program, 6.2 with TLS, in an archive of Maven's repository.
"""

from __future__ import annotations

import platform
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NotThere
from tests.maven import LackingError, fetched

_DEADLINE_S = 60
_ARTIFACT = "com.github.codemonstur:embedded-redis:1.4.3:jar"
_DIGEST = "ffbc63265c60d25dee453d6f656b527d98200d98657c6a0ab4dec4ea2c3a5cd6"
_PROGRAMS = {"x86_64": "redis-server-6.2.6-v5-linux-amd64", "aarch64": "redis-server-6.2.7-linux-arm64"}
"""In the archive, by the machine's architecture."""
_HOME = Path(sys.prefix) / "share" / "daggers" / "redis-6.2"


def install() -> str:
    """Put one where tests look for it. Answers what is missing on this machine; empty when it has one."""
    if _program() is not None:
        return ""
    kind = platform.machine() if platform.system() == "Linux" else platform.system()
    if kind not in _PROGRAMS:
        return f"there is none for {kind}"
    _HOME.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_HOME.parent) as made:
        try:
            archive = fetched(_ARTIFACT, _DIGEST, Path(made))
        except LackingError as why:
            return str(why)
        unpacked = Path(made) / "redis"
        with zipfile.ZipFile(archive) as packed:
            program = Path(packed.extract(_PROGRAMS[kind], unpacked)).rename(unpacked / "redis-server")
        program.chmod(0o755)
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        if told.returncode != 0:  # it needs OpenSSL 3
            return f"it does not run here: {told.stderr.strip()}"
        with suppress(OSError):  # a run beside this one was faster
            unpacked.rename(_HOME)
    return ""


def _program() -> str | None:
    """The machine's own, or the one that was installed here."""
    own = _HOME / "redis-server"
    return shutil.which("redis-server") or (str(own) if own.exists() else None)


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, str]]:
    """Its address and its password. Skips the test where the machine has no server to start."""
    program = _program()
    if program is None:
        pytest.skip("no Redis on this machine: python -m tests.redis (Debian: apt-get install redis-server)")
    home = Path(tempfile.mkdtemp(prefix="daggers-redis-"))
    password = secrets.token_hex(16)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = home / "redis.conf"
    told.write_text(f'bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {home}\nsave ""\n')
    log = (home / "log").open("wb")
    server = subprocess.Popen([program, str(told), *options], stdout=log, stderr=log)
    try:
        _wait(server, port, password, home / "log")
        yield f"127.0.0.1:{port}", password
    finally:
        server.kill()
        server.wait()
        log.close()
        shutil.rmtree(home, ignore_errors=True)


def client(address: str, password: str) -> Redis:
    """Somebody who looks at what is there."""
    host, _, port = address.partition(":")
    return Redis(host, int(port), password=password, decode_responses=True)


def _wait(server: subprocess.Popen[bytes], port: int, password: str, log: Path) -> None:
    deadline = time.monotonic() + _DEADLINE_S
    with client(f"127.0.0.1:{port}", password) as asking:
        while not _answers(asking):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)  # polling a server; bounded by the deadline


def _answers(asking: Redis) -> bool:
    try:
        return bool(asking.ping())
    except NotThere:
        return False


if __name__ == "__main__" and (lacking := install()):
    sys.stderr.write(f"Redis is not installed, and its tests are skipped: {lacking}\n")
