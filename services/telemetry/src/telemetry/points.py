"""Records of the platform's topics as points. Pure.

| measurement        | from                     | tags                         |
|--------------------|--------------------------|------------------------------|
| `dagger_heartbeat` | a driver's heartbeat     | dagger                       |
| `leader_beat`      | a leader's beat          | service                      |
| `control_event`    | `daggers.control`        | type, subject                |
| `alert`            | an incident's turns      | dagger, condition, rule, key |
| `notification`     | an attempt to tell of it | dagger, receiver, outcome    |

Incidents of a rule on a dagger's rows alone have `rule` and `key`. A record gives the same point whenever it
is read, so reading a topic again changes nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeAlias

from daggers.v1.alerts_pb2 import (
    AlertCondition,
    AlertFired,
    AlertResolved,
    AlertSeverity,
    MonitorBeat,
    NotificationFailed,
    NotificationSent,
    OutageReported,
)
from daggers.v1.telemetry_pb2 import Heartbeat, SchedulerBeat
from google.protobuf.timestamp_pb2 import Timestamp
from influxdb_client.client.write.point import Point

from daggerspec.alertrules import format_key
from eventlog import Record

Value: TypeAlias = bool | int | float | str

_NANOS: Final = 1_000_000_000
_TEXT_LIMIT: Final = 1_000


def of_beat(record: Record) -> Point | None:
    """Build the point of a record of `daggers.heartbeats`; None of a message of a newer version."""
    match record.message:
        case Heartbeat() as beat:
            return _point("dagger_heartbeat", {"dagger": beat.dagger}, _vitals(beat), _instant(beat.time))
        case SchedulerBeat(epoch=epoch, scheduler_id=leader):
            service = "scheduler"
        case MonitorBeat(epoch=epoch, monitor_id=leader):
            service = "health-monitor"
        case _:
            return None
    return _point("leader_beat", {"service": service}, {"epoch": epoch, "id": leader}, _moment(record))


def of_event(record: Record) -> Point | None:
    """Build the point of a record of `daggers.control`; None when it cannot be read."""
    if record.message is None:
        return None
    tags = {"type": record.type.rpartition(".")[2], "subject": record.subject}
    return _point("control_event", tags, {"sequence": record.sequence}, _moment(record))


def of_alert(record: Record) -> Point | None:
    """Build the point of a record of `daggers.alerts`; None when it is about no incident."""
    fields: dict[str, Value]
    match record.message:
        case (AlertFired() as fired) | OutageReported(fired=fired):
            meta = fired.meta
            fields = {"open": 1, "severity": _severity(fired.severity), "team": fired.team}
            fields |= {"summary": fired.summary, "incident": meta.incident}
        case AlertResolved(meta=meta) as resolved:
            fields = {"open": 0, "summary": resolved.summary, "incident": meta.incident}
        case NotificationSent(meta=meta) as sent:
            tags = {"dagger": meta.dagger, "receiver": sent.receiver, "outcome": "sent"}
            return _point("notification", tags, {"attempt": sent.attempt}, _moment(record))
        case NotificationFailed(meta=meta) as failed:
            tags = {"dagger": meta.dagger, "receiver": failed.receiver, "outcome": "failed"}
            fields = {"attempt": failed.attempt, "reason": failed.reason, "detail": failed.detail}
            return _point("notification", tags, fields, _moment(record))
        case _:
            return None
    condition = AlertCondition.Name(meta.condition).removeprefix("ALERT_CONDITION_").lower()
    tags = {"dagger": meta.dagger, "condition": condition}
    if meta.rule:
        tags |= {"rule": meta.rule, "key": format_key(meta.key)}
    return _point("alert", tags, fields, _moment(record))


def _vitals(beat: Heartbeat) -> dict[str, Value]:
    """Collect a driver's numbers: counters since its launch, ages in seconds by the driver's clock.

    What is known of a sink is a field with its name behind a colon.
    """
    fields: dict[str, Value] = {
        "generation": beat.generation,
        "state": Heartbeat.State.Name(beat.state).removeprefix("STATE_").lower(),
        "batch_id": beat.batch_id,
        "batch_duration_ms": beat.batch_duration_ms,
        "running_batch_age_ms": beat.running_batch_age_ms,
        "rows_in": beat.rows_in,
        "rows_out": max(beat.rows_out, default=0),
        "late_rows": beat.late_rows,
        "late_windows": beat.late_windows,
        "quarantined": sum(beat.quarantined.values()),
        "bad_values": sum(beat.bad_values.values()),
        "lag": sum(beat.lag.values()),
        "state_rows": beat.state_rows,
        "state_bytes": beat.state_bytes,
        "memory_bytes": beat.memory_bytes,
        "cpu_seconds": beat.cpu_seconds,
        "retrying": len(beat.retrying),
        "warnings": "; ".join(beat.warnings),
        "host": beat.host,
    }
    if beat.HasField("last_progress"):
        fields["progress_age_s"] = _seconds(beat.time, beat.last_progress)
    if beat.HasField("watermark"):
        fields["watermark_age_s"] = _seconds(beat.time, beat.watermark)
    for sink, fresh in beat.freshness.items():
        if fresh.rows:
            for share, age_ms in (("p50", fresh.p50_ms), ("p95", fresh.p95_ms), ("p99", fresh.p99_ms)):
                fields[f"freshness_{share}_s:{sink}"] = age_ms / 1000
        if fresh.HasField("waiting_since"):
            fields[f"waiting_age_s:{sink}"] = _seconds(beat.time, fresh.waiting_since)
    for sink, spool in beat.spools.items():
        fields[f"spooled_rows:{sink}"] = spool.rows
        fields[f"spooled_bytes:{sink}"] = spool.bytes
        fields[f"spooled_age_s:{sink}"] = _seconds(beat.time, spool.since) if spool.HasField("since") else 0.0
        fields[f"drained_rows_per_s:{sink}"] = spool.rows_per_second
    if beat.HasField("error"):
        fields["error"] = beat.error.reason
    return fields


def _severity(severity: AlertSeverity.ValueType) -> str:
    return AlertSeverity.Name(severity).removeprefix("ALERT_SEVERITY_").lower()


def _seconds(later: Timestamp, earlier: Timestamp) -> float:
    return (_instant(later) - _instant(earlier)) / _NANOS


def _instant(time: Timestamp) -> int:
    return time.seconds * _NANOS + time.nanos


def _moment(record: Record) -> int:
    """Return a record's time in ns since 1970, with its sequence modulo 1000 as the last three digits."""
    time: datetime = record.time  # to the microsecond: records of one would overwrite each other
    return int(time.timestamp()) * _NANOS + time.microsecond * 1_000 + record.sequence % 1_000


def _point(measurement: str, tags: dict[str, str], fields: dict[str, Value], time: int) -> Point:
    """Build a point at `time` (ns since 1970), without empty tags, texts cut to a thousand characters."""
    cut = {key: value[:_TEXT_LIMIT] if isinstance(value, str) else value for key, value in fields.items()}
    point: Point = Point.from_dict({"measurement": measurement, "tags": tags, "fields": cut, "time": time})
    return point
