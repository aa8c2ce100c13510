"""Instants and durations as they are written.

ISO 8601, UTC, with Z and no more digits than needed; 5s, 500ms, 1m.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
"""Units that may stand behind the number of a duration."""


def iso(instant: Timestamp | datetime) -> str:
    """Write an instant as 2026-01-01T12:00:00Z; with 3 or 6 digits of a second where there are any."""
    moment = instant.ToDatetime(tzinfo=UTC) if isinstance(instant, Timestamp) else instant.astimezone(UTC)
    micros = moment.microsecond
    precision = "seconds" if not micros else "milliseconds" if micros % 1000 == 0 else "microseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def duration(value: Duration) -> str:
    """Write a duration in its largest whole unit up to hours: 5s, 500ms, 1m, 48h."""
    span = value.ToTimedelta()
    if not span:
        return "0s"
    unit = next((name for name in ("h", "m", "s") if not span % UNITS[name]), "ms")
    return f"{span // UNITS[unit]}{unit}"
