"""Quotas of teams and limits of principals at a gateway: what is refused, warned of, and shown."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, events_pb2, gateway_pb2, gateway_pb2_grpc, spec_pb2, telemetry_pb2

from access.limits import CallLimits
from chassis.errors import ApiError
from eventlog import Draft

pb = gateway_pb2
ROOT = "a-token-of-the-first-hour"
FILE = {hashlib.sha256(ROOT.encode()).digest(): "root"}
START = datetime(2026, 1, 1, tzinfo=UTC)
SLOW = CallLimits(requests_per_second=10, writes_per_second=0.001, streams=1)
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]


class Caller:
    """Every method of a gateway, with a token."""

    def __init__(self, client: Any, token: str = ROOT) -> None:
        self.client, self.metadata = client, (("authorization", f"Bearer {token}"),)
        stubs = gateway_pb2_grpc
        self._stubs = [
            stub(client.channel)
            for stub in (stubs.DaggerServiceStub, stubs.CatalogServiceStub, stubs.AccessServiceStub)
        ]

    def ask(self, method: str, request: Any = None, **said: Any) -> Any:
        stub = next(stub for stub in self._stubs if hasattr(stub, method))
        asked = getattr(pb, f"{method}Request")(**said) if request is None else request
        return getattr(stub, method)(asked, timeout=30, metadata=self.metadata)


@asynccontextmanager
async def asked(
    harness: Any, samples: Any, limits: CallLimits
) -> AsyncIterator[tuple[Caller, Caller, Caller]]:
    """The administrator and two editors of the team pricing."""
    async with harness.running(tokens=lambda: FILE, enforce=True, limits=limits) as client:
        root = Caller(client)
        await root.ask("RegisterCluster", cluster=samples.cluster())
        await root.ask("RegisterSchema", schema=spec_pb2.Schema(files=samples.files()))
        await root.ask("RegisterStream", stream=samples.stream())
        await root.ask("RegisterTeam", team=access_pb2.Team(name="pricing"))
        role = access_pb2.ROLE_EDITOR
        made = [
            await root.ask("CreateServiceAccount", name=name, team="pricing", role=role)
            for name in ("first-bot", "second-bot")
        ]
        first, second = (Caller(client, each.token) for each in made)
        yield root, first, second


async def test_who_writes_without_end_is_told_to_wait_and_nobody_else_is(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    async with asked(harness, samples, SLOW) as (root, first, second):
        await first.ask("CreateDagger", name="one", spec=samples.spec())
        before = await root.client.log.end()
        errors = [await refusal(first.ask("StopDagger", name="one")) for _ in range(20)]
        wrote = await root.client.log.end() - before
        shown = await first.ask("GetDagger", name="one")
        await second.ask("StopDagger", name="one")

    assert {(error.code, error.reason) for error in errors} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MUCH_ASKED")
    }
    assert wrote == 0
    assert dict(errors[0].metadata) == {
        "limit": "writes_per_second", "most": "0.001", "principal": "account:first-bot",
        "method": "/daggers.v1.DaggerService/StopDagger",
    }  # fmt: skip
    assert errors[0].retry_after is not None
    assert timedelta(seconds=800) < errors[0].retry_after <= timedelta(seconds=1_000)
    assert shown.dagger.name == "one"


async def test_a_stream_too_many_is_refused_until_one_has_ended(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    async with asked(harness, samples, SLOW) as (_, first, second):
        watching = first.ask("WatchEvents")
        await watching.read()
        error = await refusal(first.ask("WatchEvents").read())
        await second.ask("WatchEvents").read()
        watching.cancel()
        async with asyncio.timeout(30):
            while (await _outcome(first.ask("WatchEvents"))) is grpc.StatusCode.RESOURCE_EXHAUSTED:
                pass  # the gateway hears of the end a moment later

    assert (error.reason, error.metadata["limit"]) == ("TOO_MUCH_ASKED", "streams")


async def _outcome(stream: Any) -> grpc.StatusCode | None:
    try:
        await stream.read()
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None


async def test_one_dagger_too_many_is_refused_before_it_is_written(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    async with asked(harness, samples, CallLimits()) as (root, first, _):
        bounds = access_pb2.Quotas(daggers=access_pb2.Quota(hard=1))
        await root.ask("RegisterTeam", team=access_pb2.Team(name="other"))
        await root.ask("GrantRole", team="", principal="user:ada", role=access_pb2.ROLE_ADMINISTRATOR)
        team = (await root.ask("GetTeam", name="pricing")).team
        team.quotas.CopyFrom(bounds)
        await root.ask("RegisterTeam", team=team)
        await first.ask("CreateDagger", name="one", spec=samples.spec())
        before = await root.client.log.end()
        errors = [
            await refusal(first.ask(method, name="two", spec=samples.spec(), validate_only=check))
            for method in ("CreateDagger", "ApplyDagger")
            for check in (False, True)
        ]
        same = await first.ask("ApplyDagger", name="one", spec=samples.spec())
        wrote = await root.client.log.end() - before

    assert {(error.code, error.reason) for error in errors} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "TEAM_QUOTA")
    }
    assert errors[0].retry_after is None
    assert "ask an administrator (user:ada)" in errors[0].message
    assert same.action == pb.ApplyDaggerResponse.ACTION_UNCHANGED
    assert wrote == 0


async def test_what_a_team_takes_stands_beside_its_quotas_and_warns(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    async with asked(harness, samples, CallLimits()) as (root, first, _):
        team = (await root.ask("GetTeam", name="pricing")).team
        team.quotas.daggers.soft = 0
        team.quotas.memory_mib.hard = 10_000
        await root.ask("RegisterTeam", team=team)
        await first.ask("CreateDagger", name="one", spec=samples.spec())
        await _launched(root, harness)
        usage = await _heard(first)
        stranger = await refusal(first.ask("GetTeamUsage", team="prycing"))
        warnings = (await first.ask("GetDagger", name="one")).dagger.vitals.warnings

    cost = usage.daggers[0]
    assert [(use.name, use.used) for use in usage.uses] == [
        ("daggers", 1), ("drivers", 1), ("memory_mib", 2_304), ("executor_cores", 0),
        ("records_per_second", 0), ("rows_per_minute", 0), ("preview_seconds_per_hour", 0),
    ]  # fmt: skip
    assert (usage.uses[2].quota.hard, usage.uses[2].quota.HasField("soft")) == (10_000, False)
    assert (cost.launch_memory_mib, cost.memory_bytes, cost.state_bytes) == (2_304, 5_000, 60)
    assert (cost.age.ToTimedelta(), cost.cpu_seconds) == (timedelta(hours=2), 30)
    assert (cost.cpu_seconds_per_day, cost.records_per_day) == (pytest.approx(360), pytest.approx(1_200))
    assert stranger.reason == "TEAM_UNKNOWN"
    quota = [warning for warning in warnings if warning.code == "TEAM_QUOTA"]
    assert [each.message for each in quota] == [
        "team pricing has more than 0 daggers, from where on its quota warns"
    ]
    assert quota[0].next == "Read `daggers team usage pricing`: it says what each dagger takes."


async def _launched(root: Caller, harness: Any) -> None:
    """A driver of the dagger `one` is launched, and tells of itself."""
    log = root.client.log
    claim = events_pb2.SchedulerStarted(scheduler_id="s", host="h")
    await log.append(Draft("claim", "/test", "s", START, claim))
    epoch = await log.end()
    intent = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=epoch, name="one"), version=1)
    await log.append(Draft("intent", "/test", "one", START, intent))
    generation = await log.end()
    await root.client.gateway.follower.wait_for(generation)
    beat = telemetry_pb2.Heartbeat(
        dagger="one", generation=generation, cpu_seconds=30, age_ms=7_200_000, rows_in=100,
        memory_bytes=5_000, state_bytes=60, state=telemetry_pb2.Heartbeat.STATE_RUNNING,
    )  # fmt: skip
    beat.time.FromDatetime(datetime.now(UTC))
    await harness.heartbeats.append(Draft("beat", "/test", "one", START, beat))


async def _heard(caller: Caller) -> Any:
    """The usage once the heartbeat was heard."""
    async with asyncio.timeout(30):
        while True:
            usage = await caller.ask("GetTeamUsage", team="pricing")
            if usage.daggers[0].memory_bytes:
                return usage
            await asyncio.sleep(0.05)
