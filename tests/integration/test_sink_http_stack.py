"""A dagger whose rows go to an HTTP server, from its file on, on the real stack: killed, away, recounted."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import Stack
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Received, Reply, Server
from tests.integration.bookings import Bookings, booking, recount, spread
from tests.integration.cli import DEADLINE_S, Cli
from tests.integration.faults import kill_driver

pytestmark = [pytest.mark.integration, pytest.mark.long]


class Crm:
    """Takes rows, or answers that it is away."""

    def __init__(self, server: Server) -> None:
        self.is_away = False
        self.refused = 0
        self._bodies: dict[str, set[bytes]] = {}
        server.answer = self._answer

    def _answer(self, got: Received) -> Reply:
        if self.is_away:
            self.refused += 1
            return Reply(503)
        self._bodies.setdefault(got.headers["Idempotency-Key"], set()).add(got.body)
        return Reply()

    @property
    def has_repeats_of_one_body(self) -> bool:
        return all(len(body) == 1 for body in self._bodies.values())

    def counts(self) -> Counter[tuple[str, str]]:
        """Bookings by window and city; a request that came again counts once."""
        rows = [row for body in list(self._bodies.values()) for row in json.loads(next(iter(body)))]
        return Counter(
            {(row["window_timestamp"], str(row["tag_city_id"])): row["num_of_bookings"] for row in rows}
        )

    def until(self, total: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self.counts().total() < total:
            assert time.monotonic() < deadline, self.counts()
            time.sleep(0.5)  # polling what a stream will send; bounded by the deadline


def test_rows_of_a_dagger_file_reach_a_server_once_whatever_dies_meanwhile(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    with httpserver.serving() as server:
        bookings, crm = Bookings(stack.kafka, cli), Crm(server)
        sink = {"name": "crm", "http": {"url": server.url, "rows_per_request": 100}}
        name, file = bookings.dagger(tmp_path, sinks=[sink, {"log": {}}])
        events = spread(range(360), cities=3)
        cli("apply", "-f", file, "--wait")
        bookings.write(booking(second, city_id=city) for second, city in events[:120])
        crm.until(60)
        crm.is_away = True
        bookings.write(booking(second, city_id=city) for second, city in events[120:240])
        cli.until(name, lambda dagger: "SINK_UNAVAILABLE" in json.dumps(dagger))
        kill_driver(stack, name)
        crm.is_away = False
        bookings.write(booking(second, city_id=city) for second, city in events[240:])
        crm.until(len(events))
        cli("delete", name, "--wait")

    assert crm.refused > 0
    assert (crm.counts(), crm.has_repeats_of_one_body) == (recount(events), True)
