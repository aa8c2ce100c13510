"""The sink `postgres` behind pgbouncer, whose transactions of one client run in sessions of any."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from services.runtime.tests.sink_cases import postgres as postgres_case
from services.runtime.tests.sink_contract import target
from services.runtime.tests.sink_postgres_faults import MINUTE, Table

from daggerspec.sinks import postgres as kind
from runtime import sinks
from runtime.errors import TemporaryError

pytestmark = [pytest.mark.integration, pytest.mark.long]
BOUNCER = shutil.which("pgbouncer", path=f"{os.defpath}:/usr/sbin:/usr/local/sbin")
SETTINGS = """\
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = plain
auth_file = {users}
pool_mode = transaction
{ignored}
default_pool_size = {sessions}
max_client_conn = 100
logfile = {log}
pidfile = {pid}
"""


@contextmanager
def bouncing(server: str, folder: Path, sessions: int, ignored: str = "") -> Iterator[int]:
    """The port of a pgbouncer before a server, in transaction mode. Skips where there is none."""
    if BOUNCER is None:
        pytest.skip("there is no pgbouncer (Debian: apt-get install pgbouncer)")
    url, home = urlsplit(server), folder / "pgbouncer"
    home.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = free.getsockname()[1]
    (home / "users").write_text(f'"{url.username}" "{url.password}"\n')
    places = {"users": home / "users", "log": home / "log", "pid": home / "pid"}
    text = SETTINGS.format(
        host=url.hostname, port=url.port, own=own, sessions=sessions, ignored=ignored, **places
    )
    (home / "ini").write_text(text)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:  # it does not run as root
        user = {"user": "postgres", "group": "postgres", "extra_groups": ()}
        for each in [home, *home.iterdir()]:
            shutil.chown(each, "postgres", "postgres")
        for above in home.parents:
            if above.owner() == "root" and str(above).startswith("/tmp/"):
                above.chmod(above.stat().st_mode | 0o011)
    command, quiet = [BOUNCER, str(home / "ini")], {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, **quiet, **user) as process:
        try:
            end = time.monotonic() + 10
            while True:
                try:
                    socket.create_connection(("127.0.0.1", own)).close()
                    break
                except OSError:
                    assert time.monotonic() < end, (home / "log").read_text()
                    time.sleep(0.05)  # polling a process that starts; bounded
            yield own
        finally:
            process.terminate()


@pytest.mark.parametrize("sessions", [1, 3])
def test_rows_are_there_once_by_whichever_session_they_come(
    postgres: str, tmp_path: Path, sessions: int
) -> None:
    resolved, database = postgres_case.sink(postgres, tmp_path)
    with bouncing(postgres, tmp_path, sessions, "ignore_startup_parameters = options") as port:
        table = Table(postgres_case.at(resolved, port))
        sinks.check(target("d", table.resolved))
        for number in range(12):  # more often than a statement takes to be prepared
            rows = {(MINUTE, f"city {each}"): number * 100 + each for each in range(40)}
            assert table.write(rows, batch_id=number) == 0
            assert table.write(rows, batch_id=number) == 0  # and again, as after a crash
        refused = table.write({(MINUTE, "with \0"): 1, (MINUTE, "fine"): 2}, batch_id=12)
    with psycopg.connect(database) as connection:
        rows = connection.execute(f"SELECT tag_city, n FROM {kind.table(resolved.sink.postgres)}")
        found = dict(rows.fetchall())

    assert refused == 1
    assert found == {**{f"city {each}": 1100 + each for each in range(40)}, "fine": 2}


def test_a_pooler_that_takes_no_options_is_told_as_such(postgres: str, tmp_path: Path) -> None:
    resolved, _ = postgres_case.sink(postgres, tmp_path)
    with bouncing(postgres, tmp_path, 1) as port, pytest.raises(TemporaryError) as waits:
        Table(postgres_case.at(resolved, port)).write({(MINUTE, "a"): 1})

    assert "ignore_startup_parameters = options" in waits.value.error.detail
