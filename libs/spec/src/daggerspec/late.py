"""Late rows by choice: windows may take records for a while behind their ends, and a sink of the dagger the
records that were late, and no other rows.

They go there as they were read, as the records of a forwarding with `payload: record` do, each with the first
window that it is missing from. Readers write them, so a query has to let its readers know what is late.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from daggers.v1 import spec_pb2

from daggerspec import fields

WINDOW_START: Final = "daggers_window_start"
WINDOW_END: Final = "daggers_window_end"
"""Headers: the bounds of the first window that a record is missing from, as ISO 8601 UTC."""
MISSED: Final = "daggers_missed_windows"
"""Header: the number of windows that it is missing from."""
RECORD: Final = "daggers_record"
"""Header: topic, partition and offset that it was read at, with slashes between them."""

REFUSED: Final = "LATE_REFUSED"
"""Reason why a late record is quarantined that the sink refused."""


def allowed_lateness(spec: spec_pb2.DaggerSpec) -> timedelta:
    """Return how long behind their ends windows take records; 0 also for what is no duration."""
    update = spec.late.update
    if any(fields.duration("", update)):
        return timedelta()
    return update.ToTimedelta()


def takes_late(spec: spec_pb2.DaggerSpec, sink: spec_pb2.Sink) -> bool:
    """Tell whether a sink of the dagger takes late records, and no rows."""
    return bool(spec.late.keep) and sink.name == spec.late.keep


def spec_of(spec: spec_pb2.DaggerSpec, sink: spec_pb2.Sink) -> spec_pb2.DaggerSpec:
    """Return the specification by which a sink is filled in and checked: for one that takes late records,
    that of a dagger which forwards the records of these streams as they are.
    """
    if not takes_late(spec, sink):
        return spec
    forwarding = spec_pb2.DaggerSpec(team=spec.team, cluster=spec.cluster, streams=spec.streams)
    forwarding.forward.payload = spec_pb2.Forward.PAYLOAD_RECORD
    return forwarding
