"""What a gateway refuses a launch refuses, and nothing else, with the same reason at the same place."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.json_format import ParseDict
from tests.parity.corpus import ACCEPTED, ADDRESSES, MASTERS, NO_MASTERS, REFUSED, Address, Case
from tests.parity.parity import NAME, PLATFORM, fleet

from api_gateway.validate import spec_check
from api_gateway.validate.query_checks import Checks
from daggerspec import catalogue
from daggerspec.catalogue import UnresolvedName
from daggerspec.defaults import fill_defaults
from eventlog.testing import given
from fleet.fold import resolve
from runtime.clients import kafka
from runtime.errors import JobError
from runtime.launch import planned
from scheduler.drivers.command import Installation, spark_submit

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
HERE = Installation(Path("/spark"), Path("/python"), Path("/runtime"), Path("/log4j"))
# A place in the words of an error, as they reach a person.
PLACE = re.compile(r"(?:^|(?<=\. ))(?:spec|cluster)\.\S*")


def asked(case: Case) -> spec_pb2.DaggerSpec:
    """The spec as a gateway writes it into the log."""
    return fill_defaults(NAME, ParseDict(case.spec, spec_pb2.DaggerSpec()))


async def gateway(case: Case) -> list[tuple[str, str]]:
    """What a gateway refuses: places and reasons."""
    judged = await spec_check.validate("spec", NAME, asked(case), fleet(), Checks(), now=NOW)
    return [(violation.field, violation.reason) for violation in judged.violations]


def launch(case: Case) -> list[tuple[str, str]]:
    """What the scheduler refuses, or the driver: the places in the words of the error, and its reason."""
    folded = fleet()
    for record in given(events_pb2.DaggerRequested(name=NAME, spec=asked(case)), since=folded.sequence):
        folded.apply(record)
    dagger = folded.daggers[NAME]
    try:
        made = resolve.job(folded, dagger, 7, platform=PLATFORM, checkpoint_root="/c", run_dir="/r")
    except UnresolvedName as error:
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
    except UnresolvedName as error:
        reasons.append(error.reason)

    assert reasons == [each.reason for each in registered] == ["INVALID_ADDRESS"] * (url in NO_MASTERS)
