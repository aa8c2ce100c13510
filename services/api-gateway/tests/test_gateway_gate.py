"""The gate of a real gateway: who is let through, what they see, and what is audited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, audit_pb2, events_pb2, gateway_pb2, spec_pb2
from google.protobuf import descriptor_pb2, descriptor_pool
from tests.tenants import META, ROLES, SALT, Bearer, World, created, token_of, world

from access import tokens
from api_gateway.auth.audit import Audit
from api_gateway.auth.authorization import Gate
from api_gateway.state.fold import Fold
from chassis.errors import ApiError
from eventlog import LogUnavailable
from eventlog.memory import MemoryLog

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]


@pytest.fixture
async def enforcing(harness: Any, samples: Any) -> AsyncIterator[World]:
    async with world(harness, samples) as made:
        yield made


@pytest.fixture
async def observing(harness: Any, samples: Any) -> AsyncIterator[World]:
    async with world(harness, samples, enforce=False) as made:
        yield made


async def test_a_refusal_says_what_is_missing_and_who_can_grant_it(
    enforcing: World, refusal: Refused
) -> None:
    error = await refusal(enforcing.bot("editor").DeleteDagger(pb.DeleteDaggerRequest(name="counts")))

    assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
    assert error.message == (
        "account:editor-bot may not delete daggers of team pricing: that needs the role owner, which an owner"
        " (account:owner-bot) can grant"
    )
    assert error.metadata == {
        "principal": "account:editor-bot",
        "action": "DELETE",
        "role": "owner",
        "team": "pricing",
        "granted_by": "account:owner-bot",
        "method": "/daggers.v1.DaggerService/DeleteDagger",
    }


@pytest.mark.parametrize("role", ROLES)
async def test_each_role_does_what_it_may_and_the_actor_is_the_account(
    enforcing: World, refusal: Refused, role: str
) -> None:
    bot, ask = enforcing.bot(role), pb.StopDaggerRequest(name="counts")
    if role == "viewer":
        assert (await refusal(bot.StopDagger(ask))).reason == "ROLE_MISSING"
        return
    await bot.StopDagger(ask)
    last = [record.message async for record in enforcing.log.replay()][-1]

    assert last.meta.actor == f"account:{role}-bot"


@pytest.mark.parametrize("role", ROLES)
async def test_a_plan_has_sinks_tried_for_who_may_change_the_dagger(enforcing: World, role: str) -> None:
    bot = enforcing.bot(role)
    spec = (await bot.GetDagger(pb.GetDaggerRequest(name="counts"))).dagger.spec
    spec.sinks[0].influx.measurement = "another"
    answer = await bot.PlanDagger(pb.PlanDaggerRequest(name="counts", spec=spec, try_sinks=True))

    if role == "viewer":
        assert answer.sinks_untried == "only who may change the dagger has them tried"
    else:
        assert "no scheduler has said where it serves" in answer.sinks_untried


async def test_another_team_sees_that_a_dagger_is_there_and_nothing_of_it(enforcing: World) -> None:
    ours = (await enforcing.bot("viewer").GetDagger(pb.GetDaggerRequest(name="counts"))).dagger
    theirs = (await enforcing.bot("stranger").GetDagger(pb.GetDaggerRequest(name="counts"))).dagger
    listed = (await enforcing.bot("stranger").ListDaggers(pb.ListDaggersRequest())).daggers

    assert ours.spec.sql
    assert (theirs.name, theirs.spec.team, theirs.phase) == ("counts", "pricing", pb.PENDING)
    assert theirs.spec == spec_pb2.DaggerSpec(team="pricing", cluster="local")
    assert (list(theirs.sinks), theirs.HasField("vitals")) == ([], False)
    assert [dagger.spec.sql for dagger in listed] == [""]


@pytest.mark.parametrize("text", ["bookings-1", "influx", "log-of-the-first-hour", "root"])
async def test_another_team_finds_no_dagger_by_what_it_is_not_shown(
    enforcing: World, samples: Any, text: str
) -> None:
    spec = samples.spec()
    spec.team = "pricing"
    spec.sinks[0].influx.measurement = "log-of-the-first-hour"
    await enforcing.root.CreateDagger(pb.CreateDaggerRequest(name="orders", spec=spec))
    ask = pb.ListDaggersRequest(filter=f"text={text}")
    ours = await enforcing.bot("viewer").ListDaggers(ask)
    theirs = await enforcing.bot("stranger").ListDaggers(ask)
    named = await enforcing.bot("stranger").ListDaggers(pb.ListDaggersRequest(filter='text="pricing orders"'))

    assert "orders" in [dagger.name for dagger in ours.daggers]
    assert (list(theirs.daggers), theirs.total_size) == ([], 0)
    assert ([dagger.name for dagger in named.daggers], named.total_size) == (["orders"], 1)


async def test_another_team_takes_no_dagger_over_by_giving_it_its_own_name(
    enforcing: World, refusal: Refused, samples: Any
) -> None:
    spec = samples.spec()
    spec.team = "delivery"
    for method, request in (
        ("ApplyDagger", pb.ApplyDaggerRequest(name="counts", spec=spec)),
        ("UpdateDagger", pb.UpdateDaggerRequest(name="counts", spec=spec)),
    ):
        error = await refusal(getattr(enforcing.bot("stranger"), method)(request))

        assert (error.reason, error.metadata["team"]) == ("ROLE_MISSING", "pricing")


async def test_rows_logs_and_quarantined_records_of_another_team_are_refused_and_audited(
    enforcing: World, refusal: Refused
) -> None:
    stranger = enforcing.bot("stranger")
    for call in (
        stranger.ListQuarantined(pb.ListQuarantinedRequest(dagger="counts")),
        anext(aiter(stranger.ReadLog(pb.ReadLogRequest(name="counts")))),
        anext(aiter(stranger.ReadRows(pb.ReadRowsRequest(name="counts")))),
        anext(aiter(stranger.WatchRows(pb.WatchRowsRequest(name="counts")))),
    ):
        assert (await refusal(call)).code == grpc.StatusCode.PERMISSION_DENIED
    told = await enforcing.audited(4)

    assert {each.method.rpartition("/")[2] for each in told} == {
        "ListQuarantined", "ReadLog", "ReadRows", "WatchRows",
    }  # fmt: skip
    assert {
        (each.principal, each.subject, tuple(each.teams), each.allowed, each.refused) for each in told
    } == {("account:stranger-bot", "counts", ("pricing",), False, True)}


async def test_a_read_of_quarantined_records_is_audited_also_when_it_is_allowed(enforcing: World) -> None:
    await enforcing.bot("viewer").ListQuarantined(pb.ListQuarantinedRequest(dagger="counts"))
    (told,) = await enforcing.audited(1)

    assert (told.principal, told.allowed, told.refused) == ("account:viewer-bot", True, False)
    assert told.reason == "ROLE"
    assert told.call_id


async def test_while_it_observes_a_denial_is_audited_and_let_through(observing: World) -> None:
    stranger = observing.bot("stranger")
    shown = (await stranger.GetDagger(pb.GetDaggerRequest(name="counts"))).dagger
    await stranger.DeleteDagger(pb.DeleteDaggerRequest(name="counts"))
    (told,) = await observing.audited(1)

    assert shown.spec.sql
    assert told.method == "/daggers.v1.DaggerService/DeleteDagger"
    assert (told.allowed, told.refused, told.reason) == (False, False, "ROLE_MISSING")


async def test_a_watch_of_events_shows_another_team_what_happened_and_not_what_was_asked(
    enforcing: World,
) -> None:
    request = pb.WatchEventsRequest(since_sequence=-1, until_end=True)
    ours = [step.event async for step in enforcing.bot("viewer").WatchEvents(request)]
    theirs = [step.event async for step in enforcing.bot("stranger").WatchEvents(request)]
    all_ = [step.event async for step in enforcing.root.WatchEvents(request)]

    def told(events: list[Any]) -> set[str]:
        return {event.type.rpartition(".")[2] for event in events if event.HasField("data")}

    assert [event.sequence for event in ours] == [event.sequence for event in theirs]
    assert [each.type for each in theirs] == [each.type for each in all_]
    assert told(theirs) == {"SchemaRegistered", "StreamRegistered"}
    assert told(ours) == {*told(theirs), "DaggerRequested"}
    assert told(all_) == {each.type.rpartition(".")[2] for each in all_}


async def test_a_watch_ends_at_its_next_step_once_its_account_is_revoked(
    enforcing: World, refusal: Refused
) -> None:
    watching = enforcing.bot("viewer").WatchEvents(pb.WatchEventsRequest(since_sequence=-1))
    await watching.read()
    await enforcing.write(events_pb2.ServiceAccountRevoked(meta=META, name="viewer-bot"), "viewer-bot")

    async def read_on() -> None:
        while await watching.read() is not grpc.aio.EOF:
            pass

    error = await refusal(asyncio.wait_for(read_on(), 30))

    assert error.reason == "ACCOUNT_REVOKED"


@pytest.mark.parametrize(
    "how", ["revoked", "rotated", "expired", "other secret", "other account", "long", "half"]
)
async def test_a_token_that_is_good_no_more_is_nobodys(enforcing: World, refusal: Refused, how: str) -> None:
    ask, good = pb.ListDaggersRequest(), token_of("viewer")[0]
    await Bearer(enforcing.client.channel, good).ListDaggers(ask)
    token = good
    match how:
        case "revoked":
            gone = events_pb2.ServiceAccountRevoked(meta=META, name="viewer-bot")
            await enforcing.write(gone, "viewer-bot")
        case "rotated":
            new = events_pb2.ServiceAccountRotated(meta=META, name="viewer-bot", token={"id": "t2"})
            new.overlap_until.FromDatetime(datetime.now(UTC) - timedelta(seconds=1))
            await enforcing.write(new, "viewer-bot")
        case "expired":
            await enforcing.write(
                events_pb2.ServiceAccountRevoked(meta=META, name="viewer-bot"), "viewer-bot"
            )
            ended = datetime.now(UTC) - timedelta(seconds=1)
            await enforcing.write(created("viewer", "pricing", ROLES["viewer"], ended), "viewer-bot")
        case "other secret":
            token = good[:-4] + "AAAA"
        case "other account":
            token = good.replace("viewer-bot", "owner-bot")
        case "long":
            token = good + "A" * 4_000
        case "half":
            token = good.rpartition(".")[0]
    error = await refusal(Bearer(enforcing.client.channel, token).ListDaggers(ask))

    assert (error.code, error.reason) == (grpc.StatusCode.UNAUTHENTICATED, "TOKEN_REQUIRED")


async def test_the_new_token_and_the_old_one_are_good_while_they_overlap(enforcing: World) -> None:
    token, kept = tokens.create_token("viewer-bot", "t2", b"x" * tokens.SECRET_BYTES, SALT, None)
    rotated = events_pb2.ServiceAccountRotated(meta=META, name="viewer-bot", token=kept)
    rotated.overlap_until.FromDatetime(datetime.now(UTC) + timedelta(hours=1))
    await enforcing.write(rotated, "viewer-bot")
    for each in (token, token_of("viewer")[0]):
        answer = await Bearer(enforcing.client.channel, each).ListDaggers(pb.ListDaggersRequest())

        assert [dagger.name for dagger in answer.daggers] == ["counts"]


async def test_a_name_of_the_token_file_may_everything_as_before(enforcing: World) -> None:
    await enforcing.root.DeleteDagger(pb.DeleteDaggerRequest(name="counts"))
    shown = await enforcing.root.GetDagger(pb.GetDaggerRequest(name="counts"), timeout=30)

    assert shown.dagger.desired == pb.DESIRED_DELETED


async def test_a_gateway_without_a_token_file_asks_nobody_and_refuses_nothing(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    async with harness.running(enforce=True) as client:
        await samples.fill(client)
        answer = await client.create()
        made_up = Bearer(client.channel, "dgr.nobody.t1.AAAA")

        assert answer.dagger.name == "completed_bookings"
        assert (await refusal(made_up.ListDaggers(pb.ListDaggersRequest()))).reason == "TOKEN_REQUIRED"
        assert (await client.daggers.ListDaggers(pb.ListDaggersRequest(), timeout=30)).total_size == 1


async def test_a_stream_that_is_restricted_is_read_by_the_teams_it_is_granted_to(
    enforcing: World, refusal: Refused, samples: Any
) -> None:
    request = pb.ApplyDaggerRequest(name="more", spec=samples.spec())
    grant = access_pb2.StreamGrant(stream="bookings", restricted=True)
    await enforcing.write(events_pb2.GrantChanged(meta=META, grant=grant), "bookings")
    error = await refusal(enforcing.bot("editor").ApplyDagger(request))
    grant = access_pb2.StreamGrant(stream="bookings", restricted=True, teams=["pricing"])
    await enforcing.write(events_pb2.GrantChanged(meta=META, grant=grant), "bookings")
    applied = await enforcing.bot("editor").ApplyDagger(request)

    assert (error.reason, error.metadata["stream"]) == ("STREAM_RESTRICTED", "bookings")
    assert applied.dagger.name == "more"


def test_a_method_that_no_row_is_about_does_not_start() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="dummy.proto", package="daggers.v1", syntax="proto3")
    file.message_type.add(name="Dummy")
    method = file.service.add(name="DummyService").method.add(name="Do")
    method.input_type = method.output_type = ".daggers.v1.Dummy"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # type: ignore[no-untyped-call]

    with pytest.raises(TypeError, match=r"does not say who may call /daggers\.v1\.DummyService/Do"):
        Gate(pool.FindFileByName("dummy.proto"), Fold(), Audit(None, "/test"), enforce=True)


class Away:
    """A log that is away at first."""

    def __init__(self, times: int) -> None:
        self.log, self.times = MemoryLog(), times

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Any]:
        if self.times:
            self.times -= 1
            raise LogUnavailable("away")
        yield self.log


async def test_what_is_audited_while_kafka_is_away_is_written_later_and_the_oldest_is_lost_first() -> None:
    away = Away(times=1)
    audit = Audit(away.opened, "/test", room=2)
    for number in range(3):
        audit.tell(audit_pb2.CallAudited(method=str(number)))
    writing = asyncio.create_task(audit.run())
    await audit.flush(30)
    writing.cancel()
    written: list[Any] = [record.message async for record in away.log.replay()]

    assert [each.method for each in written] == ["1", "2"]
    assert audit.lost == 1
