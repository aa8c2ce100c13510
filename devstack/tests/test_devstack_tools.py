"""Tools that are compiled ahead of their installation: who comes second waits, and takes what is there."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli.errors import RefusedError
from devstack.tools import influxd
from devstack.tools import run as tools_run

HOLDER = """\
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Start a process that has the lock until its standard input ends."""
    monkeypatch.setattr(tools_run, "_stopped", threading.Event())
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def take_lock(folder: Path, waits: threading.Event) -> None:
    with tools_run.lock(folder / ".lock", lambda _: waits.set()):
        pass


def test_who_comes_second_waits_for_the_first(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    waits = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(take_lock, tmp_path, waits)
        assert waits.wait(30)
        assert not second.done()
        holder.communicate(timeout=30)

        assert second.result(30) is None


@pytest.mark.usefixtures("holder")
def test_who_waits_is_ended_with_the_installation(tmp_path: Path) -> None:
    waits = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        second = threads.submit(take_lock, tmp_path, waits)
        assert waits.wait(30)
        tools_run.stop_all()

        with pytest.raises(RefusedError, match="stopped"):
            second.result(30)


def test_what_is_installed_is_not_compiled_ahead(tmp_path: Path) -> None:
    (tmp_path / influxd.NAME).mkdir()

    influxd.build_ahead(tmp_path)

    assert [place.name for place in tmp_path.iterdir()] == [influxd.NAME]
