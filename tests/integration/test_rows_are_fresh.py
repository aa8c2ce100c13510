"""Freshness is as a consumer at the sink measures it, and completed rows can be read there."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import Stack
from tests.integration.bookings import NOON, Bookings, booking
from tests.integration.cli import Cli

from daggerclient import Client, NotCompletedError, RefusedError

pytestmark = pytest.mark.integration

BUSY_S = 5.0
"""Seconds that a busy machine may add between a row's acknowledgement and its being read."""
WINDOWS = 12
WITHIN_S = 240.0
SQL = """\
SELECT city_id AS tag_city_id, count(1) AS num_of_bookings,
       TUMBLE_END(rowtime, INTERVAL '5' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '5' SECOND), city_id"""


class Sink:
    """The topic of a dagger's rows, read by somebody who knows nothing of it."""

    def __init__(self, kafka: str) -> None:
        self.topic = f"rows-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": kafka})  # by a name: its topics end with it
        for done in admin.create_topics([NewTopic(self.topic, 1, 1)]).values():
            done.result(30)
        self._consumer = Consumer(
            {"bootstrap.servers": kafka, "group.id": self.topic, "isolation.level": "read_committed"}
        )
        self._consumer.assign([TopicPartition(self.topic, 0, 0)])
        self.rows: list[dict[str, Any]] = []
        self.ages_s: list[float] = []

    def read(self, seconds: float) -> None:
        """Read for so long, and note how old each row is when it arrives."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if (message := self._consumer.poll(min(left, 0.1))) is not None and message.error() is None:
                row = json.loads(message.value())
                self.rows.append(row)
                ended = datetime.fromisoformat(row["window_timestamp"])
                self.ages_s.append(time.time() - ended.timestamp())

    def read_all(self) -> None:
        """Read what is there at this moment, and no more."""
        _, end = self._consumer.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=30)
        while self._consumer.position([TopicPartition(self.topic, 0)])[0].offset < end:
            self.read(0.2)

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def feeding(bookings: Bookings) -> Iterator[list[int]]:
    """Feed ten records a second, each of its own moment, while the context is open; yield their count."""
    done, count = Event(), [0]

    def feed() -> None:
        while not done.wait(0.1):
            bookings.produce(booking(time.time() - NOON))
            count[0] += 1

    thread = Thread(target=feed)
    thread.start()
    try:
        yield count
    finally:
        done.set()
        thread.join()
        bookings.flush()


def codes(dagger: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in dagger["vitals"]["warnings"]]


def last_offset(bookings: Bookings) -> int:
    consumer = Consumer({"bootstrap.servers": bookings.bootstrap_servers, "group.id": "ends"})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(bookings.name, 0), timeout=30)
    finally:
        consumer.close()
    return int(end) - 1


@pytest.mark.long
def test_freshness_is_what_a_consumer_measures_and_what_is_completed_is_in_the_sink(
    stack: Stack, cli: Cli, tmp_path: Path
) -> None:
    bookings, sink = Bookings(stack.kafka, cli), Sink(stack.kafka)
    rows = {"kafka": {"topic": sink.topic, "format": "json"}, "name": "out"}
    name, path = bookings.dagger(tmp_path, sql=SQL, sinks=[rows], freshness="1ms")
    cli("apply", path)
    partition = f"{bookings.name}/0"
    with Client(stack.gateway, token_file=stack.token_file) as client:
        with feeding(bookings) as count:
            end = time.monotonic() + WITHIN_S
            while len(sink.rows) < WINDOWS:
                sink.read(1)
                assert time.monotonic() < end, f"{len(sink.rows)} rows"
            with pytest.raises(NotCompletedError) as early:
                client.wait_completed(bookings.name, {partition: 10**9}, dagger=name, timeout_s=0)

        client.wait_completed(bookings.name, {partition: last_offset(bookings)}, timeout_s=WITHIN_S)
        sink.read_all()
        completed = sum(row["num_of_bookings"] for row in sink.rows)
        observed = cli.until(
            name, lambda dagger: dagger["vitals"]["freshness"]["out"]["rows"] >= len(sink.rows)
        )
        degraded = cli.until(
            name, lambda dagger: dagger["phase"] == "DEGRADED" and "FRESHNESS_MISSED" in codes(dagger)
        )
        cli("stop", name)
        bookings.write([booking(time.time() - NOON)])
        with pytest.raises(RefusedError) as stopped:
            client.wait_completed(bookings.name, {partition: last_offset(bookings)}, timeout_s=WITHIN_S)
    sink.close()

    fresh = observed["vitals"]["freshness"]["out"]
    measured = statistics.quantiles(sink.ages_s, n=100, method="inclusive")
    for shown_ms, measured_s in ((fresh["p50_ms"], measured[49]), (fresh["p95_ms"], measured[94])):
        assert -0.1 * measured_s <= measured_s - shown_ms / 1000 <= BUSY_S + 0.1 * measured_s
    assert fresh["p50_ms"] >= 5_000 * 0.9  # the watermark's delay
    assert (fresh["rows"], fresh["waiting_since"]) == (len(sink.rows), None)
    assert completed == count[0]
    assert early.value.behind[0].dagger == name
    assert stopped.value.reason == "DAGGER_STOPPED"
    assert "% of the" in next(each["message"] for each in degraded["vitals"]["warnings"])
