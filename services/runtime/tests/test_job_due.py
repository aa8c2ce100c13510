"""A driver has no batch that nobody would miss, and says all the while how it is."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from services.runtime.tests.job_driver import bookings, in_kafka, kafka_sink, written
from services.runtime.tests.launches import Beat, Dagger
from tests.integration.bookings import booking, recount, spread

pytestmark = pytest.mark.integration
TEN_MINUTES = 600


@pytest.mark.long
def test_records_wait_in_kafka_until_they_close_a_window_and_a_drain_does_not_wait_for_them(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Dagger(tmp_path, kafka, idle_timeout_s=0, longest_wait_s=TEN_MINUTES)
    topic = f"json-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, topic)]
    events = spread(range(5, 60), cities=2)
    dagger.write(*bookings(events[:1]))

    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_in == 1)
        dagger.write(*bookings(events[1:]))
        waits = launch.until(lambda beat: sum(beat.lag.values()) == len(events) - 1)
        since = waits.last_progress.ToMilliseconds()
        later = launch.until(lambda beat: beat.last_progress.ToMilliseconds() >= since + 5_000)
        due_ms = time.time() * 1000
        dagger.write(booking(61))
        closed = launch.until(written(2))
        dagger.write(booking(62))
        launch.until(lambda beat: sum(beat.lag.values()) == 1)
        begun = time.monotonic()
        code = launch.stop()
        took = time.monotonic() - begun

    assert (later.rows_in, sum(later.lag.values()), later.state) == (1, len(events) - 1, Beat.STATE_RUNNING)
    assert closed.rows_in == len(events) + 1
    assert closed.batch_duration_ms <= closed.time.ToMilliseconds() - due_ms  # it is not what it waited for
    assert dict(in_kafka(kafka, topic)) == recount(events)
    assert (code, took < 60, launch.beats[-1].rows_in) == (0, True, closed.rows_in)


def test_a_topic_that_falls_silent_is_read_and_its_last_window_closes_in_time(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Dagger(tmp_path, kafka, idle_timeout_s=3, longest_wait_s=TEN_MINUTES)
    topic = f"json-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, topic)]
    events = spread(range(5, 60), cities=2)
    dagger.write(*bookings(events[:1]))

    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_in == 1)
        dagger.write(*bookings(events[1:]))
        launch.until(written(2))
        code = launch.stop()

    assert (code, Counter(dict(in_kafka(kafka, topic)))) == (0, recount(events))
