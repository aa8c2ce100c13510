"""A PostgreSQL server of a demo's or a test run's own, on loopback, with a password. It ends with them."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.errors import RefusedError

USER = "daggers"


@contextmanager
def serving() -> Iterator[str]:
    """Its URL, without the name of a database. Raises: RefusedError where no server can be started."""
    binaries = _binaries()
    if binaries is None:
        raise RefusedError("there is no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    home = Path(tempfile.mkdtemp(prefix="daggers-postgres-"))
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            raise RefusedError("PostgreSQL does not run as root, and there is no user postgres") from None
        shutil.chown(home, "postgres", "postgres")
        user = {"user": "postgres", "group": "postgres", "extra_groups": ()}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=home, capture_output=True, timeout=60, **user)

    data, log, word = str(home / "data"), str(home / "log"), home / "password"
    password = secrets.token_hex(16)
    word.write_text(password)
    if user:
        shutil.chown(word, "postgres", "postgres")
    word.chmod(0o600)
    access = ("-A", "scram-sha-256", f"--pwfile={word}")
    run(str(binaries / "initdb"), "-D", data, "-U", USER, *access, "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -c fsync=off"
    run(str(binaries / "pg_ctl"), "-D", data, "-l", log, "-w", "-o", options, "start")
    try:
        yield f"postgresql://{USER}:{password}@127.0.0.1:{port}"
    finally:
        run(str(binaries / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)


def _binaries() -> Path | None:
    """Where initdb and pg_ctl are: on the path, or where Debian keeps them."""
    initdb = shutil.which("initdb")
    places = [Path(initdb).parent] if initdb else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places and (places[-1] / "pg_ctl").exists() else None
