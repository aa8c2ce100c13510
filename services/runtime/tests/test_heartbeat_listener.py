"""What Spark tells of an idle query is progress only when the stream was reached."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from daggers.v1 import spec_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    StreamingQueryProgress,
)

from runtime.launch.completion import Completion
from runtime.launch.launch import Launch
from runtime.launch.listener import Listener
from runtime.source.context import SourceContext
from runtime.source.status import ReaderRegistry, ReaderStatus
from runtime.spark import helpers
from runtime.state.checkpoint import Checkpoint
from runtime.state.groups import Groups
from runtime.state.store.local import LocalPlace

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
IDLE = QueryIdleEvent(uuid4(), uuid4(), "2026-01-01T12:00:00.000Z")
NOWHERE = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:1", properties={"log_level": "0"})
HERE = ReaderStatus(delay=5000)
AWAY = replace(HERE, unreachable="Kafka at kafka:9092 does not answer.")


@pytest.fixture
def source(tmp_path: Path) -> SourceContext:
    return SourceContext(
        dagger="d",
        generation=1,
        checkpoint=str(tmp_path / "checkpoint"),
        run_dir=tmp_path,
        platform=NOWHERE,
        descriptors=FileDescriptorSet(),
        windows=None,
        consumer_group="daggers.d",
    )


def listener_of(source: SourceContext) -> tuple[Launch, Listener]:
    """Return a launch without Spark, and its listener."""
    spec = spec_pb2.JobSpec(dagger="d", generation=1, run_dir=str(source.run_dir), platform=NOWHERE)
    launch = Launch(spec, lambda: pytest.fail("it needs no Spark"))
    return launch, Listener(
        launch,
        checkpoint=Checkpoint(LocalPlace(source.run_dir), stand=None, outdated=()),
        source=source,
        attempts=lambda _: 1,
        plan_warnings=(),
        references=[],
        groups=Groups((), timedelta(), changes=lambda *_: pytest.fail("it has no state")),
        patience=None,
        completed=Completion(None),
    )


def progress_of(run_id: UUID) -> QueryProgressEvent:
    """Return the event of an empty batch of a query."""
    report = {
        "id": str(uuid4()), "runId": str(run_id), "name": "d", "timestamp": "2026-01-01T12:00:00.000Z",
        "batchId": 0, "batchDuration": 1, "stateOperators": [], "sources": [],
        "sink": {"description": "", "numOutputRows": 0},
    }  # fmt: skip
    return QueryProgressEvent(StreamingQueryProgress.fromJson(report))


@pytest.mark.parametrize(("statuses", "last"), [((HERE, HERE), NOON), ((HERE, AWAY), None)])
def test_a_source_that_has_nothing_is_progress_and_one_that_cannot_be_reached_is_not(
    source: SourceContext, statuses: tuple[ReaderStatus, ...], last: datetime | None
) -> None:
    for number, status in enumerate(statuses):
        ReaderRegistry(source.run_dir).publish(f"bookings.{number}", status)
    launch, listener = listener_of(source)

    listener.onQueryIdle(IDLE)

    beat = launch.heartbeat.progress.beat
    assert (beat.last_progress.ToDatetime(UTC) if beat.HasField("last_progress") else None) == last


def test_a_stream_that_cannot_be_reached_is_warned_of_until_it_is(source: SourceContext) -> None:
    registry = ReaderRegistry(source.run_dir)
    registry.publish("bookings.0", AWAY)
    away = registry.state().is_reachable(), registry.state().warnings()
    registry.publish("bookings.0", HERE)

    assert away == (False, ("STREAM_UNREACHABLE: Kafka at kafka:9092 does not answer.",))
    assert (registry.state().is_reachable(), registry.state().warnings()) == (True, ())


def test_a_late_event_of_a_query_that_has_ended_leaves_the_next_what_starts_it(
    source: SourceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, listener = listener_of(source)
    launch.__dict__["session"] = None
    released: list[Path] = []
    monkeypatch.setattr(helpers, "release", lambda run_dir, _: released.append(run_dir))
    closing, following = uuid4(), uuid4()
    listener.note_ended(str(closing))
    listener.onQueryProgress(progress_of(closing))
    late = list(released)
    listener.onQueryProgress(progress_of(following))

    assert (late, released) == ([], [launch.run_dir])
