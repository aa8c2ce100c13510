"""A real PostgreSQL server of a test run's own.

`python -m tests.postgres` installs one, once, where the machine has none: so does `make test`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.console import Console

from cli.errors import RefusedError
from cli.output.progress import Steps
from devstack.demo import database
from devstack.settings import StackSettings
from devstack.tools.install import install_postgres


@contextmanager
def serving() -> Iterator[str]:
    """Its URL, without the name of a database. Skips the test where the machine has no server to start."""
    with ExitStack() as server:
        try:
            url = server.enter_context(database.serving(StackSettings().tools_dir))
        except RefusedError as problem:
            pytest.skip(problem.message)
        yield url


@contextmanager
def stopped(url: str) -> Iterator[None]:
    """A server of `serving` is stopped inside the block, and is there again behind it, with what it had."""
    with psycopg.connect(f"{url}/postgres") as connection:
        [(data,)] = connection.execute("SHOW data_directory")
    user = database.unprivileged_user()
    server, options = (Path(data) / "postmaster.opts").read_text().split(maxsplit=1)

    def control(*words: str) -> None:
        # Not its output: the server would keep the pipe open.
        command = [Path(server).with_name("pg_ctl"), "-D", data, "-w", *words]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(command, check=True, cwd=Path(data).parent, timeout=60, **quiet, **user)

    control("-m", "immediate", "stop")
    try:
        yield
    finally:
        control("-l", str(Path(data).parent / "log"), "-o", options, "start")


if __name__ == "__main__":
    try:
        install_postgres(StackSettings().tools_dir, Steps(Console(stderr=True)))
    except RefusedError as problem:
        sys.stderr.write(f"PostgreSQL is not installed, and its tests are skipped: {problem.message}\n")
