"""Finds what says more than this version knows, however deep."""

from daggers.v1 import spec_pb2
from services.scheduler.tests.newer_fields import extend

from scheduler.drivers.newer_fields import unknown_field

# Field 9999, a varint.


def test_what_this_version_knows_is_no_newer_field() -> None:
    job = spec_pb2.JobSpec(dagger="d", spec={"cluster": "c", "sinks": [{"name": "s"}]})

    assert unknown_field(job) == ""


def test_a_newer_field_of_a_part_is_found_by_the_name_of_the_part() -> None:
    sink = spec_pb2.Sink.FromString(extend(spec_pb2.Sink(name="s")))
    job = spec_pb2.JobSpec(dagger="d", spec=spec_pb2.DaggerSpec(sinks=[sink]))

    assert unknown_field(job) == "daggers.v1.Sink"
    assert unknown_field(spec_pb2.JobSpec.FromString(extend(job))) == "daggers.v1.JobSpec"
