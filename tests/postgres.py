"""A real PostgreSQL server of a test run's own, on loopback, with a password."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

USER, PASSWORD = "tester", "a-password-of-tests"


@contextmanager
def serving() -> Iterator[str]:
    """Its URL, without the name of a database. Skips the test where the machine has no server to start."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="daggers-postgres-"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        shutil.chown(home, "postgres", "postgres")
        user = {"user": "postgres", "group": "postgres", "extra_groups": ()}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=home, capture_output=True, timeout=60, **user)

    data, log, word = str(home / "data"), str(home / "log"), home / "password"
    word.write_text(PASSWORD)
    word.chmod(0o644)
    access = ("-A", "scram-sha-256", f"--pwfile={word}")
    run(str(binaries / "initdb"), "-D", data, "-U", USER, *access, "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off"
    run(str(binaries / "pg_ctl"), "-D", data, "-l", log, "-w", "-o", options, "start")
    try:
        yield f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}"
    finally:
        run(str(binaries / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)


def _binaries() -> Path | None:
    """Where initdb and pg_ctl are: on the path, or where Debian keeps them."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places and (places[-1] / "pg_ctl").exists() else None
