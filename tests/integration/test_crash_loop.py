"""A driver that ends again and again: why stands before all that it printed."""

import subprocess
import time
from pathlib import Path

import pytest
from conftest import Stack
from tests.integration.bookings import Bookings
from tests.integration.cli import DAGGERS, DEADLINE_S, Cli

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_the_reason_of_a_crash_loop_stands_in_the_first_line_of_logs(stack: Stack, tmp_path: Path) -> None:
    cli = Cli(stack.state_dir)
    sinks = [{"influx": {"bucket": "nowhere"}}]
    name, file = Bookings(stack.kafka, cli).dagger(tmp_path, sinks=sinks)
    # As a terminal shows it: what is said of a log and the log in one.
    words = [DAGGERS, "logs", name, "--state-dir", stack.state_dir]
    cli("apply", "-f", file)
    end, first = time.monotonic() + DEADLINE_S, ""
    while "has ended twice" not in first and time.monotonic() < end:
        said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        first = said.stdout.partition("\n")[0]
        time.sleep(1)  # polling a driver that ends at its start; bounded by the deadline
    cli("delete", name, "--wait")

    assert first.startswith("EXTERNAL SINK_MISSING: its driver has ended twice: "), first
    assert "nowhere" in first
