"""Previews that take all they can get: real bombs on the real stack, and what else is there is unharmed."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Stack
from tests.integration.bookings import Bookings, booking
from tests.integration.cli import DAGGERS, Cli, runs

pytestmark = [pytest.mark.integration, pytest.mark.long]
# Each record keeps a megabyte until the window closes: twice what the heap of the usual size has.
MEMORY = """\
SELECT CollectArray(REPEAT('0123456789', 100000)) AS texts,
       TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM data_stream GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND)"""
# Each record meets all others.
PAIRS = """\
SELECT a.order_number AS left_order, b.order_number AS right_order, a.rowtime
FROM data_stream AS a JOIN other AS b ON a.city_id = b.city_id
AND b.rowtime BETWEEN a.rowtime - INTERVAL '1' HOUR AND a.rowtime + INTERVAL '1' HOUR"""


def bomb(folder: Path, bookings: Bookings, sql: str) -> Path:
    """The file of a dagger that nobody should apply."""
    tables = ["data_stream", "other"] if "other" in sql else ["data_stream"]
    streams = [{"table": table, "stream": bookings.name} for table in tables]
    content = {"name": "bomb", "team": "it", "cluster": "local", "sql": sql, "streams": streams}
    file = folder / "bomb.yaml"
    file.write_text(yaml.safe_dump({**content, "sinks": [{"log": {"limit": 1}}]}))
    return file


@contextmanager
def beside(cli: Cli, folder: Path, bookings: Bookings) -> Iterator[Path]:
    """A dagger that runs and is the same launch behind the block; and its preview, which is right then."""
    name, file = bookings.dagger(folder, sinks=[{"log": {"limit": 1000}}])
    cli("apply", "-f", file, "--wait")
    generation = cli.until(name, runs)["generation"]
    yield file
    after = cli.try_("preview", file, "--last-records", "100")
    dagger = cli("get", name)
    cli("delete", name, "--wait")

    assert after.code == 0, after
    assert json.loads(after.out.splitlines()[-1])["done"]["records"] == 100
    assert (dagger["phase"], dagger["generation"]) == ("RUNNING", generation)


def test_a_preview_that_takes_all_memory_is_told_so_and_harms_nobody(
    cli: Cli, tmp_path: Path, stack: Stack
) -> None:
    bookings = Bookings(stack.kafka, cli)
    bookings.write(booking(1, order=str(number)) for number in range(1600))
    with beside(cli, tmp_path, bookings):
        outcome = cli.try_("preview", bomb(tmp_path, bookings, MEMORY), "--last-records", "1600")

    assert outcome.code in (1, 3), outcome  # 3 where the kernel or the JVM ended the process
    assert "OUT_OF_MEMORY" in outcome.out or "PREVIEW_HOST_DIED" in outcome.out


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_preview_of_all_pairs_ends_when_its_caller_does(
    cli: Cli, tmp_path: Path, stack: Stack, how: signal.Signals
) -> None:
    bookings = Bookings(stack.kafka, cli)
    bookings.write(booking(second / 100, order=str(second)) for second in range(20_000))
    with beside(cli, tmp_path, bookings):
        file = bomb(tmp_path, bookings, PAIRS)
        command = [
            DAGGERS,
            "preview",
            file,
            "--last-records",
            "20000",
            "--state-dir",
            stack.state_dir,
            "-o",
            "json",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as caller:
            assert caller.stdout is not None
            said: dict[str, Any] = {}
            while said.get("progress", {}).get("phase") != "reading":
                said = json.loads(caller.stdout.readline())
            caller.send_signal(how)


def test_a_preview_of_all_pairs_ends_by_its_limit_of_time(cli: Cli, tmp_path: Path, stack: Stack) -> None:
    bookings = Bookings(stack.kafka, cli)
    bookings.write(booking(second / 100, order=str(second)) for second in range(20_000))
    with beside(cli, tmp_path, bookings):
        outcome = cli.try_("preview", bomb(tmp_path, bookings, PAIRS), "--last-records", "20000")

    assert outcome.code == 0, outcome
    assert json.loads(outcome.out.splitlines()[-1])["done"]["reason"] == "time_limit"
