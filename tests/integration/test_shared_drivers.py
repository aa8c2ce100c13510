"""Daggers of one team in one driver process: each is edited and stopped alone, and its death loses no row."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import Stack
from tests.integration.bookings import COUNT_SQL, Bookings, booking, counted, recount, spread
from tests.integration.cli import DEADLINE_S, Cli, at_least

from chassis import lastword

pytestmark = [pytest.mark.integration, pytest.mark.long]
EVENTS = spread((second / 2 for second in range(720)), cities=3)


def runs_again(before: dict[str, Any], dagger: dict[str, Any]) -> bool:
    """Tell whether a later launch of a dagger runs."""
    return dagger["phase"] == "RUNNING" and dagger["generation"] > before["generation"]


def wait_for_words(pid: int, *daggers: str) -> None:
    """Wait until a process is in steps for these daggers and for no others, over three looks."""
    home, found = Path(psutil.Process(pid).cwd()), list[set[str]]()
    end = time.monotonic() + DEADLINE_S
    while found[-3:] != [set(daggers)] * 3:
        assert time.monotonic() < end, found[-10:]
        found.append({word.dagger for word in lastword.read(home)})
        time.sleep(1)  # polling a mapped file; bounded by the deadline


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
    wait_for_words(beside[1]["driver"]["pid"])  # who is computing is a suspect, and its attempt counts
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


def test_a_dagger_that_is_computing_in_two_deaths_of_its_process_is_set_alone(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    # The pattern takes hours for one record. The process dies once whole, once by its JVM.
    bookings, poisoned = Bookings(stack.kafka, cli), Bookings(stack.kafka, cli)
    shared = {"start": "latest", "isolation": "shared", "idle_timeout": "30m"}
    files = [bookings.dagger(tmp_path, **shared) for _ in range(2)]
    sql = COUNT_SQL.replace("GROUP BY", "AND NOT REGEXP(order_number, '.*foo.*bar') GROUP BY")
    files.append(poisoned.dagger(tmp_path, **shared, sql=sql))
    for _, file in files:
        cli("apply", "-f", file, "--wait")
    *names, culprit = [name for name, _ in files]
    before = [cli("get", name) for name in (*names, culprit)]
    values = [booking(second, city_id=city) for second, city in EVENTS]
    bookings.write(values[:400])
    poisoned.write([booking(1, order="foo" * 200_000)])

    pid = before[0]["driver"]["pid"]
    wait_for_words(pid, culprit)
    os.killpg(pid, signal.SIGKILL)
    once = [
        cli.until(name, lambda dagger, old=old: runs_again(old, dagger))
        for name, old in zip(names, before[:2], strict=True)
    ]
    pid_of_second = once[0]["driver"]["pid"]
    wait_for_words(pid_of_second, culprit)
    (jvm,) = psutil.Process(pid_of_second).children()
    jvm.kill()
    twice = [
        cli.until(name, lambda dagger, old=old: runs_again(old, dagger))
        for name, old in zip(names, once, strict=True)
    ]
    pid_of_third = twice[0]["driver"]["pid"]
    alone = cli.until(culprit, lambda dagger: dagger["driver"]["pid"] not in (0, None, pid, pid_of_second))
    bookings.write([*values[400:], booking(10_000, status="CANCELLED")])
    rows = [cli.rows(name, enough=at_least(18)) for name in names]
    after = [cli("get", name) for name in names]
    cli("stop", culprit, "--now", "--wait")
    for name in (*names, culprit):
        cli("delete", name, "--wait")

    assert {dagger["driver"]["pid"] for dagger in before} == {pid}
    assert {dagger["driver"]["pid"] for dagger in once} == {pid_of_second}
    assert {dagger["driver"]["pid"] for dagger in twice} == {pid_of_third}
    assert alone["driver"]["pid"] != pid_of_third
    assert alone["company"]["daggers"] == []
    assert alone["company"]["alone_because"].startswith("two processes that it shared died")
    assert [dagger["attempt"] for dagger in after] == [0, 0]
    assert [counted(each) for each in rows] == [recount(EVENTS)] * 2
