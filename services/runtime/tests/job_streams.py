"""Helpers of test_job_streams.py and of its neighbours."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka.admin import NewTopic
from daggers.v1 import spec_pb2
from services.runtime.tests.launches import Dagger
from services.runtime.tests.sink_contract import create, records
from tests.integration.bookings import NOON


@dataclass
class TwoStreams(Dagger):
    """A dagger over bookings and cancellations, each a topic of its own."""

    def __post_init__(self) -> None:
        """Create both topics."""
        super().__post_init__()
        self.cancellations = create(self.kafka, NewTopic(f"off-{self.name}", 1, 1))

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        """The launch's file, with the second stream: the one that falls silent and ticks."""
        job = super().spec(run_dir)
        second = job.streams.add()
        second.CopyFrom(job.streams[0])
        job.streams[0].input.idle_timeout.FromSeconds(0)  # off: only the cancellations tick
        second.input.table, second.stream.name = "cancellations", "cancellations"
        second.stream.topics[:] = [self.cancellations]
        return job

    def cancel(self, *values: bytes) -> None:
        """Append to the cancellations."""
        bookings, self.topic = self.topic, self.cancellations
        self.write(*values)
        self.topic = bookings


def moment(second: float) -> str:
    """A second after noon, as a row of JSON has it."""
    return datetime.fromtimestamp(NOON + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def written(kafka: str, topic: str) -> dict[bytes, dict[str, object]]:
    """The rows, each once by its key: what was in flight at the kill is written again under the same one."""
    rows: dict[bytes, dict[str, object]] = {}
    for record in records(kafka, topic):
        row = json.loads(record.value() or b"")
        row.setdefault("fate", None)
        key = record.key() or b""
        assert rows.setdefault(key, row) == row
    return rows
