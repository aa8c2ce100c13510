"""The kernel kills who goes beyond the limit of its control group: a driver's JVM, a worker, the gateway."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from conftest import Stack
from tests.cgroups import limited
from tests.integration.bookings import NOON, Bookings, booking
from tests.integration.cli import Cli, runs
from tests.integration.faults import halves, process, until, up
from tests.integration.test_heavy_sources import counting, counts, recount, rows

pytestmark = [pytest.mark.integration, pytest.mark.long]

MIB = 2**20
CITIES = 1_000


@contextmanager
def fed(stream: Bookings) -> Iterator[list[tuple[float, int]]]:
    """A thousand cities have a booking each second of event time, five times a second; what was written."""
    events: list[tuple[float, int]] = []
    enough = threading.Event()

    def feed() -> None:
        for second in itertools.count():
            stream.write(booking(second, city_id=city) for city in range(CITIES))
            events.extend((NOON + second, city) for city in range(CITIES))
            if enough.wait(0.2):
                return

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield events
    finally:
        enough.set()
        feeder.join()


@pytest.mark.parametrize("victim", ["jvm", "workers"])
def test_a_driver_that_the_kernel_kills_for_its_memory_is_launched_again_and_exact(
    stack: Stack, cli: Cli, tmp_path: Path, victim: str
) -> None:
    stream = Bookings(stack.kafka, cli)
    name, path = counting(stream, tmp_path)
    with fed(stream) as events:
        cli("apply", "-f", path, "--wait")
        first = cli("get", name)["generation"]
        until(lambda: counts(rows(stack.kafka, name)).total() > 0)
        jvm, python = halves(stack, name)
        hit = [jvm] if victim == "jvm" else [each for each in jvm.children(recursive=True) if each != python]
        with limited(hit, 8 * MIB):
            after = cli.until(name, lambda dagger: dagger["generation"] > first)
        cli.until(name, lambda dagger: runs(dagger) and dagger["generation"] > first)
    until(lambda: counts(rows(stack.kafka, name)).total() >= len(events))
    found = counts(rows(stack.kafka, name))
    cli("delete", name, "--wait")

    assert found == recount(events)
    assert after["last_error"]["reason"] in ("KILLED", "JVM_GONE", "WORKER_DIED")


def test_a_gateway_that_the_kernel_kills_for_its_memory_is_started_again_and_knows_everything(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    stream = Bookings(stack.kafka, cli)
    name, path = counting(stream, tmp_path)
    cli("apply", "-f", path, "--wait")
    gateway = process(stack, "gateway")
    with limited([gateway], 2 * MIB):

        def is_gone() -> bool:
            cli.try_("list")
            return not gateway.is_running() or gateway.status() == psutil.STATUS_ZOMBIE

        until(is_gone)
    up(stack)
    shown = cli("get", name)
    cli("delete", name, "--wait")

    assert shown["phase"] == "RUNNING"
