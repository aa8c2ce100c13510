"""A dagger on a Spark standalone cluster: master and worker of the wheel, the driver in client mode."""

from pathlib import Path

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least, runs
from tests.integration.standalone import register, standalone

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_a_dagger_on_a_standalone_cluster_counts_exactly(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(tmp_path, cluster="standalone")
    events = spread(range(120), cities=2)

    with standalone(tmp_path) as spark:
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

    with standalone(tmp_path) as spark:
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

    with standalone(tmp_path) as spark:
        pages = ("--spark-web-url", spark.pages, "--executors", "cores_max=1")
        register(cli, stack, "shared", spark.url, tmp_path, *pages)
        bookings.write(booking(second, city_id=city) for second, city in events)
        (first, file), (second, later) = files
        cli("apply", "-f", file, "--wait", "--timeout", 180)
        cli("apply", "-f", later)
        waits = cli.until(second, lambda dagger: f"{first} has 1" in str(dagger))
        generation = waits["generation"]
        cli("delete", first, "--wait")
        cli.until(second, runs)
        rows = cli.rows(second, enough=at_least(4))
        ran = cli("get", second)
        cli("delete", second, "--wait")

    assert "WAITING_FOR_EXECUTORS" in waits["warnings"]
    assert f"0 of the 1 cores of its 1 workers are free: {first} has 1" in str(waits)
    assert ran["generation"] == generation
    assert counted(rows) == recount(events)
