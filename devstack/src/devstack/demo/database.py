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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cli.errors import RefusedError
from devstack.tools import postgres

USER = "daggers"


@contextmanager
def serving(tools: Path) -> Iterator[str]:
    """Start a server; yield its URL, without the name of a database. Raises: RefusedError if none can start.

    tools: the folder of the tools.
    """
    binaries = postgres.programs(tools)
    if binaries is None:
        raise RefusedError("there is no PostgreSQL on this machine: run make postgres")
    home = Path(tempfile.mkdtemp(prefix="daggers-postgres-"))
    user = unprivileged_user()
    if user:
        shutil.chown(home, user["user"])
        if (wheel := tools / postgres.NAME) in binaries.parents:  # that user may not come to where it is
            copied = shutil.copytree(wheel, home / "programs", symlinks=True)
            binaries = copied / binaries.relative_to(wheel)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*command: str) -> None:
        subprocess.run(command, check=True, cwd=home, capture_output=True, timeout=60, **user)

    data, log, word = str(home / "data"), str(home / "log"), home / "password"
    password = secrets.token_hex(16)
    word.write_text(password)
    if user:
        shutil.chown(word, user["user"])
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


def unprivileged_user() -> dict[str, Any]:
    """Return options of `subprocess` by which root starts it as another user; none for other users.

    Root starts it as the user that Debian's package makes, else as nobody.
    """
    if os.geteuid() != 0:
        return {}
    name = "nobody"
    with suppress(KeyError):
        name = pwd.getpwnam("postgres").pw_name
    return {"user": name, "group": pwd.getpwnam(name).pw_gid, "extra_groups": ()}
