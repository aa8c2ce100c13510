"""What stands in the audit of a real gateway, how it is read back, and what is not served without it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, audit_pb2, events_pb2, gateway_pb2, spec_pb2
from tests.tenants import META, Bearer, World, token_of, world

from access.audits import CHECK, PREVIEW, READ, REFUSED, SINK_TEST, UNAUTHENTICATED
from api_gateway.auth.audit import Audit, AuditAway
from api_gateway.auth.audit_counts import OTHERS, PEERS, PRINCIPALS, WHOLE, Counts, place_of
from chassis.errors import ApiError
from eventlog import LogUnavailable
from eventlog.memory import MemoryLog

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
SECRET = "hunter2-is-a-secret"


@pytest.fixture
async def enforcing(harness: Any, samples: Any) -> AsyncIterator[World]:
    async with world(harness, samples) as made:
        yield made


async def last(made: World, **wanted: Any) -> Any:
    """The newest record of the audit that is as wanted, once there is one."""
    async with asyncio.timeout(30):
        while True:
            found = [record.message async for record in made.audits.replay()]
            for call in reversed(found):
                if all(getattr(call, field) == value for field, value in wanted.items()):
                    return call
            await asyncio.sleep(0.02)


# ---- Refusals ----------------------------------------------------------------------------------------------


def _foreign_destination(spec: Any) -> None:
    spec.sinks[0].influx.measurement = "counts"


def _own_topic_of_kafka(spec: Any) -> None:
    spec.sinks[0].kafka.topic = "__consumer_offsets"


def _topic_of_a_stream(spec: Any) -> None:
    spec.sinks[0].kafka.topic = "bookings-1"


def _address_inside(spec: Any) -> None:
    spec.sinks[0].influx.address.url = "http://169.254.169.254/latest"
    spec.sinks[0].influx.address.bucket = "b"


def _group_of_others(spec: Any) -> None:
    spec.consumer_group = "billing"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (_foreign_destination, "FOREIGN_DESTINATION"),
        (_own_topic_of_kafka, "RESERVED"),
        (_topic_of_a_stream, "FOREIGN_TOPIC"),
        (_address_inside, "ADDRESS_REFUSED"),
        (_group_of_others, "FOREIGN_GROUP"),
    ],
)
async def test_what_a_specification_may_not_reach_is_audited_when_it_is_asked_for_and_when_it_is_checked(
    enforcing: World, refusal: Refused, samples: Any, edit: Callable[[Any], None], reason: str
) -> None:
    spec = samples.spec()
    spec.team = "delivery"
    edit(spec)
    stranger = enforcing.bot("stranger")
    await refusal(stranger.CreateDagger(pb.CreateDaggerRequest(name="probe", spec=spec)))
    created = await last(enforcing, kind=REFUSED, principal="account:stranger-bot")
    await stranger.Validate(pb.ValidateRequest(name="probe", spec=spec))
    checked = await last(enforcing, kind=CHECK, principal="account:stranger-bot")

    assert (created.reason, created.refused, created.subject) == (reason, True, "probe")
    assert (checked.reason, checked.refused, list(checked.teams)) == (reason, False, ["delivery"])
    assert created.detail
    assert created.call_id


async def test_a_place_of_secrets_that_nobody_allowed_is_audited(enforcing: World, refusal: Refused) -> None:
    secret = spec_pb2.Secret(
        name="shadow", team="pricing", addresses=["kafka:9092"], place={"file": "/etc/shadow"}
    )
    await refusal(enforcing.bot("owner").RegisterSecret(pb.RegisterSecretRequest(secret=secret)))

    assert (await last(enforcing, kind=REFUSED)).reason == "FORBIDDEN_PLACE"


async def test_what_stands_in_an_address_that_is_refused_stands_not_in_the_audit(
    enforcing: World, refusal: Refused, samples: Any
) -> None:
    spec = samples.spec()
    spec.team = "delivery"
    del spec.sinks[:]
    http = spec.sinks.add().http
    http.url = f"http://user:{SECRET}@169.254.169.254/?key={SECRET}"
    http.headers["authorization"] = SECRET
    await refusal(enforcing.bot("stranger").CreateDagger(pb.CreateDaggerRequest(name="probe", spec=spec)))
    await enforcing.bot("stranger").Validate(pb.ValidateRequest(name="probe", spec=spec))
    told = await last(enforcing, kind=CHECK)

    assert told.reason
    assert SECRET not in str([record.message async for record in enforcing.audits.replay()])


async def test_a_mistake_is_no_refusal(enforcing: World, refusal: Refused, samples: Any) -> None:
    editor, spec = enforcing.bot("editor"), samples.spec()
    spec.sql = "SELECT nothing FROM `data_stream`"
    await refusal(editor.CreateDagger(pb.CreateDaggerRequest(name="probe", spec=spec)))
    await refusal(editor.GetDagger(pb.GetDaggerRequest(name="nowhere")))
    await refusal(editor.DeleteDagger(pb.DeleteDaggerRequest(name="counts")))
    await last(enforcing, reason="ROLE_MISSING")

    assert [record.message.reason async for record in enforcing.audits.replay()] == ["ROLE_MISSING"]


async def test_calls_without_a_valid_token_are_one_record_a_minute_of_each_address(
    enforcing: World, refusal: Refused
) -> None:
    good = token_of("viewer")[0]
    for token in (good[:-4] + "AAAA", "nonsense", ""):
        caller = Bearer(enforcing.client.channel, token)
        assert (await refusal(caller.ListDaggers(pb.ListDaggersRequest()))).reason == "TOKEN_REQUIRED"
    await enforcing.bot("viewer").ListDaggers(pb.ListDaggersRequest())
    await refusal(enforcing.bot("viewer").DeleteDagger(pb.DeleteDaggerRequest(name="counts")))
    await last(enforcing, reason="ROLE_MISSING")
    told = [record.message async for record in enforcing.audits.replay()]
    first = [call for call in told if call.kind == UNAUTHENTICATED]

    assert [(call.principal, call.peer, call.reason) for call in first] == [
        ("", "127.0.0.1", "TOKEN_REQUIRED")
    ]
    assert first[0].detail == "it showed a token of account:viewer-bot that is not valid"
    assert good[:-4] not in str(told)


# ---- What is asked for -------------------------------------------------------------------------------------


async def test_a_preview_is_audited_with_its_query_and_without_what_its_sinks_have(
    enforcing: World, refusal: Refused, samples: Any
) -> None:
    spec = samples.spec()
    http = spec.sinks.add().http
    http.url = f"https://user:{SECRET}@example.org/"
    http.headers["authorization"] = SECRET
    asked = pb.PreviewDaggerRequest(name="counts", spec=spec)
    asked.range.last_records = 7
    await anext(
        aiter(enforcing.bot("viewer").PreviewDagger(asked))
    )  # its columns: no host is there to compute
    told = await last(enforcing, kind=PREVIEW)
    said = json.loads(told.asked)

    assert (told.principal, told.allowed, told.subject) == ("account:viewer-bot", True, "counts")
    assert (said["spec"]["sql"], said["spec"]["streams"]) == (spec.sql, ["bookings"])
    assert said["range"] == {"last_records": "7"}
    assert SECRET not in str(told)


async def test_a_read_of_rows_says_what_was_asked_and_which_sensitive_fields_the_reader_sees(
    enforcing: World, refusal: Refused, samples: Any
) -> None:
    stream = samples.stream()
    stream.sensitive.append("city")
    await enforcing.root.RegisterStream(pb.RegisterStreamRequest(stream=stream))
    asked = pb.ReadRowsRequest(name="counts", limit=3, where=[{"column": "orders", "value": "5"}])
    await refusal(anext(aiter(enforcing.bot("viewer").ReadRows(asked))))
    ungranted = await last(enforcing, kind=READ)
    grant = access_pb2.StreamGrant(stream="bookings", read_sensitive=["account:owner-bot"])
    await enforcing.write(events_pb2.GrantChanged(meta=META, grant=grant), "bookings")
    await refusal(anext(aiter(enforcing.bot("owner").ReadRows(asked))))
    granted = await last(enforcing, kind=READ, principal="account:owner-bot")

    assert json.loads(granted.asked) == {
        "name": "counts",
        "limit": 3,
        "where": [{"column": "orders", "value": "5"}],
    }
    assert (list(ungranted.sensitive), list(granted.sensitive)) == ([], ["bookings.city"])


async def test_a_test_of_sinks_is_audited_also_within_a_plan(
    enforcing: World, refusal: Refused, samples: Any
) -> None:
    editor, spec = enforcing.bot("editor"), samples.spec()
    await refusal(anext(aiter(editor.TestSink(pb.TestSinkRequest(name="counts", spec=spec)))))
    tried = await last(enforcing, kind=SINK_TEST)
    spec.sinks[0].influx.measurement = "another"
    await editor.PlanDagger(pb.PlanDaggerRequest(name="counts", spec=spec, try_sinks=True))
    planned = await last(enforcing, kind=SINK_TEST, method="/daggers.v1.DaggerService/PlanDagger")

    assert json.loads(tried.asked)["spec"]["sinks"] == ["influx"]
    assert planned.principal == "account:editor-bot"


# ---- Without an audit --------------------------------------------------------------------------------------


class Full(MemoryLog):
    """A log that takes nothing while it is full."""

    full = False

    async def append(self, draft: Any) -> None:
        if self.full:
            raise LogUnavailable("the disk of the broker is full")
        await super().append(draft)


async def test_what_records_say_is_not_shown_while_it_cannot_be_audited_and_all_else_is(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    harness.audits = Full()
    async with world(harness, samples) as made:
        harness.audits.full = True
        viewer = made.bot("viewer")
        for call in (
            viewer.ListQuarantined(pb.ListQuarantinedRequest(dagger="counts")),
            anext(aiter(viewer.ReadLog(pb.ReadLogRequest(name="counts")))),
            anext(aiter(viewer.ReadRows(pb.ReadRowsRequest(name="counts")))),
            anext(aiter(made.root.SampleStream(pb.SampleStreamRequest(name="bookings")))),
            anext(aiter(viewer.PreviewDagger(pb.PreviewDaggerRequest(spec=samples.spec())))),
        ):
            error = await refusal(call)
            assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "AUDIT_AWAY")
            assert "cannot be audited" in error.message
        shown = await viewer.GetDagger(pb.GetDaggerRequest(name="counts"))
        await made.bot("editor").StopDagger(pb.StopDaggerRequest(name="counts"))
        harness.audits.full = False
        async with asyncio.timeout(30):
            while True:
                try:
                    answer = await viewer.ListQuarantined(pb.ListQuarantinedRequest(dagger="counts"))
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.1)
        kept = [record.message async for record in harness.audits.replay()]

    assert shown.dagger.name == "counts"
    assert list(answer.records) == []
    assert [call.method.rpartition("/")[2] for call in kept] == ["ListQuarantined"]


async def test_while_it_observes_nothing_is_refused_for_want_of_an_audit(harness: Any, samples: Any) -> None:
    harness.audits = Full()
    harness.audits.full = True
    async with world(harness, samples, enforce=False) as made:
        answer = await made.bot("viewer").ListQuarantined(pb.ListQuarantinedRequest(dagger="counts"))

    assert list(answer.records) == []


@asynccontextmanager
async def _never() -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield


async def test_a_read_waits_only_so_long_for_a_log_that_does_not_answer() -> None:
    audit = Audit(_never, "/test", opening_s=0.05)
    writing = asyncio.create_task(audit.run())
    with pytest.raises(AuditAway, match=r"within 0\.05 s"):
        await audit.write(audit_pb2.CallAudited(method="a"))
    with pytest.raises(AuditAway):  # known by now, so at once
        await audit.write(audit_pb2.CallAudited(method="b"))
    writing.cancel()

    assert audit.away


# ---- Reading it back ---------------------------------------------------------------------------------------


async def test_administrators_read_the_audit_and_owners_what_is_about_their_team(
    enforcing: World, refusal: Refused
) -> None:
    await refusal(enforcing.bot("stranger").DeleteDagger(pb.DeleteDaggerRequest(name="counts")))
    await refusal(enforcing.bot("stranger").GetTeamUsage(pb.GetTeamUsageRequest(team="platform-x")))
    await last(enforcing, reason="TEAM_UNKNOWN")
    all_ = await enforcing.root.ListAuditRecords(pb.ListAuditRecordsRequest(kinds=[REFUSED]))
    theirs = await enforcing.bot("owner").ListAuditRecords(
        pb.ListAuditRecordsRequest(team="pricing", kinds=[REFUSED])
    )
    for caller, team in (("owner", ""), ("owner", "delivery"), ("editor", "pricing"), ("viewer", "pricing")):
        error = await refusal(enforcing.bot(caller).ListAuditRecords(pb.ListAuditRecordsRequest(team=team)))
        assert error.reason == "ROLE_MISSING", (caller, team)

    assert [record.call.reason for record in all_.records] == ["TEAM_UNKNOWN", "ROLE_MISSING"]
    assert [(record.call.subject, record.call.principal) for record in theirs.records] == [
        ("counts", "account:stranger-bot")
    ]
    assert (await last(enforcing, method="/daggers.v1.AuditService/ListAuditRecords")).teams is not None


async def test_the_audit_is_read_newest_first_by_principal_time_and_kind_a_page_at_a_time(
    enforcing: World,
) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(7):
        kind = REFUSED if number % 2 else READ
        principal = f"user:{number % 3}"
        call = audit_pb2.CallAudited(principal=principal, method=str(number), kind=kind)
        audit = Audit(lambda: _one(enforcing.audits), "/test", clock=lambda: begin + timedelta(hours=number))  # noqa: B023
        writing = asyncio.create_task(audit.run())
        await audit.write(call)
        writing.cancel()

    async def methods(**asked: Any) -> list[str]:
        found: list[str] = []
        request = pb.ListAuditRecordsRequest(page_size=2, until=begin + timedelta(days=1), **asked)
        while True:
            answer = await enforcing.root.ListAuditRecords(request)
            assert len(answer.records) <= 2
            found += [record.call.method for record in answer.records]
            if not answer.next_page_token:
                return found
            request.page_token = answer.next_page_token

    assert await methods() == ["6", "5", "4", "3", "2", "1", "0"]
    assert await methods(principal="user:0") == ["6", "3", "0"]
    assert await methods(kinds=[REFUSED]) == ["5", "3", "1"]
    assert await methods(since=begin + timedelta(hours=4)) == ["6", "5", "4"]


@asynccontextmanager
async def _one(log: MemoryLog) -> AsyncIterator[Any]:
    yield log


async def test_a_page_token_of_another_list_is_refused(enforcing: World, refusal: Refused) -> None:
    for _ in range(2):
        await enforcing.bot("viewer").ListQuarantined(pb.ListQuarantinedRequest(dagger="counts"))
    page = await enforcing.root.ListAuditRecords(pb.ListAuditRecordsRequest(page_size=1))
    asked = pb.ListAuditRecordsRequest(principal="user:x", page_token=page.next_page_token)
    error = await refusal(enforcing.root.ListAuditRecords(asked))

    assert page.next_page_token
    assert [violation.reason for violation in error.violations] == ["INVALID_TOKEN"]


# ---- Floods, pure ------------------------------------------------------------------------------------------


def _unauthenticated(peer: str) -> audit_pb2.CallAudited:
    return audit_pb2.CallAudited(kind=UNAUTHENTICATED, peer=peer)


def test_of_a_flood_of_refusals_some_are_written_whole_and_the_rest_is_counted() -> None:
    counts = Counts()
    call = audit_pb2.CallAudited(kind=REFUSED, principal="user:a")
    whole = [counts.takes(call, 0.0) for _ in range(1_000)].count(True)
    early, counted, again = counts.over(59.9), counts.over(60.0), counts.over(60.0)

    assert whole == WHOLE[REFUSED]
    assert (early, [each.calls for each in counted], again) == ([], [1_000 - whole], [])


def test_addresses_without_number_fill_no_more_than_so_many_records_a_minute() -> None:
    counts = Counts()
    calls = [_unauthenticated(f"10.0.{number // 256}.{number % 256}") for number in range(5_000)]
    whole = [call for call in calls if counts.takes(call, 0.0)]
    counted = counts.over(61.0)

    assert len(whole) == PEERS + 1
    assert whole[-1].peer == OTHERS
    assert [(each.peer, each.calls) for each in counted] == [(OTHERS, 5_000 - PEERS - 1)]


def test_a_read_is_never_only_counted() -> None:
    counts = Counts()
    assert all(counts.takes(audit_pb2.CallAudited(kind=READ, principal="user:a"), 0.0) for _ in range(1_000))


@pytest.mark.parametrize(
    ("peer", "place"),
    [
        ("ipv4:10.1.2.3:5555", "10.1.2.3"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:5555", "2001:db8:1:2::/64"),
        ("ipv6:[::ffff:10.1.2.3]:5555", "10.1.2.3"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5555", "fe80::/64"),
        ("unix:", "unix"),
        ("", "unknown"),
    ],
)
def test_a_caller_is_known_by_its_address_without_the_port(peer: str, place: str) -> None:
    assert place_of(peer) == place


@pytest.mark.parametrize("names", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_principals_and_addresses_without_number_are_counted_together(names: int) -> None:
    """Within one minute; the next one begins with none."""
    counts = Counts()
    whole: Counter[str] = Counter()
    for number in range(names):
        for call in (
            audit_pb2.CallAudited(kind=REFUSED, principal=f"user:{number}"),
            audit_pb2.CallAudited(kind=CHECK, principal=f"user:{number}"),
            audit_pb2.CallAudited(kind=UNAUTHENTICATED, peer=f"10.{number}"),
        ):
            if counts.takes(call, 0.0):
                whole[call.principal if call.principal == OTHERS else "whole"] += 1
    held, counted = counts.remembered, counts.over(60.0)

    assert held == 2 * (PRINCIPALS + 1) + PEERS + 1
    assert whole == {"whole": 2 * PRINCIPALS + PEERS + 1, OTHERS: WHOLE[REFUSED] + WHOLE[CHECK]}
    assert {(each.principal or each.peer) for each in counted} == {OTHERS}
    assert sum(each.calls for each in counted) + whole.total() == 3 * names
    assert counts.remembered == 0
