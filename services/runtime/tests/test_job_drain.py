"""A drain ends a driver at any moment without a word that looks like a failure, and loses nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from services.runtime.tests.launches import Dagger, Launch
from services.runtime.tests.test_job_driver import influx_sink, kafka_sink, log_sink
from services.runtime.tests.test_sink_contract import records
from tests.integration.bookings import booking
from tests.proxy import Proxy

pytestmark = [pytest.mark.integration, pytest.mark.long]
_FORWARD = "SELECT order_number AS tag_order, fare, rowtime AS window_timestamp FROM data_stream"


@pytest.mark.parametrize("batches", [-1, 0, 3])
def test_a_drain_in_the_middle_of_things_ends_without_a_trace_and_repeats_nothing(
    tmp_path: Path, kafka: str, batches: int
) -> None:
    """Batches follow each other without a pause, so that a drain meets one that runs or begins."""
    dagger = Dagger(tmp_path, kafka, sql=_FORWARD, trigger_ms=1)
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows), log_sink(1)]

    codes = []
    with fed(dagger) as orders, dagger.launch() as launch:
        launch.until(lambda beat: beat.batch_id >= batches)
        codes.append(launch.stop())
    with dagger.launch() as last:
        last.until(lambda beat: len(orders_in(kafka, rows)) >= len(orders))
        codes.append(last.stop())

    assert (codes, failures(launch), failures(last)) == ([0, 0], [], [])
    assert sorted(orders_in(kafka, rows)) == sorted(orders)


def test_a_drain_while_a_sink_is_away_ends_without_a_trace(
    tmp_path: Path, kafka: str, influx: dict[str, str], detour: Proxy
) -> None:
    dagger = Dagger(tmp_path, kafka, sql=_FORWARD)
    dagger.sinks = [influx_sink(influx, url=detour.url)]
    detour.cut()
    dagger.write(booking(1))

    with dagger.launch() as launch:
        launch.until(lambda beat: beat.retrying)
        code = launch.stop()

    assert (code, failures(launch), (launch.run_dir / "exit.json").exists()) == (0, [], False)


def failures(launch: Launch) -> list[str]:
    """Lines of driver.log that speak of a failure."""
    words = ("Traceback", "Exception in thread", "\tat ", "Error:", "Exception:")
    return [line[:300] for line in launch.log().splitlines() if any(word in line for word in words)]


def orders_in(kafka: str, topic: str) -> list[str]:
    """The orders that were written, repeated ones as often as they were."""
    return [json.loads(record.value() or b"")["tag_order"] for record in records(kafka, topic)]


@contextmanager
def fed(dagger: Dagger) -> Iterator[list[str]]:
    """Writes an order every few milliseconds; what was written."""
    orders: list[str] = []
    enough = threading.Event()

    def feed() -> None:
        while not enough.wait(0.005):
            dagger.write(booking(len(orders), order=f"o{len(orders)}"))
            orders.append(f"o{len(orders)}")

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield orders
    finally:
        enough.set()
        feeder.join()
