"""What is to be done with records that never became rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from daggers.v1 import spec_pb2, telemetry_pb2
from services.runtime.tests.launches import descriptors, whole
from tests.integration.bookings import COUNT_SQL, NOON, booking

from runtime.launch import planned
from runtime.replay.history import QuarantineEntry
from runtime.replay.originals import Original
from runtime.replay.records import LateRecord, PassingRecord, RecordClassifier, TriedRecord
from runtime.replay.verdicts import Resolved

Forward = spec_pb2.Forward
START = datetime.fromtimestamp(NOON, UTC)
MINUTE = timedelta(minutes=1)
KEPT = QuarantineEntry("1", (0, 0), 1, "decode", "MALFORMED", "", 0)
HOP_SQL = """\
SELECT city_id, count(1) AS n, HOP_END(rowtime, INTERVAL '30' SECOND, INTERVAL '60' SECOND) AS ended
FROM `data_stream` GROUP BY HOP(rowtime, INTERVAL '30' SECOND, INTERVAL '60' SECOND), city_id"""
SESSION_SQL = """\
SELECT city_id, count(1) AS n, SESSION_END(rowtime, INTERVAL '60' SECOND) AS window_timestamp
FROM `data_stream` GROUP BY SESSION(rowtime, INTERVAL '60' SECOND), city_id"""


def records(
    query: spec_pb2.Forward | str,
    closed: datetime | None = None,
    *,
    computes: bool = True,
    recomputes: bool = False,
) -> RecordClassifier:
    """Those of a dagger that reads bookings for its log."""
    job = spec_pb2.JobSpec(dagger="d", generation=1, checkpoint_root="/tmp/c", run_dir="/tmp/r")
    job.platform.bootstrap_servers = "kafka:9092"
    job.sinks.add().sink.log.limit = 1
    if isinstance(query, str):
        job.spec.sql = query
    else:
        job.spec.forward.CopyFrom(query)
    stream = job.streams.add()
    stream.kafka.bootstrap_servers = "kafka:9092"
    stream.input.table, stream.input.start.earliest = "data_stream", True
    stream.stream.name, stream.stream.cluster = "bookings", "local"
    stream.stream.topics.append("in")
    stream.stream.message, stream.stream.time_field = "it.v1.Booking", "event_timestamp"
    job.descriptors.CopyFrom(descriptors())
    job = whole(job)
    return RecordClassifier(job, planned.check_spec(job), closed, computes=computes, recomputes=recomputes)


def tried(value: bytes, edited: bytes | None = None, *, truncated: bool = False) -> TriedRecord:
    record = telemetry_pb2.Quarantined(
        topic="in", offset=4, value=value, reason="MALFORMED", truncated=truncated
    )
    return TriedRecord(KEPT, record, edited)


def reason(outcome: object) -> str:
    assert isinstance(outcome, Resolved), outcome
    return outcome.reason


@pytest.mark.parametrize(
    "forward",
    [Forward(), Forward(filter="city_id > 1", payload=Forward.PAYLOAD_RECORD)],
    ids=["rows", "records"],
)
def test_a_record_of_a_forwarding_is_looked_at_with_the_schema_of_today(forward: spec_pb2.Forward) -> None:
    seen, unable = records(forward), records(forward, computes=False)
    decoded = seen.classify(tried(b"\xff", booking(1)), None)

    assert reason(seen.classify(tried(b"\xff"), None)) == "MALFORMED"
    assert isinstance(decoded, PassingRecord)
    assert decoded.original.value == booking(1)
    assert reason(unable.classify(tried(b"\xff", booking(1)), None)) == "NEEDS_QUERY"


def test_what_kafka_has_counts_more_than_what_was_kept() -> None:
    seen = records(Forward())
    original = Original(booking(3), b"key", (NOON + 3) * 1000, (("trace", b"1"),))
    whole_one = seen.classify(tried(booking(1)[:3], truncated=True), original)

    assert isinstance(whole_one, PassingRecord)
    assert whole_one.original == original
    assert reason(seen.classify(tried(booking(1)[:3], truncated=True), None)) == "TRUNCATED"


def test_a_record_that_is_still_from_the_future_is_no_row() -> None:
    original = Original(booking(3600), None, NOON * 1000)

    assert reason(records(Forward()).classify(tried(b"x"), original)) == "FROM_THE_FUTURE"


def test_windows_that_are_closed_are_late_or_computed_again() -> None:
    original = Original(booking(70), None, NOON * 1000 + 70_000)
    late = records(COUNT_SQL, START + 2 * MINUTE).classify(tried(b""), original)
    counted = records(COUNT_SQL, START + 2 * MINUTE, recomputes=True).classify(tried(b""), original)
    still_open = records(COUNT_SQL, START + 2 * MINUTE - timedelta(seconds=1), recomputes=True)
    gone = records(COUNT_SQL, START + 2 * MINUTE, recomputes=True)

    assert isinstance(late, Resolved)
    assert (late.outcome, late.reason) == (telemetry_pb2.QUARANTINE_OUTCOME_LATE, "WINDOWS_CLOSED")
    assert "from 2026-01-01T12:01:00Z to 2026-01-01T12:02:00Z" in late.detail
    assert isinstance(counted, LateRecord)
    assert (counted.starts, counted.edited_value) == ((NOON * 1000 + 60_000,), None)
    assert reason(still_open.classify(tried(b""), original)) == "WINDOWS_OPEN"
    assert reason(records(COUNT_SQL).classify(tried(b""), original)) == "WINDOWS_OPEN"
    assert reason(gone.classify(tried(booking(70)), None)) == "RECORDS_GONE"


def test_all_windows_of_a_record_have_to_be_closed() -> None:
    original = Original(booking(70), None, NOON * 1000 + 70_000)
    seen = [
        records(HOP_SQL, START + timedelta(seconds=second), recomputes=True).classify(tried(b""), original)
        for second in (90, 119, 120)
    ]

    assert [reason(each) for each in seen[:2]] == ["WINDOWS_OPEN", "WINDOWS_OPEN"]
    assert isinstance(seen[2], LateRecord)
    assert seen[2].starts == (NOON * 1000 + 60_000, NOON * 1000 + 30_000)


def test_sessions_cannot_be_computed_alone() -> None:
    original = Original(booking(70), None, NOON * 1000 + 70_000)
    seen = records(SESSION_SQL, START + 10 * MINUTE, recomputes=True)

    assert reason(seen.classify(tried(b""), original)) == "NEEDS_RESTART"
