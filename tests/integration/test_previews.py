"""Previews on the real stack: the rows of a dagger before there is one, and a process that harms nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import DAGGERS, DEADLINE_S, Cli, at_least, runs

from chassis import processes

pytestmark = pytest.mark.integration


def previewed(cli: Cli, *words: object) -> list[dict[str, Any]]:
    """Every document of a preview."""
    outcome = cli.try_("preview", *words)
    assert outcome.code == 0, outcome
    return [json.loads(line) for line in outcome.out.splitlines()]


def table(documents: list[dict[str, Any]], *, partial: bool) -> Counter[tuple[str, str]]:
    """(window end, city) -> count."""
    rows = [document["row"] for document in documents if "row" in document and document["partial"] == partial]
    return Counter(
        {(row["window_timestamp"], str(row["tag_city_id"])): row["num_of_bookings"] for row in rows}
    )


def workers(stack: Stack) -> Iterator[int]:
    """The processes that preview."""
    for process in processes.everybody():
        where = processes.working_directory(process.pid)
        if where.startswith(str(stack.state_dir)) and "/previews/" in where:
            yield process.pid


def test_a_preview_shows_the_rows_that_the_dagger_then_writes(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    bookings = Bookings(stack.kafka, cli, partitions=2)
    name, file = bookings.dagger(tmp_path, sinks=[{"log": {"limit": 1000}}])
    events = spread([s / 4 for s in range(4 * 170)], cities=3)
    for number, (second, city) in enumerate(events):
        bookings.produce(booking(second, city_id=city), partition=number % 2)
    bookings.produce(b"\xff\xff\xff")
    bookings.flush()

    told = previewed(cli, file, "--last", "1h")
    again = previewed(cli, file, "--last-records", "100000")
    nothing = cli.try_("get", name).code
    cli("apply", "-f", file, "--wait")
    rows = cli.rows(name, enough=at_least(9))
    cli("delete", name, "--wait")

    expected = recount(events)
    assert table(told, partial=False) + table(told, partial=True) == expected == counted(rows)
    assert table(again, partial=False) == table(told, partial=False)
    assert len(table(told, partial=False)) == 6
    done: Mapping[str, Any] = told[-1]["done"]
    assert (done["reason"], done["records"], done["quarantined"]) == ("end_of_range", 680, {"MALFORMED": 1})
    assert done["examples"][0]["value_hex"] == "ffffff"
    assert done["first_row_ms"] <= done["total_ms"]
    assert nothing == 1
    phases = [each["progress"]["phase"] for each in again if "progress" in each]
    assert "starting" not in phases  # the process of the first is there


@pytest.mark.long
def test_what_comes_is_previewed_while_it_comes(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    bookings = Bookings(stack.kafka, cli)
    _, file = bookings.dagger(tmp_path)
    command = [DAGGERS, "preview", file, "--live", "20s", "--state-dir", stack.state_dir, "-o", "json"]
    before = [booking(second) for second in range(60)]
    bookings.write(before)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        documents = []
        for line in process.stdout:
            documents.append(json.loads(line))
            if documents[-1].get("progress", {}).get("phase") == "reading" and before:
                before = []
                bookings.write(booking(second) for second in range(60, 200))

    assert documents[-1]["done"]["records"] == 140
    assert {each["progress"]["records_total"] for each in documents if "progress" in each} == {0}
    assert sum(table(documents, partial=False).values()) == 120
    assert sum(table(documents, partial=True).values()) == 20


@pytest.mark.long
@pytest.mark.parametrize("harm", [signal.SIGKILL, signal.SIGSTOP])
def test_a_process_that_is_killed_or_hangs_harms_no_dagger_and_no_other_preview(
    stack: Stack, cli: Cli, tmp_path: Path, harm: signal.Signals
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, sinks=[{"log": {"limit": 1000}}])
    bookings.write(booking(second) for second in range(100))
    cli("apply", "-f", file, "--wait")
    generation = cli.until(name, runs)["generation"]
    previewed(cli, file, "--last-records", "1000")
    command = [DAGGERS, "preview", file, "--live", "50s", "--state-dir", stack.state_dir, "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harmed:
        assert harmed.stdout is not None
        harmed.stdout.readline()
        pids = list(workers(stack))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, harm)
        harmed.send_signal(signal.SIGINT)
    after = previewed(cli, file, "--last-records", "1000")
    end = time.monotonic() + DEADLINE_S
    while set(pids) & set(workers(stack)):
        assert time.monotonic() < end, "what hangs is not killed"
        time.sleep(0.2)
    dagger = cli("get", name)
    cli("delete", name, "--wait")

    assert pids
    assert after[-1]["done"]["records"] == 100
    assert (dagger["phase"], dagger["generation"]) == ("RUNNING", generation)
