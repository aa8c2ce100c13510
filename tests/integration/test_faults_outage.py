"""Half a minute without the broker, and without the database: nothing is lost, and every row is exact."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking, counted, recount, spread
from tests.integration.cli import DAGGERS, Cli, at_least
from tests.integration.faults import DEADLINE_S, driver, kill, lasting, up

pytestmark = [pytest.mark.integration, pytest.mark.long]

OUTAGE_S = 30
EVENTS = spread(range(180), cities=2)
SERVICES = ("gateway", "scheduler", "health-monitor")


@contextmanager
def exact(stack: Stack, cli: Cli, folder: Path, **changes: object) -> Iterator[tuple[str, Bookings]]:
    """Around an outage in which EVENTS are written: every row is exact, and the driver the same."""
    bookings = Bookings(stack.kafka, cli)
    name, file = bookings.dagger(folder, start="latest", **changes)
    cli("apply", "-f", file, "--wait")
    running = driver(stack, name).keys()
    yield name, bookings
    rows = cli.rows(name, enough=at_least(6))
    cli.until(name, lambda dagger: dagger["phase"] == "RUNNING")
    survivors = driver(stack, name).keys()
    cli("delete", name, "--wait")

    assert counted(rows) == recount(EVENTS)
    assert survivors == running


def test_30_s_without_the_broker_lose_nothing(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    values = [booking(second, city_id=city) for second, city in EVENTS]
    logs = {service: stack.state_dir / "logs" / f"{service}.log" for service in SERVICES}

    # The outage itself is no silence: the window that it divides stays open.
    with exact(stack, cli, tmp_path, idle_timeout=f"{OUTAGE_S}s") as (_, bookings):
        begin = {service: log.stat().st_size for service, log in logs.items()}
        bookings.write(values[:90])
        kill(stack, "kafka")
        asked = subprocess.Popen(
            [DAGGERS, "cluster", "register", "meanwhile", "--kafka", "127.0.0.1:1", "-o", "json",
             "--state-dir", stack.state_dir],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        lasting(OUTAGE_S)
        up(stack)
        registered, why = asked.communicate(timeout=DEADLINE_S)
        bookings.write(values[90:])
    said = {service: log.read_bytes()[begin[service] :].decode() for service, log in logs.items()}

    # the request was asked again until Kafka took it, and the command said what it waited for
    assert (asked.returncode, "asking again under its id" in why) == (0, True), (registered, why)
    # an outage is a line at its beginning and one at its end for each topic, not thirty a second
    assert {text.count("Kafka is back: daggers.control") for text in said.values()} == {1}
    assert max(len(text.splitlines()) for text in said.values()) < 100


def test_30_s_without_influxdb_leave_every_row_exact(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    with exact(stack, cli, tmp_path) as (name, bookings):
        kill(stack, "influxdb")
        bookings.write(booking(second, city_id=city) for second, city in EVENTS)
        lasting(OUTAGE_S)
        degraded = cli.until(name, lambda dagger: dagger["phase"] == "DEGRADED")
        up(stack)

    assert any("SINK" in warning for warning in degraded["warnings"])
