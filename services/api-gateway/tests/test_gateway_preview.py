"""PreviewDagger: what is judged, asked of a host, masked, and refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, gateway_pb2, gateway_pb2_grpc, host_pb2, spec_pb2, telemetry_pb2
from tests.samplehosts import Host, serving

from api_gateway.hosts.client import HostAccess
from chassis.errors import ApiError, from_rpc_error

pb = gateway_pb2
ROWS = pb.PreviewRows(rows=[pb.Row(tags={"tag_city": "x"}, fields=[pb.RowField(name="orders", integer=3)])])


class Previews(Host):
    """A host that has one row and one record that it would set aside; `held`: it never comes to the end."""

    def __init__(self, held: asyncio.Event | None = None) -> None:
        super().__init__()
        self.previews: list[host_pb2.PreviewHostDaggerRequest] = []
        self.cancelled = asyncio.Event()
        self._held = held

    async def PreviewHostDagger(  # noqa: N802 - gRPC's name
        self, request: host_pb2.PreviewHostDaggerRequest, context: Any
    ) -> AsyncIterator[pb.PreviewDaggerResponse]:
        self.previews.append(request)
        yield pb.PreviewDaggerResponse(progress=pb.PreviewProgress(ahead=1))
        try:
            if self._held is not None:
                await self._held.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        yield pb.PreviewDaggerResponse(rows=ROWS)
        example = telemetry_pb2.Quarantined(topic="bookings-1", value=b"secret", reason="MALFORMED")
        done = pb.PreviewDone(records=5, rows=1, first_row_ms=1, examples=[example])
        yield pb.PreviewDaggerResponse(done=done)


def asked(samples: Any, **fields: Any) -> pb.PreviewDaggerRequest:
    spec = samples.spec()
    del spec.sinks[:]
    return pb.PreviewDaggerRequest(**{"spec": spec, **fields})


async def refused(client: Any, request: pb.PreviewDaggerRequest) -> ApiError:
    with pytest.raises(grpc.RpcError) as caught:
        async for _ in client.daggers.PreviewDagger(request, timeout=20):
            pass
    return from_rpc_error(caught.value)


async def test_columns_come_first_and_the_host_is_asked_without_sinks(harness: Any, samples: Any) -> None:
    host = Previews()
    async with serving(("a", host)) as log, harness.running(log, host_access=HostAccess(here="a")) as client:
        await samples.fill(client)
        end = await client.log.end()
        early = asked(samples, spec=samples.spec())
        early.spec.emit = spec_pb2.EMIT_EARLY
        call = client.daggers.PreviewDagger(early, timeout=20)
        steps = [step async for step in call]
        written = await client.log.end() - end

    assert [step.WhichOneof("step") for step in steps] == ["columns", "progress", "rows", "done"]
    assert [column.name for column in steps[0].columns.columns]
    [told] = host.previews
    assert (told.host, told.request.name, told.request.max_rows) == ("a", "preview", 10_000)
    assert [sink.WhichOneof("kind") for sink in told.request.spec.sinks] == ["log"]
    assert told.request.spec.emit == spec_pb2.EMIT_FINAL
    assert steps[2].rows == ROWS
    assert steps[3].done.total_ms >= steps[3].done.first_row_ms
    assert steps[3].done.examples[0].value == b"secret"
    assert written == 0


async def test_alert_rules_are_asked_of_the_host_and_what_is_wrong_with_them_is_refused(
    harness: Any, samples: Any
) -> None:
    host = Previews()
    async with serving(("a", host)) as log, harness.running(log, host_access=HostAccess(here="a")) as client:
        await samples.fill(client)
        request = asked(samples)
        request.spec.alerts.add(name="busy", when="orders > 3")
        async for _ in client.daggers.PreviewDagger(request, timeout=20):
            pass
        request.spec.alerts.add(name="broken", when="no_column > 3")
        error = await refused(client, request)

    [preview] = host.previews
    assert [rule.when for rule in preview.request.spec.alerts] == ["orders > 3"]
    assert [violation.field for violation in error.violations] == ["spec.alerts[1].when"]


async def test_a_preview_runs_beside_cordoned_hosts_and_says_so_where_all_are(
    harness: Any, samples: Any
) -> None:
    first, second = Previews(), Previews()
    async with (
        serving(("a", first), ("b", second)) as log,
        harness.running(log, host_access=HostAccess(here="b")) as client,
    ):
        await samples.fill(client)
        fleet = gateway_pb2_grpc.FleetServiceStub(client.channel)
        await fleet.CordonHost(pb.CordonHostRequest(name="a"), timeout=10)
        async for _ in client.daggers.PreviewDagger(asked(samples), timeout=20):
            pass
        await fleet.CordonHost(pb.CordonHostRequest(name="b"), timeout=10)
        error = await refused(client, asked(samples))

    assert (len(first.previews), len(second.previews)) == (0, 1)
    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "HOST_CORDONED")
    assert "(a, b): uncordon one" in error.message


async def test_what_is_wrong_is_told_at_once_and_asks_no_host(harness: Any, samples: Any) -> None:
    host = Previews()
    async with serving(("a", host)) as log, harness.running(log, host_access=HostAccess(here="a")) as client:
        await samples.fill(client)
        request = asked(samples, max_rows=10_001)
        request.spec.sql = "SELECT nothing FROM data_stream"
        request.range.last.FromSeconds(7 * 86_400 + 1)
        wrong = await refused(client, request)
        turned = asked(samples)
        getattr(turned.range.between, "from").FromSeconds(20)
        turned.range.between.to.FromSeconds(10)
        between = await refused(client, turned)

    fields = {violation.field for violation in wrong.violations}
    assert {"max_rows", "range.last", "spec.sql"} <= fields
    assert [violation.field for violation in between.violations] == ["range.between.to"]
    assert host.previews == []


async def test_a_principal_has_one_preview_and_ends_it_by_hanging_up(harness: Any, samples: Any) -> None:
    host = Previews(asyncio.Event())
    async with serving(("a", host)) as log, harness.running(log, host_access=HostAccess(here="a")) as client:
        await samples.fill(client)
        first = client.daggers.PreviewDagger(asked(samples), timeout=20)
        await first.read()
        await first.read()
        second = await refused(client, asked(samples))
        first.cancel()
        await asyncio.wait_for(host.cancelled.wait(), 10)
        host._held.set()  # type: ignore[union-attr]
        third = [step async for step in client.daggers.PreviewDagger(asked(samples), timeout=20)]

    assert (second.code, second.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_PREVIEWS")
    assert second.metadata["limit"] == "previews_of_a_principal"
    assert third[-1].HasField("done")


async def test_a_teams_previews_are_counted_shown_and_refused_beyond_its_quota(
    harness: Any, samples: Any
) -> None:
    host = Previews()
    async with serving(("a", host)) as log, harness.running(log, host_access=HostAccess(here="a")) as client:
        await samples.fill(client)
        request = asked(samples)
        team = access_pb2.Team(name=request.spec.team)
        team.quotas.preview_seconds_per_hour.hard = 0
        await client.access.RegisterTeam(pb.RegisterTeamRequest(team=team), timeout=30)
        none = await refused(client, request)
        team.quotas.preview_seconds_per_hour.hard = 1000
        await client.access.RegisterTeam(pb.RegisterTeamRequest(team=team, expected_version=1), timeout=30)
        steps = [step async for step in client.daggers.PreviewDagger(request, timeout=20)]
        usage = await client.access.GetTeamUsage(pb.GetTeamUsageRequest(team=team.name), timeout=30)

    assert (none.code, none.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "TEAM_QUOTA")
    assert none.metadata["quota"] == "preview_seconds_per_hour"
    assert steps[-1].HasField("done")
    used = {use.name: use for use in usage.uses}["preview_seconds_per_hour"]
    assert used.quota.hard == 1000
    assert 0 < used.used < 1000
