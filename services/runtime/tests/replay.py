"""Helpers of test_replay.py and of its neighbours."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from daggers.v1 import events_pb2, spec_pb2, telemetry_pb2
from services.runtime.tests import launches
from services.runtime.tests.sink_cases.postgres import sink
from services.runtime.tests.sink_contract import ends, records
from tests.integration.bookings import NOON

from daggerspec.topics import QUARANTINE
from runtime import sinks
from runtime.launch import planned
from runtime.launch.delivery import Delivery
from runtime.replay.replaying import Attempt, replay
from runtime.sinks import Target
from runtime.spool.log import Log, TopicAddress, topic_of
from runtime.state.lease import Lease
from runtime.state.store.local import LocalStore

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [("tag_city_id", pa.int32()), ("num_of_bookings", pa.int64()), ("window_timestamp", TIME),
     ("__window_start", TIME), ("__window_end", TIME), ("__key_0", pa.int32())]
)  # fmt: skip
START = datetime.fromtimestamp(NOON, UTC)
Counts = Mapping[int, int]
"""How many bookings each city has in the first minute."""


@dataclass
class Desk:
    """One dagger with a table whose rows are refused until somebody mends it."""

    dagger: launches.Dagger
    resolved: spec_pb2.ResolvedSink
    url: str
    generation: int = 200
    starts: dict[int, int] = field(init=False)
    """Where each partition of the quarantine ended before: what other tests have put there is not read."""

    def __post_init__(self) -> None:
        self.starts = ends(self.dagger.kafka, QUARANTINE)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement, where it has some."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def rows(self) -> list[tuple[int, int]]:
        """City and count of each row, sorted."""
        return self.sql("SELECT tag_city_id, num_of_bookings FROM counts ORDER BY 1, 2")

    def spec(self, run_dir: Path) -> spec_pb2.JobSpec:
        """What a driver of it is told."""
        self.dagger.generation = self.generation
        return launches.whole(self.dagger.spec(run_dir))

    def target(self) -> Target:
        """Its only sink, as a driver has it."""
        spec = self.spec(self.dagger.folder)
        plan = planned.check_spec(spec)
        [resolved] = planned.named_sinks(spec).values()
        updates = spec.spec.emit == spec_pb2.EMIT_EARLY
        layout, messages = planned.layout(spec, plan), planned.messages(spec)
        return Target(spec.dagger, resolved, layout, SCHEMA, messages, updates)

    def deliver(self, counts: Counts, batch_id: int = 0) -> None:
        """Write a batch as a driver does: what is refused is set aside."""
        end = START + timedelta(minutes=1)
        rows = [
            {"tag_city_id": city, "num_of_bookings": n, "window_timestamp": end, "__window_start": START,
             "__window_end": end, "__key_0": city} for city, n in counts.items()
        ]  # fmt: skip
        target = self.target()
        sinks.check(target)
        platform = spec_pb2.KafkaAddress(bootstrap_servers=self.dagger.kafka).SerializeToString()
        delivery = Delivery((target,), 150, platform, batch_id=batch_id, done=frozenset(), checkpoint="c")
        list(delivery(iter([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)])))

    def create_log(self) -> Log:
        """Make the log of its sink, which has nothing yet."""
        platform = spec_pb2.KafkaAddress(bootstrap_servers=self.dagger.kafka).SerializeToString()
        log = TopicAddress(platform, topic_of(self.dagger.name, self.target().name)).open()
        log.create()
        return log

    def ask(self, **more: Any) -> events_pb2.QuarantineReplayRequested:
        """A request for what is there now."""
        return events_pb2.QuarantineReplayRequested(
            name=self.dagger.name,
            replay_id=uuid4().hex,
            up_to=ends(self.dagger.kafka, QUARANTINE),
            starts=self.starts,
            **more,
        )

    def attempt(self, asked: events_pb2.QuarantineReplayRequested, sequence: int = 190) -> Attempt:
        """The next attempt of a replay."""
        self.generation += 1
        return Attempt(self.spec(self.dagger.folder), asked, sequence, 10)

    def run(
        self, asked: events_pb2.QuarantineReplayRequested, sequence: int = 190, most_rows: int = 2
    ) -> Mapping[str, int]:
        """An attempt in this process."""
        attempt = self.attempt(asked, sequence)
        return run(attempt, self.lease(attempt), most_rows=most_rows)

    def lease(self, attempt: Attempt) -> Lease:
        """The attempt's right to write."""
        return Lease(LocalStore(self.dagger.checkpoints / "replay"), attempt.spec.generation, lambda: 0.0)

    def outcomes(self, replay_id: str) -> dict[str, str]:
        """What this replay has said, by the id of the record; the last counts."""
        said: dict[str, str] = {}
        for message in records(self.dagger.kafka, QUARANTINE, self.starts):
            headers: dict[str, bytes] = dict(message.headers() or ())  # type: ignore[arg-type]
            if headers["ce_type"].endswith(b".QuarantineResolved"):
                told = telemetry_pb2.QuarantineResolved.FromString(message.value() or b"")
                if told.replay_id == replay_id:
                    said[told.id] = f"{planned_name(told.outcome)} {told.reason}".strip()
        return said


def planned_name(outcome: telemetry_pb2.QuarantineOutcome.ValueType) -> str:
    return telemetry_pb2.QuarantineOutcome.Name(outcome).removeprefix("QUARANTINE_OUTCOME_")


def run(attempt: Attempt, lease: Lease, *, most_rows: int, dies_at: int = 0) -> Mapping[str, int]:
    """Run an attempt; killed when it asks for the so-manieth time whether it may write."""
    asked = count(1)

    def confirm() -> None:
        if next(asked) == dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        lease.confirm()

    lease.take()
    return replay(
        attempt,
        wait=lambda _: None,
        confirm=confirm,
        closed_until=lambda _: None,
        patience_s=0,
        most_rows=most_rows,
    )


@pytest.fixture
def desk(kafka: str, postgres: str, tmp_path: Path) -> Desk:
    """A dagger whose table takes no city below zero."""
    resolved, url = sink(postgres, tmp_path)
    resolved.sink.postgres.ClearField("key")
    made = Desk(launches.Dagger(tmp_path, kafka, sinks=[resolved]), resolved, url)
    sinks.check(made.target())
    made.sql("ALTER TABLE counts ADD CONSTRAINT positive CHECK (tag_city_id > 0)")
    return made
