"""Helpers of test_sample_stream.py and of its neighbours."""

from __future__ import annotations

from typing import Any

from daggers.v1 import events_pb2, spec_pb2
from google.protobuf import descriptor_pb2

NAME = "daggers.v1.SchedulerStarted"


def resolved(kafka: str, *topics: str) -> tuple[spec_pb2.ResolvedStream, descriptor_pb2.FileDescriptorSet]:
    """A stream of `SchedulerStarted`, and its descriptors."""
    files = descriptor_pb2.FileDescriptorSet()
    seen = set[str]()

    def add(file: Any) -> None:
        if file.name not in seen:
            seen.add(file.name)
            for needed in file.dependencies:
                add(needed)
            file.CopyToProto(files.file.add())

    add(events_pb2.DESCRIPTOR)
    stream = spec_pb2.Stream(name="s", cluster="c", topics=topics, message=NAME, time_field="t")
    return spec_pb2.ResolvedStream(stream=stream, kafka=spec_pb2.KafkaAddress(bootstrap_servers=kafka)), files
