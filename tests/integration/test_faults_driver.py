"""kill -9 of a driver, its JVM, its Python half, or both: it is launched again, and every row is exact."""

import signal
from collections import Counter
from dataclasses import dataclass

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import Cli, at_least
from tests.integration.faults import driver, halves, send, until

pytestmark = [pytest.mark.integration, pytest.mark.long]

EVENTS = spread((second / 10 for second in range(1200)), cities=3)
HALVES = {"jvm": (0,), "python": (1,), "both": (0, 1)}


@dataclass(frozen=True)
class Survived:
    """What became of a dagger whose driver was killed."""

    rows: Counter[tuple[str, str]]
    generations: tuple[int, int]
    sessions: int
    """Of its drivers, at the end."""


@pytest.fixture(scope="module")
def survived(stack: Stack, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Survived]:
    """A dagger for each kind of death, all at the same time: starting one takes longest."""
    folder = tmp_path_factory.mktemp("driver")
    bookings = {kind: Bookings(stack.kafka, cli) for kind in HALVES}
    files = {kind: bookings[kind].dagger(folder, start="latest") for kind in HALVES}
    for _, file in files.values():
        cli("apply", "-f", file)
    before = {}
    for kind, (name, file) in files.items():
        cli("apply", "-f", file, "--wait")
        before[kind] = cli("get", name)["generation"]
    values = [booking(second, city_id=city) for second, city in EVENTS]
    for kind, (name, _) in files.items():
        parts = halves(stack, name)
        bookings[kind].write(values[:600])
        send(signal.SIGKILL, *(parts[which] for which in HALVES[kind]))
        bookings[kind].write(values[600:])
    found = {}
    for kind, (name, _) in files.items():
        rows = cli.rows(name, enough=at_least(6))
        after = cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")["generation"]
        until(lambda name=name: len(driver(stack, name)) == 1)
        found[kind] = Survived(counted(rows), (before[kind], after), len(driver(stack, name)))
        cli("delete", name)
    return found


@pytest.mark.parametrize("kind", HALVES)
def test_a_killed_driver_is_launched_again_and_counts_nothing_twice(
    survived: dict[str, Survived], kind: str
) -> None:
    before, after = survived[kind].generations

    assert survived[kind].rows == recount(EVENTS)
    assert after > before
    assert survived[kind].sessions == 1
