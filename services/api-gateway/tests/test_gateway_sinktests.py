"""TestSink: what a gateway asks a host of drivers, and what it refuses before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, gateway_pb2_grpc, host_pb2, spec_pb2
from tests import samplehosts
from tests.samplehosts import serving

from chassis.errors import ApiError, from_rpc_error

pb = gateway_pb2
STEP = pb.SinkStep(sink="crm", what="connect", outcome=pb.SinkStep.OUTCOME_OK, detail="A server listens.")
SINK = spec_pb2.RegisteredSink(
    name="crm", teams=["pricing"], sink=spec_pb2.Sink(http=spec_pb2.HttpSink(url="https://crm.example"))
)


FAILED = pb.SinkStep(
    sink="influx", what="ask", outcome=pb.SinkStep.OUTCOME_FAILED,
    reason="SINK_SCHEMA", detail="There is no retention policy: CREATE RETENTION POLICY …",
)  # fmt: skip


class Host(samplehosts.Host):
    """A host that finds a server listening, or what it is told to find."""

    def __init__(self, *found: pb.SinkStep) -> None:
        super().__init__()
        self.found = found or (STEP,)
        self.tests: list[host_pb2.TestHostSinkRequest] = []

    async def TestHostSink(  # noqa: N802 - gRPC's name
        self, request: host_pb2.TestHostSinkRequest, context: Any
    ) -> AsyncIterator[pb.TestSinkResponse]:
        self.tests.append(request)
        for step in self.found:
            yield pb.TestSinkResponse(step=step)


def sinks_of(client: Any) -> Any:
    return gateway_pb2_grpc.SinkServiceStub(client.channel)


async def tried(client: Any, **fields: Any) -> list[pb.SinkStep]:
    call = sinks_of(client).TestSink(pb.TestSinkRequest(**fields), timeout=20)
    return [answer.step async for answer in call]


async def refused(client: Any, **fields: Any) -> ApiError:
    with pytest.raises(grpc.RpcError) as caught:
        await tried(client, **fields)
    return from_rpc_error(caught.value)


async def test_a_host_tries_a_registered_sink_that_it_looks_up_itself(harness: Any) -> None:
    host = Host()
    async with serving(("a", host)) as log, harness.running(log) as client:
        made = await sinks_of(client).RegisterSink(pb.RegisterSinkRequest(sink=SINK), timeout=20)
        steps = await tried(client, sink="crm")

    assert steps == [STEP]
    [asked] = host.tests
    assert asked.request == pb.TestSinkRequest(sink="crm")
    assert asked.min_sequence >= made.sequence


async def test_what_names_no_sink_or_says_not_what_a_row_is_reaches_no_host(harness: Any) -> None:
    host = Host()
    async with serving(("a", host)) as log, harness.running(log) as client:
        await sinks_of(client).RegisterSink(pb.RegisterSinkRequest(sink=SINK), timeout=20)
        unknown = await refused(client, sink="crn")
        nothing = await refused(client)
        row = await refused(client, sink="crm", send_one=True)

    assert (unknown.reason, unknown.metadata.get("suggestion")) == ("NOT_FOUND", "crm")
    assert [violation.field for violation in nothing.violations] == ["sink"]
    assert [violation.field for violation in row.violations] == ["send_one"]
    assert not host.tests


async def test_the_sinks_of_a_specification_are_tried_with_their_defaults_once_it_is_right(
    harness: Any, samples: Any
) -> None:
    host = Host()
    wrong = samples.spec()
    wrong.sql = "SELECT nothing"
    async with serving(("a", host)) as log, harness.running(log) as client:
        await samples.fill(client)
        steps = await tried(client, name="completed", spec=samples.spec(), send_one=True)
        error = await refused(client, name="completed", spec=wrong)

    assert (steps, len(host.tests)) == ([STEP], 1)
    asked = host.tests[0].request
    assert (asked.name, asked.send_one, len(asked.spec.sinks)) == ("completed", True, len(wrong.sinks))
    assert asked.spec.HasField("trigger")
    assert error.violations


# ---- In a plan ---------------------------------------------------------------------------------------------


def another(samples: Any) -> spec_pb2.DaggerSpec:
    """The usual specification, of another measurement."""
    spec: spec_pb2.DaggerSpec = samples.spec()
    spec.sinks[0].influx.measurement = "another"
    return spec


async def planned(client: Any, spec: spec_pb2.DaggerSpec, *, try_sinks: bool = True) -> pb.PlanDaggerResponse:
    request = pb.PlanDaggerRequest(name="completed", spec=spec, try_sinks=try_sinks)
    answer: pb.PlanDaggerResponse = await client.daggers.PlanDagger(request, timeout=20)
    return answer


async def test_a_plan_says_which_sinks_would_take_no_row_where_sinks_or_columns_are_others(
    harness: Any, samples: Any
) -> None:
    host, spec = Host(FAILED), samples.spec()
    async with serving(("a", host)) as log, harness.running(log) as client:
        await samples.fill(client)
        first = await planned(client, spec)
        unasked = await planned(client, spec, try_sinks=False)
        await client.daggers.ApplyDagger(pb.ApplyDaggerRequest(name="completed", spec=spec), timeout=20)
        looked = len(host.tests)
        spec.trigger.FromSeconds(7)  # no row is another by that
        of_no_row = await planned(client, spec)
        revised = await planned(client, another(samples))
        host.found = (STEP,)
        taken = await planned(client, another(samples))

    assert (looked, len(host.tests)) == (1, 3)
    for answer in (first, revised):
        [effect] = answer.sinks
        assert (effect.field, effect.kind) == ("sinks[0]", "influx")
        assert (effect.reason, effect.detail) == (FAILED.reason, FAILED.detail)
    assert [list(answer.sinks) for answer in (unasked, of_no_row, taken)] == [[], [], []]
    assert {answer.sinks_untried for answer in (first, unasked, of_no_row, revised, taken)} == {""}
    assert host.tests[0].request == pb.TestSinkRequest(name="completed", spec=host.tests[0].request.spec)


async def test_a_plan_that_no_host_can_try_sinks_for_says_why(harness: Any, samples: Any) -> None:
    async with harness.running() as client:
        await samples.fill(client)
        answer = await planned(client, samples.spec())

    assert answer.action == pb.ApplyDaggerResponse.ACTION_CREATED
    assert "host" in answer.sinks_untried
