"""The table of host operations. A new operation is a new entry: nothing else in the scheduler lists them.

Methods that are no entry: logs (`log_reader`) are files of this host, read without a process; rows and
archives (`row_reader`, `row_watch`) are read by the job and as the user of their launch, and watches share a
reader; previews (`previews`) take turns in a process that stays warm.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from daggers.v1 import host_pb2, spec_pb2

from daggerspec import fields
from daggerspec.defaults import SINKS_TESTED
from daggerspec.limits import MAX_SAMPLED_RECORDS, MAX_TOPICS, SAMPLED_RECORDS
from daggerspec.violation import Violation
from scheduler.host import jobs
from scheduler.host.operations import HostKnowledge, HostOperation, Limit, ProcessInput

_STREAMS: Final = Limit(4, "samples of streams")


def _prepare_sample(request: host_pb2.SampleHostStreamRequest, host: HostKnowledge) -> ProcessInput:
    stream = request.stream
    job = jobs.build_stream_job(host.fleet, stream, [stream.message] if request.last_records else [])
    return ProcessInput(job, [job], [f"--last-records={request.last_records}"])


def _find_sample_violations(request: host_pb2.SampleHostStreamRequest) -> Iterator[Violation]:
    if not 0 <= request.last_records <= MAX_SAMPLED_RECORDS:
        yield Violation("last_records", f"must be 0 to {MAX_SAMPLED_RECORDS}", "OUT_OF_RANGE")
    if not 0 < len(request.stream.topics) <= MAX_TOPICS:
        yield Violation("stream.topics", f"must be 1 to {MAX_TOPICS}", "OUT_OF_RANGE")


def _prepare_discovery(request: host_pb2.DiscoverHostTopicsRequest, host: HostKnowledge) -> ProcessInput:
    inner = request.request
    stream = spec_pb2.Stream(cluster=inner.cluster, topics=inner.topics, message=inner.message)
    if inner.HasField("schema"):
        job = jobs.build_stream_job(host.fleet, stream, [])
        job.descriptors.CopyFrom(inner.schema.files)
    else:
        # Without a message the records are compared with all registered ones.
        messages = [inner.message] if inner.message else sorted(host.fleet.messages)
        job = jobs.build_stream_job(host.fleet, stream, messages)
    return ProcessInput(job, [job], [f"--examples={inner.examples or 1}"])


def _find_discovery_violations(request: host_pb2.DiscoverHostTopicsRequest) -> Iterator[Violation]:
    if len(request.request.topics) > MAX_TOPICS:
        yield Violation("request.topics", f"must not be more than {MAX_TOPICS}", "TOO_MANY")
    if not 0 <= request.request.examples <= SAMPLED_RECORDS:
        yield Violation("request.examples", f"must be 0 to {SAMPLED_RECORDS}", "OUT_OF_RANGE")


def _prepare_sink_test(request: host_pb2.TestHostSinkRequest, host: HostKnowledge) -> ProcessInput:
    inner = request.request
    if inner.HasField("spec"):
        name, now = inner.name or SINKS_TESTED, datetime.now(UTC)
        job = jobs.build_spec_job(host.fleet, name, inner.spec, now=now, egress=host.egress)
    else:
        job = jobs.build_sink_job(host.fleet, inner.sink, host.egress)
    return ProcessInput(job, job.sinks, ["--send-one"] if inner.send_one else [])


def _prepare_read_plan(request: host_pb2.PlanHostReadsRequest, host: HostKnowledge) -> ProcessInput:
    name, create_sequence = request.name, request.create_sequence
    job = jobs.build_launch_job(host.fleet, name, create_sequence, host.checkpoints, spec=request.spec)
    return ProcessInput(job, job.streams)  # no sink is connected to: no secrets of sinks


def _prepare_forecast(request: host_pb2.ForeseeHostReplayRequest, host: HostKnowledge) -> ProcessInput:
    name, create_sequence = request.asked.name, request.create_sequence
    job = jobs.build_launch_job(host.fleet, name, create_sequence, host.checkpoints, platform=host.platform)
    # No sink is connected to: no secrets of sinks.
    return ProcessInput(host_pb2.ForeseeJob(job=job, request=request), [*job.streams, job.platform])


TABLE: Final[tuple[HostOperation[Any], ...]] = (
    HostOperation(
        method="SampleHostStream",
        module="runtime.samplestream",
        reads="records",
        limit=_STREAMS,
        patience_s=30.0,
        prepare=_prepare_sample,
        violations=_find_sample_violations,
    ),
    HostOperation(
        method="DiscoverHostTopics",
        module="runtime.discovertopics",
        reads="topics",
        limit=_STREAMS,
        patience_s=30.0,
        prepare=_prepare_discovery,
        violations=_find_discovery_violations,
    ),
    HostOperation(
        method="TestHostSink",
        module="runtime.testsinks",
        reads="sinks",
        limit=Limit(4, "tests of sinks"),
        patience_s=60.0,
        prepare=_prepare_sink_test,
    ),
    HostOperation(
        method="PlanHostReads",
        module="runtime.planreads",
        reads="offsets",
        limit=Limit(2, "plans"),
        patience_s=30.0,
        prepare=_prepare_read_plan,
        violations=lambda request: fields.name("name", request.name),
    ),
    HostOperation(
        method="ForeseeHostReplay",
        module="runtime.foresee",
        reads="quarantine",
        limit=Limit(2, "forecasts"),
        patience_s=30.0,
        prepare=_prepare_forecast,
        violations=lambda request: fields.name("asked.name", request.asked.name),
    ),
)
