"""The kernel kills who goes beyond the limit of its control group: a driver's JVM, a worker, the gateway."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

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


class Feed:
    """A thousand cities have a booking each second of event time, five times a second."""

    def __init__(self, stream: Bookings) -> None:
        self.stream = stream
        self.events: list[tuple[float, int]] = []
        """What was written: when, and the city."""
        self.number = "short"
        """The bookings' order number."""
        self._enough = threading.Event()
        self._feeder = threading.Thread(target=self._feed)

    def _feed(self) -> None:
        for second in itertools.count():
            number = self.number
            self.stream.write(booking(second, city_id=city, order=number) for city in range(CITIES))
            self.events.extend((NOON + second, city) for city in range(CITIES))
            if self._enough.wait(0.2):
                return

    def __enter__(self) -> Feed:
        self._feeder.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._feeder.join()


@pytest.mark.parametrize("victim", ["jvm", "workers"])
def test_a_driver_that_the_kernel_kills_for_its_memory_goes_on_and_is_exact(
    stack: Stack, cli: Cli, tmp_path: Path, victim: str
) -> None:
    stream = Bookings(stack.kafka, cli)
    name, path = counting(stream, tmp_path)
    with Feed(stream) as feed:
        cli("apply", "-f", path, "--wait")
        first = cli("get", name)["generation"]
        until(lambda: counts(rows(stack.kafka, name)).total() > 0)
        jvm, python = halves(stack, name)
        hit = [jvm] if victim == "jvm" else [each for each in jvm.children(recursive=True) if each != python]
        with limited(hit, 4 * MIB) as killed:
            feed.number = "x" * 4_000  # what they had may be enough for more of the same
            until(lambda: killed() > 0)
            feed.number = "short"
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
