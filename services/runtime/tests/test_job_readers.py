"""Readers of a dagger with many topics: bounded in number, and what shares one is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from daggers.v1 import spec_pb2
from services.runtime.tests.job_driver import in_kafka, kafka_sink
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_contract import create
from tests.integration.bookings import booking, recount, spread

from runtime.source.planner.assignment import reader_counts

TOPICS = 10


def test_readers_go_where_the_most_topics_share_one() -> None:
    assert reader_counts({"a": 1, "b": 10}, 8) == {"a": 1, "b": 7}
    assert reader_counts({"a": 2, "b": 2}, 8) == {"a": 2, "b": 2}
    assert reader_counts({"a": 3, "b": 3, "c": 3}, 4) == {"a": 2, "b": 1, "c": 1}
    assert reader_counts(dict.fromkeys("abcdefghijk", 1), 8) == dict.fromkeys("abcdefghijk", 1)


@dataclass
class ManyTopics(Dagger):
    """A dagger whose stream unites ten topics."""

    def __post_init__(self) -> None:
        """Create them."""
        super().__post_init__()
        self.topics = sorted(create(self.kafka, NewTopic(f"t{i}-{self.name}", 1, 1)) for i in range(TOPICS))

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        """The launch's file, with all topics."""
        job = super().spec(run_dir)
        job.streams[0].stream.topics[:] = self.topics
        return job


@pytest.mark.integration
@pytest.mark.long
def test_ten_topics_are_read_by_eight_readers(tmp_path: Path, kafka: str) -> None:
    dagger = ManyTopics(tmp_path, kafka)
    rows = f"rows-{dagger.name}"
    dagger.sinks = [kafka_sink(kafka, rows)]
    events = spread(range(120), cities=3)
    for number, (second, city) in enumerate(events):
        dagger.topic = dagger.topics[number % TOPICS]
        dagger.write(booking(second, city_id=city))

    with dagger.launch() as launch:
        launch.until(lambda beat: beat.rows_out and beat.rows_out[0] >= 6)
        readers = list((launch.run_dir / "source").glob("[!_]*.json"))
        code = launch.stop()

    assert (len(readers), code) == (8, 0)
    assert Counter(dict(in_kafka(kafka, rows))) == recount(events)
