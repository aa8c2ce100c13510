"""A real PostgreSQL server of a test run's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.errors import RefusedError
from devstack.demo import database


@contextmanager
def serving() -> Iterator[str]:
    """Its URL, without the name of a database. Skips the test where the machine has no server to start."""
    with ExitStack() as server:
        try:
            url = server.enter_context(database.serving())
        except RefusedError as problem:
            pytest.skip(problem.message)
        yield url


@contextmanager
def stopped(url: str) -> Iterator[None]:
    """A server of `serving` is stopped inside the block, and is there again behind it, with what it had."""
    with psycopg.connect(f"{url}/postgres") as connection:
        [(data,)] = connection.execute("SHOW data_directory")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": "postgres", "group": "postgres", "extra_groups": ()}
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
