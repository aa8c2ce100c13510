"""Tests of a query: what is judged, asked of a host, compared, refused; and that they end no driver."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, host_pb2, spec_pb2
from google.protobuf.message_factory import GetMessageClass
from tests.samplehosts import Host, serving
from tests.sensitiveworld import world

from api_gateway.hosts.client import HostAccess
from api_gateway.validate import schemas
from api_gateway.validate.schemas import descriptor
from chassis.errors import ApiError, from_rpc_error
from daggerspec import limits
from daggerspec.row import Row
from eventlog import Draft

pb = gateway_pb2
RECORD = json.dumps({"city": "Jakarta", "event_time": "2026-01-01T00:00:01Z", "status": "COMPLETED"})
EXPECTED = {"tag_city": "Jakarta", "orders": 1, "window_timestamp": "2026-01-01T00:00:10Z"}
END = datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)


class HostOfOneRow(Host):
    """A host that gives one row for each test, which counts the records it was given."""

    def __init__(self, fails: grpc.StatusCode | None = None) -> None:
        super().__init__()
        self.tests: list[host_pb2.PreviewHostDaggerRequest] = []
        self._fails = fails

    async def PreviewHostDagger(  # noqa: N802 - gRPC's name
        self, request: host_pb2.PreviewHostDaggerRequest, context: Any
    ) -> AsyncIterator[pb.PreviewDaggerResponse]:
        self.tests.append(request)
        count = sum(len(table.records) for table in request.given.tables)
        yield pb.PreviewDaggerResponse(progress=pb.PreviewProgress(phase=pb.PreviewProgress.PHASE_READING))
        if self._fails is not None:
            raise ApiError(self._fails, "BAD_PLAN", "Spark cannot run this query", {})
        row = Row(END, {"tag_city": "Jakarta"}, {"orders": count}).to_proto()
        yield pb.PreviewDaggerResponse(rows=pb.PreviewRows(rows=[row], partial=True))
        yield pb.PreviewDaggerResponse(done=pb.PreviewDone(records=count, rows=1))


def check(name: str, *records: str, **expect: Any) -> spec_pb2.QueryTest:
    """Build a test of records of the one table; it expects `rows` as mappings."""
    rows = [json.dumps(row) for row in expect.pop("rows", ())]
    given = [spec_pb2.GivenRecords(table="data_stream", records=records)]
    return spec_pb2.QueryTest(name=name, given=given, expect=spec_pb2.ExpectedOutput(rows=rows, **expect))


def with_tests(samples: Any, *tests: spec_pb2.QueryTest) -> spec_pb2.DaggerSpec:
    spec: spec_pb2.DaggerSpec = samples.spec()
    spec.tests.extend(tests)
    return spec


async def run(client: Any, spec: spec_pb2.DaggerSpec, *names: str) -> list[pb.TestDaggerResponse]:
    request = pb.TestDaggerRequest(spec=spec, tests=names)
    return [step async for step in client.daggers.TestDagger(request, timeout=20)]


async def refusal_of(client: Any, spec: spec_pb2.DaggerSpec, *names: str) -> ApiError:
    with pytest.raises(grpc.RpcError) as caught:
        await run(client, spec, *names)
    return from_rpc_error(caught.value)


async def test_each_test_is_computed_by_a_host_and_compared(harness: Any, samples: Any) -> None:
    host = HostOfOneRow()
    spec = with_tests(
        samples,
        check("one booking", RECORD, rows=[EXPECTED]),
        check("two bookings", RECORD, RECORD, rows=[EXPECTED], late=1),
    )
    spec.tests[1].now.FromJsonString("2026-01-02T00:00:00Z")
    async with serving(("a", host)) as log, harness.running(log, host_access=HostAccess(here="a")) as client:
        await samples.fill(client)
        end = await client.log.end()
        steps = await run(client, spec)
        written = await client.log.end() - end
        [only] = [step.result for step in await run(client, spec, "two bookings") if step.HasField("result")]

    assert [step.WhichOneof("step") for step in steps] == [
        *("progress", "progress", "result") * 2,
        "done",
    ]
    first, second = (step.result for step in steps if step.HasField("result"))
    assert (first.test, first.passed, list(first.differences)) == ("one booking", True, [])
    assert [json.loads(row) for row in first.actual] == [EXPECTED]
    assert (second.test, second.passed, second.differences_total) == ("two bookings", False, 2)
    assert [one.sentence for one in second.differences] == [
        "expected row 1: orders is 2, not 1",
        "0 late, 1 expected",
    ]
    assert (steps[-1].done.passed, steps[-1].done.failed) == (1, 1)
    assert only.test == "two bookings"
    assert written == 0
    first_request = host.tests[0]
    [table] = first_request.given.tables
    booking = GetMessageClass(descriptor(schemas.prune(samples.files()), "shop.Booking"))
    assert table.table == "data_stream"
    assert json.loads(RECORD)["city"] == booking.FromString(table.records[0]).city
    assert [one.given.HasField("now") for one in host.tests] == [False, True, True]
    assert not first_request.request.spec.tests
    assert [sink.WhichOneof("kind") for sink in first_request.request.spec.sinks] == ["log"]


async def test_a_test_that_cannot_be_run_has_failed_and_the_others_go_on(harness: Any, samples: Any) -> None:
    host = HostOfOneRow(grpc.StatusCode.INVALID_ARGUMENT)
    spec = with_tests(samples, check("one", RECORD), check("two", RECORD))
    async with serving(("a", host)) as log, harness.running(log, host_access=HostAccess(here="a")) as client:
        await samples.fill(client)
        steps = await run(client, spec)

    results = [step.result for step in steps if step.HasField("result")]
    assert [(one.passed, "Spark cannot run" in one.error) for one in results] == [(False, True)] * 2
    assert steps[-1].done.failed == 2


async def test_everything_that_is_wrong_with_tests_is_said_at_once(ready: Any, samples: Any) -> None:
    wrong = check(
        "wrong records",
        RECORD,
        '{"citty": "x", "status": "DONE", "place": {"lat": "far", "lats": 1}}',
        "[1]",
        rows=[{"tag_citty": 1}],
        quarantined={"MALFORMED": 1},
    )
    wrong.given.add(table="orders")
    spec = with_tests(samples, wrong, check("twice"), check("twice", late=-1))

    error = await refusal_of(ready, spec, "thrice")
    validated = await ready.daggers.Validate(
        pb.ValidateRequest(name="counts", spec=spec, without_topics=True), timeout=10
    )

    fields = [(one.reason, one.field) for one in error.violations]
    assert fields == [
        ("MALFORMED", "spec.tests[0].given[0].records[2]"),
        ("UNKNOWN_TABLE", "spec.tests[0].given[1].table"),
        ("UNKNOWN_COLUMN", "spec.tests[0].expect.rows[0]"),
        ("UNKNOWN_REASON", "spec.tests[0].expect.quarantined"),
        ("DUPLICATE", "spec.tests[1].name"),
        ("DUPLICATE", "spec.tests[2].name"),
        ("OUT_OF_RANGE", "spec.tests[2].expect.late"),
        *[("MALFORMED_RECORD", "spec.tests[0].given[0].records[1]")] * 4,
        ("UNKNOWN_TEST", "tests[0]"),
    ]
    texts = [one.message for one in error.violations if one.reason == "MALFORMED_RECORD"]
    start = "of test wrong records, data_stream, record 2: "
    assert [text.startswith(start) for text in texts] == [True] * 4
    assert texts[0].removeprefix(start) == "citty: shop.Booking has no such field: did you mean city?"
    assert texts[1].removeprefix(start).startswith("status: ")
    unknown = "shop.Booking.Place has no such field: did you mean lat?"
    assert texts[2].removeprefix(start) == f"place.lats: {unknown}"
    assert texts[3].removeprefix(start).startswith("place.lat: ")
    assert {finding.field for finding in validated.findings} >= {
        "spec.tests[0].given[0].records[1]",
        "spec.tests[0].expect.rows[0]",
    }


@pytest.mark.parametrize(
    ("tests", "reason", "field"),
    [
        ([], "REQUIRED", "spec.tests"),
        ([check(f"t{n}") for n in range(limits.QUERY_TESTS + 1)], "TOO_MANY", "spec.tests"),
        ([check("t", *["{}"] * (limits.TEST_RECORDS + 1))], "TOO_MANY", "spec.tests[0].given"),
        (
            [check("t", rows=[{"n": 1}] * (limits.TEST_ROWS + 1))],
            "TOO_MANY",
            "spec.tests[0].expect.rows",
        ),
        ([check("t", json.dumps({"city": "x" * limits.TESTS_BYTES}))], "TOO_LARGE", "spec.tests"),
    ],
)
async def test_tests_have_bounds(ready: Any, samples: Any, tests: Any, reason: str, field: str) -> None:
    error = await refusal_of(ready, with_tests(samples, *tests))

    assert (reason, field) in [(one.reason, one.field) for one in error.violations]


async def say(client: Any, message: Any) -> int:
    sequence: int = await client.log.end() + 1
    await client.log.append(Draft(f"said-{sequence}", "/test", "a", datetime.now(UTC), message))
    await client.gateway.follower.wait_for(sequence)
    return sequence


async def test_an_edit_of_tests_alone_ends_no_driver(ready: Any, samples: Any) -> None:
    shared = samples.spec()
    shared.isolation = spec_pb2.ISOLATION_SHARED
    created = await ready.create(spec=shared)
    name = created.dagger.name
    epoch = await say(ready, events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
    meta = events_pb2.FactMeta(name=name, epoch=epoch)
    meta.generation = await say(ready, events_pb2.LaunchIntended(meta=meta, version=1))
    await say(ready, events_pb2.Launched(meta=meta, driver={"host": "a", "pid": 7}))
    await say(ready, events_pb2.Running(meta=meta))
    spec = with_tests(samples, check("one booking", RECORD, rows=[EXPECTED]))
    spec.isolation = spec_pb2.ISOLATION_SHARED

    plan = await ready.daggers.PlanDagger(pb.PlanDaggerRequest(name=name, spec=spec), timeout=10)
    applied = await ready.daggers.ApplyDagger(pb.ApplyDaggerRequest(name=name, spec=spec), timeout=10)
    other = with_tests(samples, check("one booking", RECORD, rows=[EXPECTED]))
    other.sinks[0].influx.measurement = "another"
    other.isolation = spec_pb2.ISOLATION_SHARED
    planned = await ready.daggers.PlanDagger(pb.PlanDaggerRequest(name=name, spec=other), timeout=10)
    revised = await ready.daggers.ApplyDagger(pb.ApplyDaggerRequest(name=name, spec=other), timeout=10)

    assert plan.effect == pb.PlanDaggerResponse.EFFECT_WITHOUT_RESTART
    assert (plan.action, plan.replacement) == (pb.ApplyDaggerResponse.ACTION_UPDATED, 0)
    assert (plan.HasField("company"), planned.HasField("company")) == (False, True)
    assert (applied.dagger.version, applied.dagger.observed_version) == (2, 2)
    assert [test.name for test in applied.dagger.spec.tests] == ["one booking"]
    assert (revised.dagger.version, revised.dagger.observed_version) == (3, 2)


async def test_no_test_that_others_see_has_a_sensitive_field(harness: Any, samples: Any) -> None:
    spec = with_tests(samples, check("one", RECORD))
    async with world(harness, samples, "city", "place.lat", grouped=True) as (_, seeing, other):
        stored = await error_of(seeing.ask("ApplyDagger", name="counts", spec=spec))
        unseen = await error_of(other.steps("TestDagger", spec=spec))
        ran = await seeing.steps("TestDagger", spec=spec)

    text = "of test one, data_stream, record 1: city is a sensitive field, and "
    assert [one.message for one in stored.violations if one.reason == "SENSITIVE_TEST"] == [
        text + "whoever sees the dagger sees its tests: leave it out"
    ]
    assert text + "you lack the grant to read it in stream bookings: leave it out" in [
        one.message for one in unseen.violations
    ]
    assert ran[-1].done.failed == 1


async def error_of(call: Any) -> ApiError:
    with pytest.raises(grpc.RpcError) as caught:
        await call
    return from_rpc_error(caught.value)
