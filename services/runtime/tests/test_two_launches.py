"""Two launches in one process, on one Spark application: each counts, closes, leases and ends for itself."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import telemetry_pb2
from pyspark.sql import SparkSession
from services.runtime.tests.job_driver import kafka_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sessions import driver_session
from services.runtime.tests.sink_contract import records
from services.runtime.tests.two_launches import Beat, Running
from tests.integration.bookings import NOON, booking

from daggerspec.topics import HEARTBEATS, QUARANTINE
from runtime.source import warmup_source
from runtime.state.store.local import LocalStore

pytestmark = pytest.mark.integration
BY_CITY = (
    "SELECT city_id AS tag_city, COUNT(JsonQuery(order_number, '$.a')) AS parts,"
    " TUMBLE_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp FROM data_stream"
    " GROUP BY TUMBLE(rowtime, INTERVAL '60' SECOND), city_id"
)
FARES = (
    "SELECT SUM(fare) AS fares, MAX(Distance(city_id, 0, 0, 0)) AS far,"
    " COUNT(JsonQuery(order_number, '$.a')) AS parts,"
    " TUMBLE_END(rowtime, INTERVAL '30' SECOND) AS window_timestamp FROM data_stream"
    " GROUP BY TUMBLE(rowtime, INTERVAL '30' SECOND)"
)
HOUR = 3600
GOOD = '{"a": 1}'


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """The application's first session, which is no launch's."""
    with driver_session("local[2]") as started:
        warmup_source.read(started)  # Spark waits ten seconds for a process that plans a stream
        yield started


@pytest.fixture
def both(tmp_path: Path, kafka: str, session: SparkSession) -> Iterator[tuple[Running, Running]]:
    """Two daggers with a topic, a query, a checkpoint root and a sink each."""
    with ExitStack() as stack:
        running = []
        for folder, sql in (("cities", BY_CITY), ("fares", FARES)):
            dagger = Dagger(tmp_path / folder, kafka, sql=sql)
            dagger.sinks = [kafka_sink(kafka, f"rows-{dagger.name}")]
            running.append(stack.enter_context(Running(dagger, session)))
            running[-1].until(lambda beat: beat.state == Beat.STATE_RUNNING)
        yield running[0], running[1]


def test_each_launch_has_its_own_numbers_watermark_quarantine_lease_and_heartbeats(
    both: tuple[Running, Running], kafka: str
) -> None:
    cities, fares = both
    cities.dagger.write(*[booking(second) for second in range(5)], *[b"\xff\xff"] * 3)
    # An hour before: late, if event time of the other counted.
    fares.dagger.write(*[booking(second - HOUR, city_id=89 + second) for second in range(7)])
    cities.dagger.write(booking(300, order=GOOD))
    fares.dagger.write(booking(300 - HOUR, order=GOOD))
    cities.until(lambda beat: beat.rows_out[0])
    fares.until(lambda beat: beat.rows_out[0])
    cities.dagger.write(*[booking(second, order=GOOD) for second in range(4)])
    cities.until(lambda beat: beat.rows_in == 10 and time_of(beat) >= moment(299))
    fares.until(lambda beat: beat.rows_in == 8 and time_of(beat) >= moment(299 - HOUR))

    told = {beat.dagger: beat for beat in heartbeats(kafka)}
    one, other = cities.beat, fares.beat

    assert (one.rows_in, one.late_rows, dict(one.quarantined)) == (10, 4, {"MALFORMED": 3})
    assert (other.rows_in, other.late_rows, dict(other.quarantined)) == (8, 0, {})
    assert dict(one.bad_values) == {"jsonquery": 5}
    assert dict(other.bad_values) == {"jsonquery": 7, "distance": 5}
    assert time_of(other) < moment(0)
    assert [set(beat.lag) for beat in (one, other)] == [{f"{running.dagger.topic}/0"} for running in both]
    assert [aside(kafka, running) for running in both] == [3, 0]
    assert {True} == {{*row} >= {"tag_city", "parts"} for row in rows(kafka, cities)}
    assert {True} == {{*row} >= {"fares", "far"} for row in rows(kafka, fares)}
    for running in both:
        name, generation = running.dagger.name, running.dagger.generation
        assert LocalStore(running.dagger.checkpoints).read() == generation
        assert (told[name].generation, told[name].pid) == (generation, os.getpid())


def drained(running: Running) -> None:
    (running.launch.run_dir / "stop").touch()


def fenced(running: Running) -> None:
    LocalStore(running.dagger.checkpoints).take(running.dagger.generation + 1)


def failed(running: Running) -> None:
    """Take Spark's log of commits away, and have a batch that wants to commit."""
    (commits,) = running.dagger.checkpoints.glob("checkpoints/*/commits")
    commits.rename(commits.with_name("taken"))
    commits.write_text("no directory")
    running.dagger.write(booking(1))


@pytest.mark.parametrize(("end", "reason"), [(drained, ""), (fenced, "FENCED"), (failed, "UNEXPECTED")])
def test_a_launch_that_ends_leaves_the_other_running(
    both: tuple[Running, Running], session: SparkSession, end: Callable[[Running], Any], reason: str
) -> None:
    ending, staying = both
    for running in both:
        running.dagger.write(booking(0, order=GOOD))
        running.until(lambda beat: beat.rows_in == 1 and beat.batch_id >= 0)

    end(ending)

    assert ending.join() == reason
    assert (ending.beat.state, ending.beat.error.reason) == (Beat.STATE_EXITING, reason)
    assert not ending.launch.session.streams.active
    staying.dagger.write(*[booking(600 + second, order=GOOD) for second in range(3)])
    beat = staying.until(lambda beat: beat.rows_in == 4 and beat.rows_out[0])
    assert (beat.state, beat.late_rows, beat.error.reason) == (Beat.STATE_RUNNING, 0, "")
    assert session.range(3).count() == 3


def heartbeats(kafka: str) -> list[Beat]:
    """All of them, in the order they were sent."""
    return [Beat.FromString(record.value() or b"") for record in records(kafka, HEARTBEATS)]


def aside(kafka: str, running: Running) -> int:
    """How many records were quarantined for it."""
    found = [telemetry_pb2.Quarantined.FromString(one.value() or b"") for one in records(kafka, QUARANTINE)]
    return sum(one.dagger == running.dagger.name for one in found)


def rows(kafka: str, running: Running) -> list[dict[str, Any]]:
    """What its sink has."""
    return [json.loads(one.value() or b"") for one in records(kafka, f"rows-{running.dagger.name}")]


def time_of(beat: Beat) -> datetime:
    """Its watermark."""
    return beat.watermark.ToDatetime(UTC)


def moment(second: int) -> datetime:
    """So many seconds after noon."""
    return datetime.fromtimestamp(NOON, UTC) + timedelta(seconds=second)
