"""Drivers whose sink is away for a while, and that are killed meanwhile: the other goes on, and both get all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Received, Reply
from services.runtime.tests.launches import Dagger, Launch
from services.runtime.tests.sink_cases.http import sink
from tests.integration.bookings import booking

pytestmark = [pytest.mark.integration, pytest.mark.long]
CITIES = 4
Counts = dict[str, int]


@dataclass
class Receiver:
    """Takes rows by their keys; of each key the newest counts."""

    url: str = ""
    is_up: bool = True
    counts: Counts = field(default_factory=dict)
    turned: list[tuple[str, int, int]] = field(default_factory=list)
    """Rows that took the place of newer ones."""

    def answer(self, got: Received) -> Reply:
        if not self.is_up:
            return Reply(503)
        row = got.json
        key, count = f"{row['window_timestamp']} {row['tag_city_id']}", row["num_of_bookings"]
        if count < self.counts.get(key, 0):
            self.turned.append((key, self.counts[key], count))
        self.counts[key] = count
        return Reply()

    def resolved(self, name: str) -> spec_pb2.ResolvedSink:
        made = sink(self.url)
        made.sink.name = name
        return made


@pytest.fixture
def receivers() -> Iterator[tuple[Receiver, Receiver]]:
    """One that goes, one that stays."""
    with ExitStack() as running:
        made = Receiver(), Receiver()
        for receiver in made:
            server = running.enter_context(httpserver.serving())
            server.answer, receiver.url = receiver.answer, server.url
        yield made


def test_a_sink_is_away_over_kills_and_both_have_what_a_recount_has(
    tmp_path: Path, kafka: str, receivers: tuple[Receiver, Receiver]
) -> None:
    away, near = receivers
    goes = away.resolved("crm")
    goes.sink.on_outage.then = spec_pb2.OnOutage.THEN_WAIT
    goes.sink.on_outage.after.FromTimedelta(timedelta(minutes=15))
    dagger = Dagger(tmp_path, kafka, sinks=[goes, near.resolved("near")], emit=spec_pb2.EMIT_EARLY)
    written = Counter[int]()

    def write(rows: int) -> None:
        for number in range(rows):
            written[number % CITIES] += 1
            dagger.write(booking(10, city_id=number % CITIES))

    def caught_up(receiver: Receiver) -> Callable[[], bool]:
        return lambda: sorted(receiver.counts.values()) == sorted(written.values())

    def waits(launch: Launch, batches: int) -> None:
        """Until so many rows wait at least."""
        launch.until(lambda beat: beat.spools["crm"].rows >= batches if "crm" in beat.spools else False)

    write(8)
    with dagger.launch() as first:
        first.until_true(caught_up(away))
        first.until(lambda beat: beat.batch_id >= 0)
        away.is_up = False
        for _ in range(3):
            write(8)
            first.until_true(caught_up(near))
        waits(first, CITIES)
        first.kill()
    write(8)
    with dagger.launch() as second:
        second.until_true(caught_up(near))
        waits(second, 2 * CITIES)
        before = dict(away.counts)
        away.is_up = True
        second.until_true(lambda: away.counts != before)
        second.kill()
    away.is_up = False
    write(8)
    with dagger.launch() as third:
        third.until_true(caught_up(near))
        away.is_up = True
        third.until_true(caught_up(away))
        third.until(lambda beat: beat.batch_id >= 0 and "crm" not in beat.spools)
        write(8)
        third.until_true(caught_up(away))
        code = third.stop()

    assert (sorted(away.counts.values()), away.counts) == (sorted(written.values()), near.counts)
    assert (away.turned, near.turned, code) == ([], [], 0)
