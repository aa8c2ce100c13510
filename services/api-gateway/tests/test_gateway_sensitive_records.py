"""Attacks on sensitive fields by records that are forwarded whole: whatever a message has stands in one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import gateway_pb2, host_pb2, spec_pb2
from tests.sensitiveworld import CLEAN, Host, asked, given, two_streams

from api_gateway.auth.masking import MASKED
from chassis.errors import ApiError

pb = gateway_pb2
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]
OUT = "forwarded"
RECORD = spec_pb2.Forward.PAYLOAD_RECORD
COLUMNS = ("value", "key", "headers")


def passed_on(
    samples: Any, stream: str = "bookings", topic: str = OUT, **forward: Any
) -> spec_pb2.DaggerSpec:
    """Records of a stream, whole where nothing else is said, to a topic."""
    spec = asked(samples, "", stream=stream)
    spec.ClearField("sql")
    spec.forward.CopyFrom(spec_pb2.Forward(**({"payload": RECORD} | forward)))
    del spec.sinks[:]
    spec.sinks.add().kafka.topic = topic
    return spec


def fields_of(error: ApiError) -> list[tuple[str, ...]]:
    """Field, reason and sensitive path of all that is wrong."""
    paths = [re.findall(r"(?:of|by) ([a-z.]+) of stream", one.message) for one in error.violations]
    return [(one.field, one.reason, *path) for one, path in zip(error.violations, paths, strict=True)]


async def errors(refusal: Refused, who: Any, spec: spec_pb2.DaggerSpec, name: str) -> list[ApiError]:
    """What is answered wherever a specification is written."""
    return [
        await refusal(who.ask(method, name=name, spec=spec))
        for method in ("CreateDagger", "ApplyDagger", "PlanDagger")
    ]


@pytest.mark.parametrize("sensitive", ["city", "place.lat"])
async def test_whole_records_are_passed_on_by_nobody_without_the_grant(
    harness: Any, samples: Any, refusal: Refused, sensitive: str
) -> None:
    spec = passed_on(samples)
    async with two_streams(harness, samples, sensitive) as (_, seeing, other):
        refused = await errors(refusal, other, spec, "mine")
        found = (await other.ask("Validate", name="mine", spec=spec)).findings
        await seeing.ask("CreateDagger", name="theirs", spec=spec)
        await other.ask("CreateDagger", name="plain", spec=passed_on(samples, "plain", "plainly"))

    for error in refused:
        assert fields_of(error) == [("spec.forward", "SENSITIVE_COLUMN", sensitive)] * 3
        assert [one.message.split()[1] for one in error.violations] == [*COLUMNS]
    assert [(one.field, one.code) for one in found] == [("spec.forward", "SENSITIVE_COLUMN")] * 3


async def test_no_record_is_chosen_by_what_stands_in_it(harness: Any, samples: Any, refusal: Refused) -> None:
    """By a field, by its key, and by a row of clean fields."""
    filters = {
        "a field": passed_on(samples, filter="city = 'Jakarta'"),
        "the key": passed_on(samples, filter="CAST(`__key` AS STRING) = 'Jakarta'"),
        "a row": passed_on(
            samples,
            filter="city = 'Jakarta'",
            fields=[{"name": "status", "expression": "status"}],
            payload=spec_pb2.Forward.PAYLOAD_ROW,
        ),
    }
    async with two_streams(harness, samples) as (_, _, other):
        refused = {name: await errors(refusal, other, spec, "mine") for name, spec in filters.items()}

    for name, [error, *_] in refused.items():
        [chosen] = [one for one in error.violations if one.field == "spec.forward.filter"]
        assert (chosen.reason, chosen.line) == ("SENSITIVE_COLUMN", 1), name
        assert "WHERE goes by city of stream bookings" in chosen.message, name


async def test_every_field_is_passed_on_by_nobody_without_the_grant(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    """A row of no fields has all of them; one of some is refused at the one."""
    row = {"payload": spec_pb2.Forward.PAYLOAD_ROW}
    some = [{"name": "status", "expression": "status"}, {"name": "c", "expression": "UPPER(city)"}]
    async with two_streams(harness, samples) as (_, _, other):
        every = await errors(refusal, other, passed_on(samples, **row), "mine")
        one = await errors(refusal, other, passed_on(samples, fields=some, **row), "mine")

    assert [fields_of(error) for error in every] == [[("spec.forward", "SENSITIVE_COLUMN", "city")]] * 3
    assert [fields_of(error) for error in one] == [
        [("spec.forward.fields[1].name", "SENSITIVE_COLUMN", "city")]
    ] * 3


async def test_no_edit_makes_a_dagger_pass_on_whole_records(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    """Nor one that takes another stream, or that only drops its filter."""
    async with two_streams(harness, samples) as (_, seeing, other):
        await other.ask("CreateDagger", name="clean", spec=asked(samples, CLEAN))
        await other.ask("CreateDagger", name="plain", spec=passed_on(samples, "plain", "plainly"))
        await seeing.ask("CreateDagger", name="theirs", spec=passed_on(samples, filter="city = 'Jakarta'"))
        refused = [
            await refusal(other.ask("UpdateDagger", name=name, spec=passed_on(samples, topic=topic)))
            for name, topic in (
                ("clean", OUT),
                ("plain", "plainly"),
                ("theirs", OUT),
                ("theirs", "elsewhere"),
            )
        ]

    for error in refused:
        assert {("spec.forward", "SENSITIVE_COLUMN", "city")} == {*fields_of(error)}


async def test_a_preview_of_whole_records_shows_and_computes_none(harness: Any, samples: Any) -> None:
    spec = passed_on(samples)
    del spec.sinks[:]
    async with two_streams(harness, samples) as (_, seeing, other):
        shown, masked = [await who.steps("PreviewDagger", spec=spec) for who in (seeing, other)]

    assert shown[1].rows.rows[0].tags["tag_city"] == "Jakarta"  # whatever the host says
    assert masked[1].rows.rows[0].tags["tag_city"] == MASKED
    shown_fields = {field.name: field.text for field in masked[1].rows.rows[0].fields}
    assert shown_fields == dict.fromkeys(("orders", *COLUMNS), MASKED)
    assert not masked[-1].done.examples[0].value


@pytest.mark.parametrize("method", ["ReadRows", "WatchRows"])
async def test_records_that_were_passed_on_are_masked_where_they_are_read_back(
    harness: Any, samples: Any, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """By who has no grant; also by the name of another dagger of the topic, which passes clean ones on."""
    row = pb.Row(key="0/7", fields=[pb.RowField(name="value", text="SmFrYXJ0YQ==")])

    async def read(_: Any, request: Any, __: Any) -> Any:
        kind = (
            pb.ReadRowsResponse if isinstance(request, host_pb2.ReadHostRowsRequest) else pb.WatchRowsResponse
        )
        yield kind(rows=[row])

    monkeypatch.setattr(Host, "ReadHostRows", read)
    monkeypatch.setattr(Host, "WatchHostRows", read)
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, "theirs", passed_on(samples))
        await given(other, "mine", passed_on(samples, "plain"))
        shown = (await seeing.steps(method, name="theirs"))[0].rows[0]
        masked = [(await other.steps(method, name=name))[0].rows[0] for name in ("theirs", "mine")]

    assert shown == row
    for one in masked:
        assert one.key == "0/7"
        assert {field.name: field.text for field in one.fields} == dict.fromkeys(COLUMNS, MASKED)


async def test_the_topic_they_came_to_is_a_stream_of_the_administrators_making(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    """Nobody else registers one over it; it is as sensitive as that says, in samples and queries."""
    over = samples.stream()
    over.name, over.topics[:] = "over", [OUT]
    async with two_streams(harness, samples) as (root, seeing, other):
        await given(seeing, "theirs", passed_on(samples))
        refused = [await refusal(who.ask("RegisterStream", stream=over)) for who in (seeing, other)]
        discovered = await refusal(other.steps("DiscoverTopics", cluster="local"))
        over.sensitive.append("city")
        await root.ask("RegisterStream", stream=over)
        sampled = (await other.steps("SampleStream", name="over", last_records=1))[0].records[0]
        again = await errors(refusal, other, passed_on(samples, "over", "again"), "mine")

    assert [(error.code, error.reason) for error in (*refused, discovered)] == [
        (grpc.StatusCode.PERMISSION_DENIED, "ROLE_MISSING")
    ] * 3
    assert MASKED in sampled.json
    assert "Jakarta" not in sampled.json
    assert [fields_of(error) for error in again] == [[("spec.forward", "SENSITIVE_COLUMN", "city")] * 3] * 3
