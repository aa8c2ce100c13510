"""What a gateway refuses a launch refuses, and nothing else, with the same reason at the same place."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.json_format import ParseDict
from tests.parity.corpus import ACCEPTED, ADDRESSES, MASTERS, NO_MASTERS, REFUSED, Address, Case

from api_gateway.validate import spec_check
from api_gateway.validate.query_checks import Checks
from daggerspec import catalogue
from daggerspec.catalogue import Unresolved
from daggerspec.defaults import filled
from eventlog.testing import given
from fleet import Fleet
from fleet.fold import resolve
from runtime.clients import kafka
from runtime.errors import JobError
from runtime.launch import planned
from scheduler.drivers.command import Installation, spark_submit

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
NAME = "a_dagger"
PLATFORM = spec_pb2.KafkaAddress(bootstrap_servers="127.0.0.1:9092")
HERE = Installation(Path("/spark"), Path("/python"), Path("/runtime"), Path("/log4j"))
F = descriptor_pb2.FieldDescriptorProto
TIMESTAMP = ".google.protobuf.Timestamp"
# A place in the words of an error, as they reach a person.
PLACE = re.compile(r"(?:^|(?<=\. ))(?:spec|cluster)\.\S*")


def fleet() -> Fleet:
    """Knows the cluster local, one without Spark, Kafka and bucket, streams of both, secrets and sinks."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    booking, summary = file.message_type.add(name="Booking"), file.message_type.add(name="Summary")
    for message, name, number, kind in (
        (booking, "event_time", 1, TIMESTAMP), (booking, "city", 2, F.TYPE_STRING),
        (summary, "tag_city", 1, F.TYPE_STRING), (summary, "orders", 2, F.TYPE_INT64),
        (summary, "window_timestamp", 3, TIMESTAMP),
    ):  # fmt: skip
        field = message.field.add(name=name, number=number, label=F.LABEL_OPTIONAL)
        if isinstance(kind, str):
            field.type, field.type_name = F.TYPE_MESSAGE, kind
        else:
            field.type = kind
    service = file.service.add(name="Summaries")
    service.method.add(name="Put", input_type=".shop.Summary", output_type=".shop.Summary")
    service.method.add(name="Book", input_type=".shop.Booking", output_type=".shop.Summary")
    service.method.add(
        name="Follow", input_type=".shop.Summary", output_type=".shop.Summary", server_streaming=True
    )
    timestamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    schema = spec_pb2.Schema(messages=["shop.Booking", "shop.Summary"])
    schema.files.file.extend([timestamp, file])
    local = spec_pb2.Cluster(name="local", kafka=PLATFORM, spark_master="local[2]")
    local.influx.MergeFrom(spec_pb2.InfluxAddress(url="http://127.0.0.1:8086", org="-", bucket="daggers"))
    local.influx.token.env = "INFLUX_TOKEN"
    bare = spec_pb2.Cluster(name="bare", influx=spec_pb2.InfluxAddress(url="http://x:1", org="-"))
    stream = spec_pb2.Stream(name="bookings", cluster="local", topics=["bookings-1"])
    lost = spec_pb2.Stream(name="lost", cluster="bare", topics=["t"])
    for each in (stream, lost):
        each.message, each.time_field = "shop.Booking", "event_time"
    secrets = [
        spec_pb2.Secret(name=f"{team}-token", team=team, place=place, addresses=["http://warehouse:8086"])
        for team, place in (("pricing", {"file": "/etc/daggers/token"}), ("others", {"env": "OTHERS"}))
    ]
    address = {"url": "http://warehouse:8086", "bucket": "rows", "token": {"name": "pricing-token"}}
    sinks = [
        spec_pb2.RegisteredSink(name="warehouse", teams=["pricing"], sink={"influx": {"address": address}}),
        spec_pb2.RegisteredSink(name="topics", sink={"kafka": {"cluster": "local"}}),
        spec_pb2.RegisteredSink(name="theirs", teams=["others"], sink={"influx": {"address": address}}),
    ]
    folded = Fleet()
    for record in given(
        events_pb2.ClusterRegistered(cluster=local),
        events_pb2.ClusterRegistered(cluster=bare),
        events_pb2.SchemaRegistered(schema=schema),
        events_pb2.StreamRegistered(stream=stream),
        events_pb2.StreamRegistered(stream=lost),
        *(events_pb2.SecretRegistered(secret=secret) for secret in secrets),
        *(events_pb2.SinkRegistered(sink=sink) for sink in sinks),
    ):
        folded.apply(record)
    return folded


def asked(case: Case) -> spec_pb2.DaggerSpec:
    """The spec as a gateway writes it into the log."""
    return filled(NAME, ParseDict(case.spec, spec_pb2.DaggerSpec()))


async def gateway(case: Case) -> list[tuple[str, str]]:
    """What a gateway refuses: places and reasons."""
    judged = await spec_check.judge("spec", NAME, asked(case), fleet(), Checks(), now=NOW)
    return [(violation.field, violation.reason) for violation in judged.violations]


def launch(case: Case) -> list[tuple[str, str]]:
    """What the scheduler refuses, or the driver: the places in the words of the error, and its reason."""
    folded = fleet()
    for record in given(events_pb2.DaggerRequested(name=NAME, spec=asked(case)), since=folded.sequence):
        folded.apply(record)
    dagger = folded.daggers[NAME]
    try:
        made = resolve.job(folded, dagger, 7, platform=PLATFORM, checkpoint_root="/c", run_dir="/r")
    except Unresolved as error:
        return [(error.detail.partition(" ")[0], error.reason)]
    try:
        planned.check_spec(made)
    except JobError as error:
        return [(place, error.error.reason) for place in PLACE.findall(error.error.detail)]
    return []


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
async def test_what_can_run_is_refused_by_nobody(case: Case) -> None:
    assert (await gateway(case), launch(case)) == ([], [])


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
async def test_gateway_and_launch_give_the_same_reason_at_the_same_place(case: Case) -> None:
    said = launch(case)

    assert await gateway(case) == list(case.wrong)
    if case.only:
        assert said == []
    elif len(said) == 1:  # a scheduler says what it comes across first
        assert said == [case.wrong[0]]
    else:
        assert [place for place, _ in said] == [place for place, _ in case.wrong]
        assert {reason for _, reason in said} == {case.wrong[0][1]}


@pytest.mark.parametrize("case", ADDRESSES, ids=lambda case: case.name)
def test_gateway_and_driver_take_the_same_kafka_addresses(case: Address) -> None:
    address = spec_pb2.KafkaAddress(**case.fields)
    registered = list(catalogue.cluster("cluster", spec_pb2.Cluster(name="local", kafka=address)))
    driver: list[tuple[str, str]] = []
    try:
        kafka.client_properties(address)
    except JobError as error:
        driver = [(place, error.error.reason) for place in PLACE.findall(error.error.detail)]

    assert [(violation.field, violation.reason) for violation in registered] == list(case.wrong)
    assert driver == list(case.wrong)


@pytest.mark.parametrize("url", [*MASTERS, *NO_MASTERS])
def test_gateway_and_scheduler_take_the_same_masters(url: str) -> None:
    registered = list(catalogue.cluster("cluster", spec_pb2.Cluster(name="local", spark_master=url)))
    reasons = []
    try:
        spark_submit(spec_pb2.JobSpec(run_dir="/r"), url, HERE)
    except Unresolved as error:
        reasons.append(error.reason)

    assert reasons == [each.reason for each in registered] == ["INVALID_ADDRESS"] * (url in NO_MASTERS)
