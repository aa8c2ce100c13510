"""Records of the heartbeats topic: those of many drivers may travel in one of their host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from daggers.v1 import telemetry_pb2

from eventlog.record import Record

_TYPE: Final = telemetry_pb2.Heartbeat.DESCRIPTOR.full_name


def unpack(record: Record) -> Iterator[Record]:
    """Yield a record, behind one for each heartbeat of a driver that travels in it.

    Every reader of the topic begins with it, so that none can tell by whom a heartbeat was sent.
    """
    if isinstance(record.message, telemetry_pb2.HostBeat):
        for beat in record.message.heartbeats:
            yield record._replace(subject=beat.dagger, type=_TYPE, message=beat, value=b"")
    yield record
