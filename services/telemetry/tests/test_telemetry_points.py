"""Records of the platform's topics become points, the same ones whenever they are read."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from daggers.v1 import alerts_pb2, events_pb2, telemetry_pb2
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from influxdb_client.client.write.point import Point

from eventlog import Record
from telemetry import points

TIME = datetime(2026, 1, 1, 0, 0, 0, 250_000, tzinfo=UTC)
NANOS = 1_767_225_600_250_000_000
META = alerts_pb2.AlertMeta(dagger="surge", condition=alerts_pb2.ALERT_CONDITION_NO_PROGRESS, incident=3)


def record(message: Message | None, *, sequence: int = 7, kind: str = "", subject: str = "surge") -> Record:
    kind = kind or (message.DESCRIPTOR.full_name if message else "")
    return Record(sequence, "id", "/test", subject, TIME, kind, message, b"")


def line(point: Point | None) -> str:
    """The point as it is written."""
    assert point is not None
    return point.to_line_protocol()


def fields(point: Point | None) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in line(point).split(" ")[1].split(","))


def test_a_heartbeat_is_a_point_of_its_dagger_at_the_drivers_time() -> None:
    beat = telemetry_pb2.Heartbeat(dagger="surge", generation=41, time=Timestamp(seconds=100, nanos=5))

    written = line(points.of_beat(record(beat)))

    assert written.startswith("dagger_heartbeat,dagger=surge bad_values=0i,")
    assert ",generation=41i," in written
    assert written.endswith(" 100000000005")


def test_a_heartbeats_maps_are_summed_and_its_times_are_ages_in_seconds() -> None:
    beat = telemetry_pb2.Heartbeat(
        dagger="surge",
        time=Timestamp(seconds=100),
        last_progress=Timestamp(seconds=98, nanos=500_000_000),
        watermark=Timestamp(seconds=60),
        lag={"a/0": 3, "a/1": 4},
        quarantined={"MALFORMED": 2, "NO_EVENT_TIME": 5},
        rows_out=[10, 12],
        state=telemetry_pb2.Heartbeat.STATE_RUNNING,
    )

    found = fields(points.of_beat(record(beat)))

    assert (found["lag"], found["quarantined"], found["rows_out"]) == ("7i", "7i", "12i")
    assert (found["progress_age_s"], found["watermark_age_s"]) == ("1.5", "40")
    assert found["state"] == '"running"'


def test_how_fresh_the_rows_of_a_sink_are_is_a_field_with_its_name() -> None:
    beat = telemetry_pb2.Heartbeat(dagger="surge", time=Timestamp(seconds=100))
    beat.freshness["crm"].CopyFrom(telemetry_pb2.Freshness(rows=9, p50_ms=400, p95_ms=5_900, p99_ms=60_000))
    beat.freshness["away"].waiting_since.FromSeconds(40)

    found = fields(points.of_beat(record(beat)))

    sinks = {key: value for key, value in found.items() if ":" in key}
    assert sinks == {
        "freshness_p50_s:crm": "0.4",
        "freshness_p95_s:crm": "5.9",
        "freshness_p99_s:crm": "60",
        "waiting_age_s:away": "60",
    }


def test_what_waits_in_the_log_of_a_sink_is_a_field_with_its_name() -> None:
    beat = telemetry_pb2.Heartbeat(dagger="surge", time=Timestamp(seconds=100))
    spool = telemetry_pb2.Spool(rows=9, bytes=700, rows_per_second=2.5, since=Timestamp(seconds=40))
    beat.spools["crm"].CopyFrom(spool)

    found = fields(points.of_beat(record(beat)))

    assert {key: value for key, value in found.items() if ":" in key} == {
        "spooled_rows:crm": "9i",
        "spooled_bytes:crm": "700i",
        "spooled_age_s:crm": "60",
        "drained_rows_per_s:crm": "2.5",
    }


def test_what_a_driver_does_not_know_yet_is_left_out() -> None:
    found = fields(points.of_beat(record(telemetry_pb2.Heartbeat(dagger="surge"))))

    assert not {"watermark_age_s", "progress_age_s", "error"} & set(found)


@pytest.mark.parametrize(
    ("beat", "service"),
    [
        (telemetry_pb2.SchedulerBeat(epoch=9, scheduler_id="s"), "scheduler"),
        (alerts_pb2.MonitorBeat(epoch=9, monitor_id="s"), "health-monitor"),
    ],
)
def test_a_leaders_beat_names_its_service(beat: Message, service: str) -> None:
    written = line(points.of_beat(record(beat)))

    assert written == f'leader_beat,service={service} epoch=9i,id="s" {NANOS + 7}'


def test_a_fact_is_an_event_by_its_type_and_subject() -> None:
    written = line(points.of_event(record(events_pb2.Running(), sequence=1_234)))

    assert written == f"control_event,subject=surge,type=Running sequence=1234i {NANOS + 234}"


def test_two_facts_of_one_instant_are_two_points() -> None:
    one, other = (line(points.of_event(record(events_pb2.Running(), sequence=each))) for each in (1, 2))

    assert one.rsplit(" ", 1)[1] != other.rsplit(" ", 1)[1]


def test_an_incident_opens_and_closes() -> None:
    fired = alerts_pb2.AlertFired(
        meta=META, severity=alerts_pb2.ALERT_SEVERITY_ERROR, team="pricing", summary="stuck"
    )
    resolved = alerts_pb2.AlertResolved(meta=META, summary="it goes on")

    lines = [line(points.of_alert(record(each))) for each in (fired, resolved)]

    assert lines == [
        'alert,condition=no_progress,dagger=surge incident=3i,open=1i,severity="error",summary="stuck",'
        f'team="pricing" {NANOS + 7}',
        f'alert,condition=no_progress,dagger=surge incident=3i,open=0i,summary="it goes on" {NANOS + 7}',
    ]


@pytest.mark.parametrize(
    ("attempt", "outcome"),
    [
        (alerts_pb2.NotificationSent(meta=META, receiver="slack", attempt=2), "sent"),
        (alerts_pb2.NotificationFailed(meta=META, receiver="slack", attempt=2, reason="HTTP_500"), "failed"),
    ],
)
def test_an_attempt_to_tell_says_what_became_of_it(attempt: Message, outcome: str) -> None:
    written = line(points.of_alert(record(attempt)))

    assert written.startswith(f"notification,dagger=surge,outcome={outcome},receiver=slack attempt=2i")


def test_what_cannot_be_read_is_no_point() -> None:
    damaged = record(None, kind="daggers.v1.FromTheFuture")

    found = [project(damaged) for project in (points.of_beat, points.of_event, points.of_alert)]

    assert found == [None, None, None]


def test_a_leaders_claim_is_about_no_incident() -> None:
    assert points.of_alert(record(alerts_pb2.MonitorStarted(monitor_id="m"))) is None


def test_texts_and_tags_cannot_break_a_line() -> None:
    summary = 'it said "no, \\ never"\nand ended'
    meta = alerts_pb2.AlertMeta(dagger="a b,c=d\n", condition=alerts_pb2.ALERT_CONDITION_FAILED)

    written = line(points.of_alert(record(alerts_pb2.AlertResolved(meta=meta, summary=summary))))

    assert written == (
        "alert,condition=failed,dagger=a\\ b\\,c\\=d\\n incident=0i,open=0i,"
        f'summary="it said \\"no, \\\\ never\\"\nand ended" {NANOS + 7}'
    )


def test_a_text_is_cut_to_a_thousand_characters() -> None:
    written = fields(points.of_alert(record(alerts_pb2.AlertResolved(meta=META, summary="x" * 1_001))))

    assert written["summary"] == f'"{"x" * 1_000}"'
