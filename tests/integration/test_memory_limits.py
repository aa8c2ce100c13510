"""The kernel kills who goes beyond the limit of its control group: a driver's JVM, a worker, the gateway."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Stack
from tests.cgroups import limited
from tests.integration.bookings import Bookings, Feed
from tests.integration.cli import Cli, runs
from tests.integration.faults import halves, process, until, up
from tests.integration.heavy_sources import counting, counts, recount, rows

pytestmark = [pytest.mark.integration, pytest.mark.long]

MIB = 2**20
CITIES = 1_000


@pytest.mark.parametrize("victim", ["jvm", "workers"])
def test_a_driver_that_the_kernel_kills_for_its_memory_goes_on_and_is_exact(
    stack: Stack, cli: Cli, tmp_path: Path, victim: str
) -> None:
    stream = Bookings(stack.kafka, cli)
    name, path = counting(stream, tmp_path)
    with Feed(stream, lambda _: range(CITIES)) as feed:
        cli("apply", "-f", path, "--wait")
        first = cli("get", name)["generation"]
        until(lambda: counts(rows(stack.kafka, name)).total() > 0)
        jvm, python = halves(stack, name)
        hit = [jvm] if victim == "jvm" else [each for each in jvm.children(recursive=True) if each != python]
        with limited(hit, 4 * MIB, settle_s=3) as killed:
            feed.order = "x" * 4_000  # what they had may be enough for more of the same
            until(lambda: killed() > 0)
            feed.order = ""
        after = cli.until(name, lambda dagger: dagger["generation"] > first)
        cli.until(name, runs)
    until(lambda: counts(rows(stack.kafka, name)).total() >= len(feed.events))
    found = counts(rows(stack.kafka, name))
    cli("delete", name, "--wait")

    assert found == recount(feed.events)
    assert after["last_error"]["reason"] == {"jvm": "OUT_OF_MEMORY", "workers": "WORKER_DIED"}[victim]


def test_a_gateway_that_the_kernel_kills_for_its_memory_is_started_again_and_knows_everything(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    stream = Bookings(stack.kafka, cli)
    name, path = counting(stream, tmp_path)
    cli("apply", "-f", path, "--wait")
    large = tmp_path / "large.yaml"
    large.write_text(path.read_text().replace("SELECT", "SELECT /*" + "x" * 3 * MIB + "*/"))
    with limited([process(stack, "gateway")], 1 * MIB) as killed:

        def is_killed() -> bool:
            cli.try_("plan", "-f", large)
            return killed() > 0

        until(is_killed)
    up(stack)
    shown = cli("get", name)
    cli("delete", name, "--wait")

    assert shown["phase"] == "RUNNING"
