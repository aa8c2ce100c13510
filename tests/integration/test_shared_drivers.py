"""Daggers of one team in one driver process: each is edited and stopped alone, and its death loses no row."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least

pytestmark = [pytest.mark.integration, pytest.mark.long]
EVENTS = spread((second / 2 for second in range(720)), cities=3)


def runs_again(before: dict[str, Any], dagger: dict[str, Any]) -> bool:
    """Tell whether a later launch of a dagger runs."""
    return dagger["phase"] == "RUNNING" and dagger["generation"] > before["generation"]


def test_three_daggers_share_a_process_that_dies_and_all_rows_are_exact(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    # Nothing is late while all of them are started anew; the last windows end by a record far ahead.
    shared = {"start": "latest", "isolation": "shared", "idle_timeout": "30m"}
    files = [bookings.dagger(tmp_path, **shared) for _ in range(3)]
    for _, file in files:
        cli("apply", "-f", file, "--wait")
    names = [name for name, _ in files]
    started = [cli("get", name) for name in names]
    values = [booking(second, city_id=city) for second, city in EVENTS]

    bookings.write(values[:400])
    cli("stop", names[0], "--wait")
    edited = files[1][1]
    edited.write_text(edited.read_text().replace("trigger: 1s", "trigger: 2s"))
    cli("apply", "-f", edited, "--wait")
    beside = [cli("get", name) for name in names[1:]]
    os.killpg(beside[1]["driver"]["pid"], signal.SIGKILL)
    bookings.write(values[400:])
    cli("start", names[0], "--wait")
    after = [
        cli.until(name, lambda dagger, old=old: runs_again(old, dagger))
        for name, old in zip(names, [started[0], *beside], strict=True)
    ]
    bookings.write([booking(10_000, status="CANCELLED")])
    rows = [cli.rows(name, enough=at_least(18)) for name in names]
    for name in names:
        cli("delete", name, "--wait")

    assert len({dagger["driver"]["pid"] for dagger in started}) == 1
    assert started[2]["company"] == {"daggers": sorted(names[:2]), "alone_because": None}
    assert {dagger["driver"]["pid"] for dagger in beside} == {started[0]["driver"]["pid"]}
    assert len({dagger["driver"]["pid"] for dagger in after}) == 1
    assert [dagger["attempt"] for dagger in after] == [0, 0, 0]
    assert [counted(each) for each in rows] == [recount(EVENTS)] * 3
