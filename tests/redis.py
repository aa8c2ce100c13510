"""A real Redis server of a test run's own, on loopback, with a password. It ends with the run."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NotThere

_DEADLINE_S = 60


@contextmanager
def serving(*options: str) -> Iterator[tuple[str, str]]:
    """Its address and its password. Skips the test where the machine has no server to start."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("there is no Redis on this machine (Debian: apt-get install redis-server)")
    home = Path(tempfile.mkdtemp(prefix="daggers-redis-"))
    password = secrets.token_hex(16)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = home / "redis.conf"
    told.write_text(f'bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {home}\nsave ""\n')
    log = (home / "log").open("wb")
    server = subprocess.Popen([binary, str(told), *options], stdout=log, stderr=log)
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
