"""A driver whose sink takes a row in a millisecond, and gets more than that."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.httpserver import Received, Reply
from services.runtime.tests.launches import Beat, Dagger, Launch
from services.runtime.tests.sink_cases.http import sink
from tests.integration.bookings import booking

pytestmark = [pytest.mark.integration, pytest.mark.long]
RECORDS = 30_000
ROW_S = 0.001
MIB = 1024**2
FORWARD = spec_pb2.Forward(fields=[spec_pb2.ForwardField(name="order_number", expression="order_number")])


@pytest.fixture
def slow() -> Iterator[tuple[str, set[str]]]:
    """A server that takes one row after the other: its URL, and the orders that it has."""
    orders = set[str]()

    def answer(got: Received) -> Reply:
        rows = got.json
        time.sleep(ROW_S * len(rows))  # nothing else is answered meanwhile
        orders.update(row["order_number"] for row in rows)
        return Reply()

    with httpserver.serving() as server:
        server.answer = answer
        yield server.url, orders


def python_mib(launch: Launch) -> float:
    """What the Python processes of a launch hold now; that of the JVM is bounded by its heap."""
    held = 0
    for process in launch.processes():
        try:
            held += process.memory_info().rss if "python" in process.name() else 0
        except psutil.NoSuchProcess:
            continue
    return held / MIB


def test_the_lag_grows_and_memory_does_not_and_a_drain_ends_when_the_batch_does(
    tmp_path: Path, kafka: str, slow: tuple[str, set[str]]
) -> None:
    url, orders = slow
    dagger = Dagger(tmp_path, kafka, sinks=[sink(url, rows_per_request=100)], forward=FORWARD)
    dagger.write(*(booking(10, order=str(number)) for number in range(RECORDS)))

    with dagger.launch() as launch:
        launch.until(lambda _: len(orders) > RECORDS // 10)
        before = python_mib(launch)
        dagger.write(*(booking(11, order=str(number)) for number in range(RECORDS, 2 * RECORDS)))
        behind = launch.until(lambda beat: sum(beat.lag.values()) == RECORDS)
        launch.until_true(lambda: len(orders) > RECORDS * 8 // 10)
        grown = python_mib(launch) - before
        code = launch.stop()
    last, drained = launch.beats[-1], len(orders)
    with dagger.launch() as relaunch:
        relaunch.until(lambda _: len(orders) == 2 * RECORDS)
        relaunch.stop()

    ages = [beat.running_batch_age_ms for beat in launch.beats if beat.state == Beat.STATE_STARTING]
    assert (behind.batch_id, behind.running_batch_id, behind.running_batch_age_ms > 0) == (-1, 0, True)
    assert ages == sorted(ages)
    assert ages[-1] > RECORDS * ROW_S * 1000 / 2
    assert grown < 100
    assert (code, drained, sum(last.lag.values())) == (0, RECORDS, RECORDS)
    assert orders == {str(number) for number in range(2 * RECORDS)}
