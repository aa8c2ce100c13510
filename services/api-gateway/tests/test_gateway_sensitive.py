"""Sensitive fields at a gateway: what is masked for whom, and what is not written without a grant."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import access_pb2, gateway_pb2
from tests.contracts.quarantine import set_aside
from tests.sensitiveworld import HIDDEN, RECORD, STAMP, Host, forwarded, row, world

from api_gateway.auth.masking import MASKED, Mask
from chassis.errors import ApiError
from daggerspec.columns import Column, Role

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]


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
    assert masked["log"] == [
        f"{STAMP} INFO log: {MASKED}",
        f"{STAMP} INFO runtime: {MASKED}",
        f"{STAMP} WARN TaskSetManager: {MASKED}",
        f"{STAMP} WARN runtime: groups not looked at dagger=counts why={MASKED}",
        f"{STAMP} INFO runtime: batch rows={{}}",
    ]
    assert json.loads(masked["sample"].json) == {**RECORD, "city": MASKED}
    assert (masked["sample"].key, masked["sample"].size) == (b"", 0)


@pytest.mark.parametrize("enforce", [True, False])
async def test_previews_are_masked_for_who_is_not_granted_what_they_show(
    harness: Any, samples: Any, enforce: bool
) -> None:
    HIDDEN.clear()
    async with world(harness, samples, "city", enforce=enforce) as (_, seeing, other):
        spec = forwarded(samples)
        shown, masked = [await who.steps("PreviewDagger", spec=spec) for who in (seeing, other)]

    assert shown[1].rows.rows[0] == row()
    assert shown[2].done.examples[0].value == b"Jakarta"
    assert dict(masked[1].rows.rows[0].tags) == {"tag_city": MASKED}
    assert masked[1].rows.rows[0].fields[0].integer == 3
    assert masked[2].done.examples[0].value == b""
    assert (shown[2].done.series, masked[2].done.series) == (1, 0)
    assert (dict(shown[2].done.invalid), dict(masked[2].done.invalid)) == ({"bytetostring": 1}, {})
    assert HIDDEN == [[], ["tag_city"]]


def test_a_row_without_a_sensitive_value_is_masked_as_one_with_it() -> None:
    """One bit of it: whether there is one."""
    with_it, without = row(), row(None)
    with_it.fields.insert(0, pb.RowField(name="first", text="Jakarta"))
    columns = [
        Column("tag_city", Role.TAG, "tag_city", "string"),
        Column("first", Role.FIELD, "first", "string"),
        Column("orders", Role.FIELD, "orders", "bigint"),
    ]
    mask = Mask(frozenset({"orders"}), time=True, hidden=tuple(columns[:2]))

    mask.rows([with_it, without])

    assert with_it == without
    assert dict(without.tags) == {"tag_city": MASKED}
    assert [(field.name, field.text) for field in without.fields] == [("orders", ""), ("first", MASKED)]


async def test_an_ungranted_caller_gets_the_same_bytes_whatever_the_sensitive_values_are(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another length, and of none, too: rows, logs, samples, previews and quarantined records."""
    now_ms, answers = round(time.time() * 1_000), []
    async with world(harness, samples, "city") as (_, seeing, other):
        generation = other.client.gateway.fold.fleet.daggers["counts"].generation
        for city in ("Jakarta", "Jakarta Selatan", None):
            monkeypatch.setattr(Host, "city", city)
            value = (city or "").encode()
            record = set_aside(
                "counts", 1, generation=generation, stage="sink", value=value, key=value, row=value,
                detail=f"{city} is refused", truncated=city is None, id="a" * 32,
            )  # fmt: skip
            other.client.quarantined.place(0, *record, time_ms=now_ms)
            answers += [[*await told(who, samples)] for who in (seeing, other)]

    assert answers[1] == answers[3] == answers[5]
    assert answers[0] != answers[2] != answers[4]


async def told(who: Any, samples: Any) -> list[bytes]:
    """All that somebody is told of what is sensitive here, without how long it took."""
    steps = [
        *await who.steps("ReadRows", name="counts"),
        *await who.steps("WatchRows", name="counts"),
        *await who.steps("ReadLog", name="counts"),
        *await who.steps("SampleStream", name="bookings", last_records=1),
        *await who.steps("PreviewDagger", spec=forwarded(samples)),
        await who.ask("GetQuarantined", dagger="counts", id="aaaa"),
    ]
    for step in steps:
        if isinstance(step, pb.PreviewDaggerResponse) and step.HasField("done"):
            step.done.ClearField("total_ms")
            step.done.ClearField("first_row_ms")
    return [step.SerializeToString(deterministic=True) for step in steps]


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
    assert {each.stage: each.detail for each in told[seeing]} == dict.fromkeys(
        ("decode", "sink"), "of Jakarta"
    )
    assert {each.stage: each.detail for each in told[other]} == dict.fromkeys(("decode", "sink"), MASKED)


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
                ("PlanDagger", "mine"),
                ("UpdateDagger", "plain"),
            )
        ]
        validated = await other.ask("Validate", name="mine", spec=spec)
        same = await other.ask("ApplyDagger", name="seen", spec=spec)
        wrote = await seeing.client.log.end() - before

    places = [("spec.sql", "SENSITIVE_COLUMN", 1, 175), ("spec.sql", "SENSITIVE_COLUMN", 1, 16)]
    for error in errors:
        assert error.code is grpc.StatusCode.INVALID_ARGUMENT
        assert [(one.field, one.reason, one.line, one.column) for one in error.violations] == places
        assert error.metadata["path"] == "city"
    assert [(one.field, one.code, one.line, one.column) for one in validated.findings] == places
    assert "register that as a stream of its own" in validated.findings[0].suggestion
    assert same.action == pb.ApplyDaggerResponse.ACTION_UNCHANGED
    assert wrote == 0


async def test_while_it_is_observed_only_it_is_written_and_audited(harness: Any, samples: Any) -> None:
    async with world(harness, samples, "city", enforce=False) as (_, _, other):
        await other.ask("CreateDagger", name="mine", spec=samples.spec())
        await other.client.gateway.follower.wait_for(await other.client.log.end())
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
