"""What a replay says of records of a forwarding that never became rows."""

from __future__ import annotations

import pytest
from daggers.v1 import spec_pb2, telemetry_pb2
from services.runtime.tests.launches import descriptors, whole
from tests.integration.bookings import booking

from runtime.launch import planned
from runtime.replay.history import Kept
from runtime.replay.late import Records

Forward = spec_pb2.Forward


def records(forward: spec_pb2.Forward) -> Records:
    """Those of a dagger that forwards bookings to its log."""
    job = spec_pb2.JobSpec(dagger="d", generation=1, checkpoint_root="/tmp/c", run_dir="/tmp/r")
    job.platform.bootstrap_servers = "kafka:9092"
    job.sinks.add().sink.log.limit = 1
    job.spec.forward.CopyFrom(forward)
    stream = job.streams.add()
    stream.kafka.bootstrap_servers = "kafka:9092"
    stream.input.table, stream.input.start.earliest = "data_stream", True
    stream.stream.name, stream.stream.cluster = "bookings", "local"
    stream.stream.topics.append("in")
    stream.stream.message, stream.stream.time_field = "it.v1.Booking", "event_timestamp"
    job.descriptors.CopyFrom(descriptors())
    job = whole(job)
    return Records(job, planned.checked(job), None)


def set_aside(value: bytes) -> telemetry_pb2.Quarantined:
    return telemetry_pb2.Quarantined(topic="in", value=value, reason="MALFORMED")


@pytest.mark.parametrize(
    "forward",
    [Forward(), Forward(filter="city_id > 1", payload=Forward.PAYLOAD_RECORD)],
    ids=["rows", "records"],
)
def test_a_record_of_a_forwarding_is_looked_at_with_the_schema_of_today(forward: spec_pb2.Forward) -> None:
    seen = records(forward)
    kept = Kept("1", ("in", 0, 0), 1, "decode", "MALFORMED", "", 0)  # type: ignore[arg-type] # no place is asked for

    broken, edited = (seen.outcome(kept, set_aside(b"\xff"), value) for value in (None, booking(1)))

    assert (broken.reason, edited.reason) == ("MALFORMED", "NEEDS_QUERY")
