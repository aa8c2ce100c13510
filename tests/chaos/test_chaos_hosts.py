"""Hosts in namespaces: what runs there is found from outside, and all of it ends when the host is killed."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.chaos.hosts import ChaosHost, explain_missing, hosts
from tests.integration.faults import until

from chassis import drivers

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(explain_missing()), reason=explain_missing())]

GREETING = b"from outside"
# It stands for a driver: it says who it is as a wrapper does, and lives until it is ended.
DRIVER = """\
import os, sys, threading
from pathlib import Path
from chassis import drivers
os.setsid()
run_dir = Path(sys.argv[1])
os.chdir(run_dir)
drivers.write(drivers.led_by(os.getpid(), run_dir, dagger="d", generation=7))
threading.Event().wait(300)
"""
CALL = "import socket, sys; print(socket.create_connection(('127.0.0.1', int(sys.argv[1])), 10).recv(99))"


@contextmanager
def greeting() -> Iterator[int]:
    """Serve what stands for a broker, on loopback; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client:
                        client.sendall(GREETING)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def within(host: ChaosHost, *words: str) -> list[str]:
    """Make the command that runs words in the namespaces of a host."""
    (init,) = host._init()
    return ["nsenter", "--target", str(init.pid), "--all", *words]


def test_a_host_reaches_the_stack_runs_drivers_and_ends_with_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = sys.executable
    monkeypatch.setattr(sys, "executable", "/bin/true")  # no scheduler: the host alone is tried
    with greeting() as port, hosts(2, tmp_path, dict(os.environ), [port]) as running:  # noqa: TID251 - handed on
        east, west = running
        called = subprocess.run(
            within(east, python, "-c", CALL, str(port)), check=True, capture_output=True, timeout=60
        )
        run_dir = east.folder / "runs" / "d" / "7"
        run_dir.mkdir(parents=True)
        driver = subprocess.Popen(within(east, python, "-c", DRIVER, str(run_dir)))
        until(lambda: bool(east.drivers()), deadline_s=60)
        (found,) = east.drivers()
        before = (east.folder / "boot-id").read_text()
        east.kill()
        driver.wait(30)
        left = drivers.members(found)
        back = running.bring_back()
        after = (east.folder / "boot-id").read_text()
        runs = [bool(host.drivers()) for host in (east, west)]

    assert called.stdout.decode().strip() == str(GREETING)
    assert (found.dagger, found.generation) == ("d", 7)
    assert (left, back, before != after, runs) == ([], ["east"], True, [False, False])
