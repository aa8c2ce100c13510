"""On the whole stack: an alert fires once and resolves once, though its monitor is killed in between."""

from pathlib import Path
from uuid import uuid4

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings, booking
from tests.integration.cli import Cli
from tests.integration.faults import kill, until, up

pytestmark = [pytest.mark.integration, pytest.mark.long]

QUICK = {"DAGGERS_MONITOR_HOLD_S": "1", "DAGGERS_MONITOR_RESOLVE_HOLD_S": "1"}


def test_an_alert_fires_once_and_resolves_once_over_two_restarts_of_the_monitor(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    kill(stack, "health-monitor")
    up(stack, QUICK)
    bookings = Bookings(stack.kafka, cli)
    secret = tmp_path / "token"
    name, file = bookings.dagger(
        tmp_path,
        sql="SELECT order_number, rowtime AS window_timestamp FROM data_stream",
        sinks=[{"influx": {"token": {"file": str(secret)}}}],
    )
    bookings.write([booking(1, order=uuid4().hex)])

    cli("apply", "-f", file)
    cli.until(name, lambda dagger: dagger["phase"] == "FAILED")
    until(lambda: len(told(stack, name)) == 2)
    kill(stack, "health-monitor")
    up(stack, QUICK)
    secret.write_text(stack.influx["token"])
    cli("start", name, "--wait")
    until(lambda: len(told(stack, name)) == 4)
    kill(stack, "health-monitor")
    up(stack, QUICK)  # leads, and has had its chance to repeat what was sent
    cli("delete", name, "--wait")

    assert sorted(told(stack, name)) == [
        "pagerduty resolved",
        "pagerduty triggered",
        "slack failed",
        "slack resolved",
    ]


def told(stack: Stack, name: str) -> list[str]:
    """What on-call got about a dagger, in short: receiver and turn."""
    found = []
    for line in (stack.state_dir / "logs" / "alert-receiver.log").read_text().splitlines():
        match line.split():
            case ["pagerduty", turn, *rest] if f"[daggers/{name}/failed]" in rest:
                found.append(f"pagerduty {turn}")
            case ["slack", _, dagger, turn, *_] if dagger == f"*{name}*:":
                found.append(f"slack {turn.rstrip(',')}")
    return found
