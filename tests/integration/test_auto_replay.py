"""What was set aside while a table's server was stopped is in the table by itself once it is started."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import psycopg
import pytest
from conftest import Stack
from services.runtime.tests.sink_cases.postgres import sink
from tests import postgres as server
from tests.integration.bookings import Bookings, booking, recount, spread
from tests.integration.cli import DEADLINE_S, Cli
from tests.integration.faults import kill, up
from tests.integration.quarantine_replay import table_sink

pytestmark = [pytest.mark.integration, pytest.mark.long]
RULE = {"skip": "2s", "auto_replay": True}
COUNTS = "SELECT window_timestamp, tag_city_id, num_of_bookings FROM counts"


def until(holds: Callable[[], object], told: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, told()
        time.sleep(1)  # polling what other processes will write; bounded by the deadline


def test_rows_of_an_outage_arrive_by_themselves_once(stack: Stack, cli: Cli, tmp_path: Path) -> None:
    stream, events = Bookings(stack.kafka, cli), spread(range(600), cities=2)
    with server.serving() as address:
        resolved, url = sink(address, tmp_path)
        made = table_sink(resolved, on_outage=RULE)
        made["postgres"] |= {"create_table": True, "mode": "append"}  # which shows a row that is there twice
        name, path = stream.dagger(tmp_path, sinks=[made, {"log": {}}])

        def rows() -> list[tuple[tuple[str, str], int]]:
            with psycopg.connect(url) as connection:
                found = connection.execute(COUNTS).fetchall()
            return [((f"{end.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}", str(city)), n) for end, city, n in found]

        def write(first: int, last: int) -> None:
            stream.write(booking(second, city_id=city) for second, city in events[first:last])

        cli("apply", path, "--wait")
        write(0, 180)
        until(rows, lambda: cli("get", name))
        with server.stopped(address):
            write(180, 300)
            until(lambda: cli("quarantine", "summary", name), lambda: cli("get", name))
            [group] = cli("quarantine", "summary", name)
            until(lambda: "SinkSkipped" in str(cli("events", name)), lambda: cli("events", name))
            kill(stack, "scheduler")  # another one has to know what is outstanding
            up(stack)
        write(300, 600)
        until(lambda: cli("quarantine", "summary", name) == [], lambda: cli("events", name))
        closed = recount(events[:540])  # nothing closes the last window
        until(lambda: dict(rows()).keys() >= closed.keys(), rows)
        there = rows()
        replayed = cli("quarantine", "list", name, "--state", "replayed")
        asked = cli("events", name, "--actor", "platform")
        shown = cli("get", name)["spec"]["sinks"][0]["on_outage"]
        cli("delete", name, "--wait")

    assert (group["reason"], group["sink"], shown) == ("SINK_UNAVAILABLE", "db", RULE)
    assert len(replayed) >= group["records"] > 0
    assert {(row["state"], row["reason"]) for row in replayed} == {("REPLAYED", "SINK_UNAVAILABLE")}
    assert set(Counter(window for window, _ in there).values()) == {1}
    assert Counter({window: n for window, n in there if window in closed}) == closed
    assert len(asked) == 1, asked
