"""Topics of a stream that change between two launches, on a real driver: every window recounted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from daggers.v1 import spec_pb2
from services.runtime.tests.launches import Dagger
from services.runtime.tests.test_job_driver import bookings, in_kafka, kafka_sink, written
from services.runtime.tests.test_sink_contract import create
from tests.integration.bookings import booking, recount, spread

pytestmark = [pytest.mark.integration, pytest.mark.long]


@dataclass
class Topics(Dagger):
    """A dagger whose stream has the topics named, of those it made."""

    reads: list[str] = field(default_factory=list)

    def made(self, count: int) -> list[str]:
        """Fresh topics; the stream begins with the first of them."""
        topics = [create(self.kafka, NewTopic(f"{at}-{self.name}", 1, 1)) for at in range(count)]
        self.reads = topics[:1]
        return topics

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        """The launch's file."""
        job = super().spec(run_dir)
        job.streams[0].stream.topics[:] = self.reads
        return job

    def send(self, topic: str, events: list[tuple[float, int]]) -> None:
        """Append bookings to a topic."""
        self.topic = topic
        self.write(*bookings(events))


def test_a_topic_added_while_windows_are_open_is_counted_in_them_after_a_kill(
    tmp_path: Path, kafka: str
) -> None:
    dagger = Topics(tmp_path, kafka, idle_timeout_s=0)
    a, b = dagger.made(2)
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    before, joined = spread(range(90), cities=2), spread(range(60, 150), cities=3)
    after = spread(range(90, 150), cities=2)

    with dagger.launch() as launch:
        dagger.send(a, before)
        launch.until(written(2))
        launch.kill()
    dagger.reads = [a, b]
    dagger.send(b, joined)
    dagger.send(a, after)
    for topic in (a, b):
        dagger.topic = topic
        dagger.write(booking(400))
    expected = recount([*before, *joined, *after])
    with dagger.launch() as relaunch:
        relaunch.until(lambda _: len(dict(in_kafka(kafka, rows))) >= len(expected))
        code = relaunch.stop()

    assert Counter(dict(in_kafka(kafka, rows))) == expected
    assert code == 0
