"""Instants and durations as they are written.

ISO 8601, UTC, with Z and no more digits than needed; 5s, 500ms, 1m.
"""

from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

UNITS = ((timedelta(hours=1), "h"), (timedelta(minutes=1), "m"), (timedelta(seconds=1), "s"))


def iso(instant: Timestamp | datetime) -> str:
    """2026-01-01T12:00:00Z; with 3 or 6 digits of a second where there are any."""
    moment = instant.ToDatetime(tzinfo=UTC) if isinstance(instant, Timestamp) else instant.astimezone(UTC)
    micros = moment.microsecond
    precision = "seconds" if not micros else "milliseconds" if micros % 1000 == 0 else "microseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def duration(value: Duration) -> str:
    """A duration in its largest whole unit: 5s, 500ms, 1m."""
    span = value.ToTimedelta()
    for unit, name in UNITS:
        if span and span % unit == timedelta(0):
            return f"{span // unit}{name}"
    return f"{span // timedelta(milliseconds=1)}ms" if span else "0s"
