"""A drain ends a driver at any moment without a word that looks like a failure, and loses nothing."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from services.runtime.tests.job_drain import orders_in
from services.runtime.tests.job_driver import influx_sink, kafka_sink, log_sink
from services.runtime.tests.launches import Dagger, Launch
from services.runtime.tests.sessions import driver_session
from services.runtime.tests.two_launches import Running
from tests.integration.bookings import booking
from tests.proxy import Proxy

from runtime.source import warmup_source
from runtime.spark import helpers

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


STOPS = 500


@pytest.mark.timeout(3600)  # each is a start, too: 100 take ten minutes at load 40
def test_of_500_stops_under_load_not_one_fails_and_each_row_is_written_once(
    tmp_path: Path, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launches of four daggers in one process, stopped wherever they are: starting, planning, writing."""
    # A driver has one dagger: behind its first batch it ends processes that another's start would need here.
    monkeypatch.setattr(helpers, "end", lambda _: None)
    chance = random.Random(38)
    with driver_session("local[2]") as session, ExitStack() as stack:
        warmup_source.read(session)
        daggers = [Dagger(tmp_path / str(n), kafka, sql=_FORWARD, trigger_ms=1) for n in range(4)]
        for dagger in daggers:
            dagger.sinks = [kafka_sink(kafka, f"rows-{dagger.name}")]
        fed_orders = [stack.enter_context(fed(dagger)) for dagger in daggers]
        waits = {dagger.name: [chance.random() * 3 for _ in range(STOPS // 4)] for dagger in daggers}
        with ThreadPoolExecutor(len(daggers)) as pool:
            stops = list(pool.map(lambda dagger: stopped_again(dagger, session, waits[dagger.name]), daggers))
        assert Counter(end for ends in stops for end in ends) == {"": STOPS}
        stack.close()
        for dagger in daggers:
            written_to_its_end(dagger, session)

        for dagger, orders in zip(daggers, fed_orders, strict=True):
            assert sorted(orders_in(kafka, f"rows-{dagger.name}")) == sorted(orders)


def stopped_again(dagger: Dagger, session: SparkSession, waits: Sequence[float]) -> list[str]:
    """Why each launch ended that was stopped after so many seconds; empty for a drain."""
    ends = []
    for wait in waits:
        with Running(dagger, session) as running:
            time.sleep(wait)
        ends.append(running.failure)
    return ends


def written_to_its_end(dagger: Dagger, session: SparkSession) -> None:
    """Let a launch write what is left."""
    with Running(dagger, session) as running:
        running.until(lambda beat: beat.state == beat.STATE_RUNNING and not sum(beat.lag.values(), 0))


def failures(launch: Launch) -> list[str]:
    """Lines of driver.log that speak of a failure."""
    words = ("Traceback", "Exception in thread", "\tat ", "Error:", "Exception:")
    return [line[:300] for line in launch.log().splitlines() if any(word in line for word in words)]


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
