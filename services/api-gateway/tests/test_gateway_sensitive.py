"""Sensitive fields at a gateway: what is masked for whom, and what is not written without a grant."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from daggers.v1 import (
    access_pb2,
    events_pb2,
    gateway_pb2,
    gateway_pb2_grpc,
    host_pb2,
    host_pb2_grpc,
    spec_pb2,
    telemetry_pb2,
)
from tests.contracts.quarantine import set_aside

from api_gateway.hosts import HostAccess
from api_gateway.masking import MASKED, Mask
from chassis.errors import ApiError
from chassis.interceptors import interceptor
from daggerspec.columns import Column, Role
from eventlog import Draft

pb = gateway_pb2
ROOT = "a-token-of-the-first-hour"
FILE = {hashlib.sha256(ROOT.encode()).digest(): "root"}
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
RECORD = {"city": "Jakarta", "place": {"lat": -6.2, "seen": "2026-01-01T00:00:00Z"}, "status": "COMPLETED"}


def row() -> pb.Row:
    made = pb.Row(
        tags={"tag_city": "Jakarta"}, key="Jakarta/2026", fields=[pb.RowField(name="orders", integer=3)]
    )
    made.time.FromDatetime(datetime(2026, 1, 1, tzinfo=UTC))
    return made


class Host(host_pb2_grpc.HostServiceServicer):
    """A host with one row, one line of log and one record."""

    async def ReadHostRows(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - gRPC's name
        yield pb.ReadRowsResponse(rows=[row()], selected=True)

    async def WatchHostRows(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        yield pb.WatchRowsResponse(rows=[row()])

    async def ReadHostLog(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        lines = ['10:00:00 INFO log row {"tag_city": "Jakarta"}', "10:00:01 INFO a row of nothing"]
        yield pb.ReadLogResponse(host="a", path="/driver.log", lines=lines)

    async def SampleHostStream(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        record = pb.SampledRecord(topic="bookings-1", key=b"Jakarta", json=json.dumps(RECORD))
        yield pb.SampleStreamResponse(records=[record] if request.last_records else [])

    async def PreviewHostDagger(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        example = telemetry_pb2.Quarantined(reason="MALFORMED", value=b"Jakarta")
        yield pb.PreviewDaggerResponse(rows=pb.PreviewRows(rows=[row()]))
        yield pb.PreviewDaggerResponse(done=pb.PreviewDone(examples=[example]))


class Caller:
    """Every method of a gateway, with a token."""

    def __init__(self, client: Any, token: str = ROOT) -> None:
        self.client, self._metadata = client, (("authorization", f"Bearer {token}"),)
        names = ("Dagger", "Catalog", "Access", "Quarantine")
        kinds = [getattr(gateway_pb2_grpc, f"{name}ServiceStub") for name in names]
        self._stubs = [kind(client.channel) for kind in kinds]

    def ask(self, method: str, **said: Any) -> Any:
        stub = next(stub for stub in self._stubs if hasattr(stub, method))
        request = getattr(pb, f"{method}Request")(**said)
        return getattr(stub, method)(request, timeout=30, metadata=self._metadata)

    async def steps(self, method: str, **said: Any) -> list[Any]:
        """All steps of a call, or the first of a watch."""
        if method == "WatchRows":
            return [await self.ask(method, **said).read()]
        return [step async for step in self.ask(method, **said)]


@asynccontextmanager
async def world(
    harness: Any, samples: Any, *sensitive: str, enforce: bool = True
) -> AsyncIterator[tuple[Caller, Caller, Caller]]:
    """The administrator; an editor who is granted what is sensitive, one who is not; a dagger that runs."""
    server = grpc.aio.server(interceptors=[interceptor(host_pb2.DESCRIPTOR)])
    host_pb2_grpc.add_HostServiceServicer_to_server(Host(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    access = HostAccess(here="a")
    async with harness.running(tokens=lambda: FILE, enforce=enforce, host_access=access) as client:
        root = Caller(client)
        stream = samples.stream()
        stream.sensitive.extend(sensitive)
        await root.ask("RegisterCluster", cluster=samples.cluster())
        await root.ask("RegisterSchema", schema=spec_pb2.Schema(files=samples.files()))
        await root.ask("RegisterTeam", team=access_pb2.Team(name="pricing"))
        callers = []
        for name in ("seeing-bot", "other-bot"):
            made = await root.ask(
                "CreateServiceAccount", name=name, team="pricing", role=access_pb2.ROLE_EDITOR
            )
            callers.append(Caller(client, made.token))
        await _say(client, "host", events_pb2.SchedulerStarted(scheduler_id="s", host="a"))
        await _say(client, "a", events_pb2.HostServing(scheduler_id="s", host="a", address=address))
        await root.ask("RegisterStream", stream=stream)
        grant = access_pb2.StreamGrant(stream="bookings", read_sensitive=["account:seeing-bot"])
        await root.ask("SetStreamGrant", grant=grant)
        await root.ask("CreateDagger", name="counts", spec=samples.spec())
        epoch = client.gateway.fold.fleet.leader.epoch
        intent = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=epoch, name="counts"), version=1)
        await _say(client, "counts", intent)
        yield root, callers[0], callers[1]
    await server.stop(None)


async def _say(client: Any, subject: str, message: Any) -> None:
    draft = Draft(f"{type(message).__name__}/{subject}", "/test", subject, datetime.now(UTC), message)
    await client.log.append(draft)
    await client.gateway.follower.reached(await client.log.end())


@pytest.mark.parametrize("enforce", [True, False])
async def test_rows_logs_and_samples_are_masked_for_who_is_not_granted_them_and_for_nobody_else(
    harness: Any, samples: Any, enforce: bool
) -> None:
    async with world(harness, samples, "city", enforce=enforce) as (root, seeing, other):
        shown = {
            who: {
                "rows": (await who.steps("ReadRows", name="counts"))[0].rows[0],
                "watch": (await who.steps("WatchRows", name="counts"))[0].rows[0],
                "log": list((await who.steps("ReadLog", name="counts"))[0].lines),
                "sample": (await who.steps("SampleStream", name="bookings", last_records=1))[0].records[0],
            }
            for who in (root, seeing, other)
        }

    masked = shown[other]
    for who in (root, seeing):
        assert shown[who]["rows"] == shown[who]["watch"] == row()
        assert "Jakarta" in shown[who]["log"][0]
        assert (json.loads(shown[who]["sample"].json), shown[who]["sample"].key) == (RECORD, b"Jakarta")
    for each in ("rows", "watch"):
        assert (dict(masked[each].tags), masked[each].fields[0].integer) == ({"tag_city": MASKED}, 3)
        assert masked[each].HasField("time")
        assert "Jakarta" not in masked[each].key
        assert masked[each].key
    assert masked["log"] == [f"10:00:00 INFO log row {MASKED}", "10:00:01 INFO a row of nothing"]
    assert json.loads(masked["sample"].json) == {**RECORD, "city": MASKED}
    assert masked["sample"].key == b""


@pytest.mark.parametrize("enforce", [True, False])
async def test_previews_are_masked_for_who_is_not_granted_what_they_show(
    harness: Any, samples: Any, enforce: bool
) -> None:
    async with world(harness, samples, "city", enforce=enforce) as (_, seeing, other):
        shown, masked = [await who.steps("PreviewDagger", spec=samples.spec()) for who in (seeing, other)]

    assert shown[1].rows.rows[0] == row()
    assert shown[2].done.examples[0].value == b"Jakarta"
    assert dict(masked[1].rows.rows[0].tags) == {"tag_city": MASKED}
    assert masked[1].rows.rows[0].fields[0].integer == 3
    assert masked[2].done.examples[0].value == b""


def test_a_row_without_a_sensitive_value_is_masked_as_one_with_it() -> None:
    """One bit of it: whether there is one."""
    with_it, without = row(), row()
    without.ClearField("tags")
    with_it.fields.insert(0, pb.RowField(name="first", text="Jakarta"))
    columns = [
        Column("tag_city", Role.TAG, "tag_city", "string"),
        Column("first", Role.FIELD, "first", "string"),
        Column("orders", Role.FIELD, "orders", "bigint"),
    ]
    mask = Mask(frozenset({"orders"}), time=True, key=False, salt=b"s", hidden=tuple(columns[:2]))

    mask.rows([with_it, without])

    assert with_it == without
    assert dict(without.tags) == {"tag_city": MASKED}
    assert [(field.name, field.text) for field in without.fields] == [("orders", ""), ("first", MASKED)]


async def test_what_no_column_is_made_of_is_masked_in_samples_alone(harness: Any, samples: Any) -> None:
    async with world(harness, samples, "place.lat") as (_, _, other):
        rows = (await other.steps("ReadRows", name="counts"))[0].rows[0]
        record = (await other.steps("SampleStream", name="bookings", last_records=1))[0].records[0]

    assert rows == row()
    assert json.loads(record.json)["place"] == {"lat": MASKED, "seen": RECORD["place"]["seen"]}  # type: ignore[index] # a map


async def test_rows_are_not_chosen_by_what_is_masked(harness: Any, samples: Any, refusal: Refused) -> None:
    where = pb.RowCondition(column="tag_city", comparison=pb.RowCondition.COMPARISON_EQUAL, value="Jakarta")
    async with world(harness, samples, "city") as (_, seeing, other):
        chosen = await seeing.steps("ReadRows", name="counts", where=[where])
        errors = [
            await refusal(other.steps("ReadRows", name="counts", **said))
            for said in ({"where": [where]}, {"order_by": "tag_city desc"})
        ]
        ordered = await other.steps("ReadRows", name="counts", order_by="orders desc")

    assert (len(chosen), len(ordered)) == (1, 1)
    assert [(error.code, error.reason) for error in errors] == [
        (grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_COLUMN")
    ] * 2


async def test_a_grant_counts_at_the_next_step_and_no_more_once_it_is_taken_back(
    harness: Any, samples: Any
) -> None:
    async with world(harness, samples, "city") as (root, seeing, _):
        before = (await seeing.steps("ReadRows", name="counts"))[0].rows[0]
        await root.ask("SetStreamGrant", grant=access_pb2.StreamGrant(stream="bookings"))
        after = (await seeing.steps("ReadRows", name="counts"))[0].rows[0]

    assert (before.tags["tag_city"], after.tags["tag_city"]) == ("Jakarta", MASKED)


async def test_bytes_that_were_set_aside_are_shown_whole_or_not_at_all(harness: Any, samples: Any) -> None:
    async with world(harness, samples, "place.lat") as (_, seeing, other):
        generation = seeing.client.gateway.fold.fleet.daggers["counts"].generation
        for number, stage in enumerate(("decode", "sink")):
            record = set_aside(
                "counts", number, generation=generation, stage=stage, detail="of Jakarta",
                value=b"Jakarta", key=b"Jakarta", decoded_prefix='{"city": "Jakarta"}',
                row=b"Jakarta", sha256=b"of Jakarta",
            )  # fmt: skip
            seeing.client.quarantined.place(0, *record, time_ms=round(time.time() * 1_000))
        told = {who: (await who.ask("ListQuarantined", dagger="counts")).records for who in (seeing, other)}

    assert {each.value for each in told[seeing]} == {b"Jakarta"}
    assert [(each.value, each.key, each.decoded_prefix) for each in told[other]] == [(b"", b"", "")] * 2
    assert [(each.row, each.sha256) for each in told[other]] == [(b"", b"")] * 2
    assert {each.stage: each.detail for each in told[other]} == {"decode": "of Jakarta", "sink": MASKED}


async def test_who_is_not_granted_it_has_nothing_of_it_written(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    spec, plain = samples.spec(), samples.spec()
    plain.sql = plain.sql.replace("city AS tag_city, ", "").replace(", city", "")
    async with world(harness, samples, "city") as (_, seeing, other):
        await seeing.ask("CreateDagger", name="seen", spec=spec)
        await other.ask("CreateDagger", name="plain", spec=plain)
        before = await seeing.client.log.end()
        errors = [
            await refusal(other.ask(method, name=name, spec=spec))
            for method, name in (
                ("CreateDagger", "mine"),
                ("ApplyDagger", "mine"),
                ("UpdateDagger", "plain"),
                ("Validate", "mine"),
            )
        ]
        same = await other.ask("ApplyDagger", name="seen", spec=spec)
        wrote = await seeing.client.log.end() - before

    assert [(error.code, error.reason) for error in errors] == [
        (grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_COLUMN")
    ] * 4
    assert errors[0].metadata["path"] == "city"
    assert same.action == pb.ApplyDaggerResponse.ACTION_UNCHANGED
    assert wrote == 0


async def test_while_it_is_observed_only_it_is_written_and_audited(harness: Any, samples: Any) -> None:
    async with world(harness, samples, "city", enforce=False) as (_, _, other):
        await other.ask("CreateDagger", name="mine", spec=samples.spec())
        await other.client.gateway.follower.reached(await other.client.log.end())
    audited = [record.message async for record in harness.audits.replay()]

    assert [(call.reason, call.allowed, call.refused) for call in audited if not call.allowed] == [
        ("SENSITIVE_COLUMN", False, False)
    ]


async def test_sensitive_is_what_is_there(harness: Any, samples: Any, refusal: Refused) -> None:
    async with world(harness, samples) as (root, _, _):
        stream = samples.stream()
        stream.sensitive.extend(["place.lat", "cty", "place.lat.deep"])
        error = await refusal(root.ask("RegisterStream", stream=stream))
        grant = access_pb2.StreamGrant(stream="bookings", read_sensitive=["ada"])
        nobody = await refusal(root.ask("SetStreamGrant", grant=grant))

    assert [(violation.field, violation.reason, violation.suggestion) for violation in error.violations] == [
        ("stream.sensitive[1]", "UNKNOWN_FIELD", "city"), ("stream.sensitive[2]", "UNKNOWN_FIELD", None),
    ]  # fmt: skip
    assert [violation.field for violation in nobody.violations] == ["grant.read_sensitive[0]"]
