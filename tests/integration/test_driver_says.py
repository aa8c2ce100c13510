"""What a driver warns of, and what scheduler and monitor make of it: its codes stand in three places."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, spec_pb2, telemetry_pb2

from fleet import Dagger
from fleet.conditions.dagger_conditions import diagnose
from fleet.fold.phases import DEGRADED
from fleet.health import watch
from fleet.health.degradation import DRIVER_REASONS, SHOWN, Evidence, Limits, degradation_reasons
from runtime.launch import symptoms
from runtime.launch.symptoms import Symptoms
from runtime.references import loading
from runtime.source.metrics import NewestRecord, ReaderMetrics
from runtime.source.watermark import WatermarkState

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW = NOON + timedelta(minutes=20)


def silenced() -> Symptoms:
    """A driver whose first record was 50 min ahead, so that all since is late and no window closes."""
    noon_ms = int(NOON.timestamp() * 1000)
    reached = noon_ms + 3_000_000
    watermarks = {"t.0": WatermarkState(reached, reached, 5_000, False)}
    known = Symptoms(timedelta(seconds=75))
    for minute in range(21):
        now_ms = noon_ms + minute * 60_000
        first = NewestRecord(reached, "bookings/0, offset 7", 3_000_000) if minute == 0 else None
        late = 20 if minute else 0
        reader = ReaderMetrics(
            now_ms if late else None, first or NewestRecord(now_ms, "bookings/0, offset 9", 0)
        )
        watermark = datetime.fromtimestamp((reached - 5_000) / 1000, UTC) if minute else None
        at = NOON + timedelta(minutes=minute)
        batch = symptoms.Batch(at, 20, {"t": late}, late, True, False, watermark, {"t.0": reader}, watermarks)
        known = symptoms.add_batch(known, batch)
    return known


def test_late_rows_and_input_without_output_make_a_dagger_degraded_and_are_alerts() -> None:
    warned = symptoms.warnings(silenced(), NOW)
    beat = telemetry_pb2.Heartbeat(
        dagger="d",
        generation=3,
        state=telemetry_pb2.Heartbeat.STATE_RUNNING,
        warnings=map(str, warned),
        measures={warning.code: warning.measure for warning in warned if warning.measure},
    )
    beat.time.FromDatetime(NOW)
    beat.last_progress.FromDatetime(NOW)
    dagger = Dagger(
        name="d", warnings=(), version=1, phase=DEGRADED, phase_time=NOON, sequence=5, create_sequence=1,
        create_time=NOON, update_time=NOON, generation=3, desired=gateway_pb2.DESIRED_RUNNING,
        driver=events_pb2.DriverHandle(host="h"), spec=spec_pb2.DaggerSpec(),
    )  # fmt: skip
    watched = watch.hear(watch.begin(NOON, 3), beat, NOW)
    heard = Evidence(heartbeat=beat, age=NOW - NOW, quiet=NOW - NOW)
    reasons = degradation_reasons(dagger, heard, phase_age=NOW - NOON, remote=False, limits=SHOWN)
    found = diagnose(dagger, watched, now=NOW, hearing=NOON, limits=Limits(share_time=NOW - NOW))
    told = {alerts_pb2.AlertCondition.Name(each): one.summary for each, one in found.items() if one.active}

    assert reasons == ["LATE_ROWS", "NO_OUTPUT"]
    assert set(told) == {"ALERT_CONDITION_LATE_ROWS", "ALERT_CONDITION_NO_OUTPUT"}
    assert "by bookings/0, offset 7: 50 min ahead of the clock" in told["ALERT_CONDITION_LATE_ROWS"]


def test_a_stale_reference_table_goes_by_one_name() -> None:
    assert loading.STALE in DRIVER_REASONS
