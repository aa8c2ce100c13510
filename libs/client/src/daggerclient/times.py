"""Instants as they are written: ISO 8601, UTC, with Z and no more digits than needed."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp


def iso(instant: Timestamp | datetime) -> str:
    """2026-01-01T12:00:00Z; with 3 or 6 digits of a second where there are any."""
    moment = instant.ToDatetime(tzinfo=UTC) if isinstance(instant, Timestamp) else instant.astimezone(UTC)
    micros = moment.microsecond
    precision = "seconds" if not micros else "milliseconds" if micros % 1000 == 0 else "microseconds"
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"
