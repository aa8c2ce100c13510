"""A dagger on a Spark standalone cluster: master and workers of the wheel, the driver in client mode."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least, runs
from tests.integration.faults import send, until
from tests.integration.standalone import register

from chassis import pressure
from devstack.sparkcluster import MASTER, WORKER, spark_cluster
from runtime.spark import master_page

pytestmark = [pytest.mark.integration, pytest.mark.long]

ALERTED_S = 30.0
"""Seconds within which a dagger that gets no executor has an alert, and somebody is paged."""
OVERLOADED_S = 120.0
"""The same on an overloaded host, where its driver takes long to begin."""


def test_a_dagger_on_a_standalone_cluster_counts_exactly(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, cluster="standalone")
    events = spread(range(120), cities=2)

    with spark_cluster(tmp_path / "spark", 1, minutes=30) as spark:
        register(cli, stack, "standalone", spark.url, tmp_path)
        bookings.write(booking(second, city_id=city) for second, city in events)
        cli("apply", "-f", file, "--wait", "--timeout", 180)
        rows = cli.rows(name, enough=at_least(4))
        cli("delete", name, "--wait")

    assert counted(rows) == recount(events)


def test_a_dagger_that_its_master_has_forgotten_is_launched_again_and_counts_exactly(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, cluster="forgetful")
    before, after = spread(range(120), cities=2), spread(range(120, 240), cities=2)

    with spark_cluster(tmp_path / "spark", 1, minutes=30) as spark:
        register(cli, stack, "forgetful", spark.url, tmp_path)
        bookings.write(booking(second, city_id=city) for second, city in before)
        cli("apply", "-f", file, "--wait", "--timeout", 180)
        forgotten = cli("get", name)["generation"]
        spark.forget()
        bookings.write(booking(second, city_id=city) for second, city in after)
        again = cli.until(
            name, lambda dagger: runs(dagger) and dagger["generation"] > forgotten, deadline_s=300
        )
        rows = cli.rows(name, enough=at_least(8))
        cli("delete", name, "--wait")

    assert counted(rows) == recount([*before, *after])
    assert again["last_exit"]["error"]["reason"] == "NO_EXECUTORS"


def test_a_dagger_that_gets_no_executor_says_who_has_them_and_begins_when_they_are_free(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    events = spread(range(120), cities=2)
    files = [bookings.dagger(tmp_path, cluster="shared") for _ in range(2)]

    with spark_cluster(tmp_path / "spark", 1, minutes=30) as spark:
        pages = ("--spark-web-url", spark.pages, "--executors", "cores_max=1")
        register(cli, stack, "shared", spark.url, tmp_path, *pages)
        bookings.write(booking(second, city_id=city) for second, city in events)
        (first, file), (second, later) = files
        cli("apply", "-f", file, "--wait", "--timeout", 180)
        cli("apply", "-f", later)
        until(lambda: _count_applications(spark.pages) == 2)
        since = time.monotonic()
        until(lambda: _is_paged(stack, second))
        took, bound = time.monotonic() - since, OVERLOADED_S if pressure.overload() else ALERTED_S
        waits = cli("get", second)
        generation = waits["generation"]
        cli("delete", first, "--wait")
        cli.until(second, runs)
        rows = cli.rows(second, enough=at_least(4))
        ran = cli("get", second)
        cli("delete", second, "--wait")

    assert took < bound
    [alert] = waits["alerts"]
    [warning] = waits["vitals"]["warnings"]
    assert alert["condition"] == "WAITING_FOR_EXECUTORS"
    assert waits["warnings"] == ["WAITING_FOR_EXECUTORS"]
    assert (warning["code"], warning["domain"]) == ("WAITING_FOR_EXECUTORS", "EXTERNAL")
    for text in (warning["message"], alert["summary"]):
        assert f"it asks Spark master {spark.url} for 1 cores" in text
        assert f"0 of the 1 cores of its 1 workers are free: {first} has 1" in text
    assert ran["generation"] == generation
    assert counted(rows) == recount(events)


def _count_applications(pages: str) -> int:
    """Count the applications that a master knows."""
    state = master_page.read(pages)
    return len(state.applications) if state is not None else 0


def _is_paged(stack: Stack, name: str) -> bool:
    log = stack.state_dir / "logs" / "alert-receiver.log"
    return f"[daggers/{name}/waiting_for_executors]" in log.read_text()


def test_two_daggers_count_exactly_while_executors_a_worker_and_the_master_are_killed(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    daggers = [bookings.dagger(tmp_path, cluster="killed") for _ in range(2)]
    names = [name for name, _ in daggers]
    events: list[tuple[float, int]] = []

    def write_minutes(count: int) -> None:
        """Write the next so many minutes of events."""
        begin = len(events)
        events.extend(spread(range(begin, begin + 60 * count), cities=2))
        bookings.write(booking(second, city_id=city) for second, city in events[begin:])

    def read_all() -> list[list[dict[str, Any]]]:
        """Read what both have once the windows of all events are there."""
        return [cli.rows(name, enough=at_least(len(events) // 30)) for name in names]

    def generations() -> list[int]:
        return [cli("get", name)["generation"] for name in names]

    with spark_cluster(tmp_path / "spark", 2, minutes=30) as spark:
        pages = ("--spark-web-url", spark.pages, "--executors", "cores_max=1")
        register(cli, stack, "killed", spark.url, tmp_path, *pages)
        write_minutes(2)
        for _, file in daggers:
            cli("apply", "-f", file, "--wait", "--timeout", 180)
        read_all()
        first = generations()

        send(signal.SIGKILL, *spark.executors())
        lost = [cli.until(name, lambda dagger: "EXECUTORS_LOST" in str(dagger)) for name in names]
        write_minutes(2)
        read_all()

        spark.kill(WORKER.format(0))  # its dagger has to wait: the other one has the only core that is left
        write_minutes(2)
        until(lambda: any("WAITING_FOR_EXECUTORS" in cli("get", name)["warnings"] for name in names))
        spark.start_worker(0)
        spark.wait()
        read_all()

        spark.kill(MASTER)
        write_minutes(2)
        read_all()  # executors go on without it
        spark.start_master()
        spark.wait()
        until(lambda: len(spark.executors()) == 2)
        send(signal.SIGKILL, *spark.executors())  # only a master that knows the daggers gives them others
        write_minutes(2)
        rows = read_all()
        last = generations()
        for name in names:
            cli("delete", name, "--wait")

    assert [counted(each) for each in rows] == [recount(events)] * 2
    assert last == first
    assert all("killed by SIGKILL, by whom is unknown" in str(each) for each in lost)


def test_a_dagger_that_moves_to_a_cluster_and_back_keeps_its_windows_and_computes_on_all_cores(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, idle_timeout="1h", state="disk")
    text = file.read_text()
    # 90 seconds each: a window is open, half of it read, whenever the dagger moves
    parts = [spread(range(begin, begin + 90), cities=5) for begin in range(0, 360, 90)]
    reasons = []

    def write(part: list[tuple[float, int]]) -> None:
        bookings.write(booking(second, city_id=city) for second, city in part)

    def tasks() -> int:
        """Count the partitions that state has in the newest checkpoint."""
        found = stack.state_dir.glob(f"**/{name}-*/checkpoints/*/offsets/*")
        batches = (each for each in found if each.name.isdigit())
        newest = max(batches, key=lambda each: (each.stat().st_mtime_ns, int(each.name)))
        metadata = json.loads(newest.read_text().splitlines()[1])
        return int(metadata["conf"]["spark.sql.shuffle.partitions"])

    with spark_cluster(tmp_path / "spark", 2, minutes=30) as spark:
        register(cli, stack, "moved", spark.url, tmp_path, "--spark-web-url", spark.pages)
        write(parts[0])
        cli("apply", "-f", file, "--wait", "--timeout", 180)
        cli.rows(name, enough=at_least(5))
        numbers = [tasks()]
        for cluster, part in (("moved", parts[1]), ("local", parts[2])):
            file.write_text(text.replace("cluster: local", f"cluster: {cluster}"))
            reasons.append(cli("plan", "-f", file)["reason"])
            cli("apply", "-f", file, "--wait", "--timeout", 180)
            before = len(cli.rows(name, enough=at_least(5)))
            write(part)
            cli.rows(name, enough=at_least(before + 5))
            numbers.append(tasks())
        events = [event for part in parts[:3] for event in part]
        write([*parts[3], (1000, 1)])  # the last one closes all windows before it
        rows = cli.rows(name, enough=at_least(5 * 6))
        cli("delete", name, "--wait")

    assert counted(rows) == recount([*events, *parts[3]])
    assert numbers == [1, 2, 1]
    assert ["from 1 partition into 2 partitions" in reasons[0], "from 2 partitions into 1" in reasons[1]] == [
        True
    ] * 2
