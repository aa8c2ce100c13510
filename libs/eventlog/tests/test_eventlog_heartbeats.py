"""Heartbeats of drivers reach every reader alike, whether as records of their own or in one of their host."""

from __future__ import annotations

from daggers.v1 import telemetry_pb2

from eventlog.heartbeats import unpack
from eventlog.testing import record


def test_a_record_of_a_host_gives_one_for_each_driver_and_then_itself() -> None:
    beats = [telemetry_pb2.Heartbeat(dagger=name, generation=7, pid=1) for name in ("one", "two")]
    host = record(telemetry_pb2.HostBeat(host="h", epoch=3, heartbeats=beats), sequence=9)
    found = list(unpack(host))

    assert [each.message for each in found] == [*beats, host.message]
    assert [(each.subject, each.type) for each in found[:2]] == [
        ("one", "daggers.v1.Heartbeat"),
        ("two", "daggers.v1.Heartbeat"),
    ]
    assert {each.time for each in found} == {host.time}


def test_every_other_record_is_itself() -> None:
    alone = record(telemetry_pb2.Heartbeat(dagger="one"), sequence=4)
    bare = record(telemetry_pb2.HostBeat(host="h"), sequence=5)

    assert [list(unpack(each)) for each in (alone, bare)] == [[alone], [bare]]
