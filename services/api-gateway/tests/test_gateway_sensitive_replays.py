"""Attacks on masked records by replays: what one would write, to where, and what it says of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from tests.contracts.quarantine import set_aside
from tests.sensitiveworld import CLEAN, MADE, STAMP, Caller, asked, fields, given, rows, say, two_streams

from api_gateway.auth.masking import MASKED
from chassis.errors import ApiError
from eventlog import Draft
from eventlog.testing import START

pb = gateway_pb2
NAME = "theirs"
CITY = '{"first": "Jakarta"}'
Refused = Callable[[Awaitable[Any]], Awaitable[ApiError]]


def generation(who: Caller) -> int:
    found: int = who.client.gateway.fold.fleet.daggers[NAME].generation
    return found


def put(who: Caller, number: int, *, of: int, **more: Any) -> str:
    """A record of a launch that is set aside now, if nothing else is said a row of a sink; its id."""
    id_ = f"{number:032x}"
    held = {"id": id_, "generation": of, "stage": "sink", "sink": "influx", "reason": "CONSTRAINT", **more}
    content = {"decoded_prefix": CITY, "row": b"Jakarta", "value": b"Jakarta", "message": "shop.Booking"}
    record = set_aside(NAME, number, **(content | held))
    who.client.quarantined.place(0, *record, time_ms=round(time.time() * 1_000))
    return id_


def resolve(who: Caller, id_: str, detail: str, outcome: Any) -> None:
    """What a replay said of a record."""
    said = telemetry_pb2.QuarantineResolved(
        dagger=NAME,
        id=id_,
        outcome=outcome,
        replay_id="r",
        sequence=10**6,
        reason="CONSTRAINT",
        detail=detail,
    )
    headers = Draft(f"r/{id_}", "/replay", NAME, START, said).headers()
    now_ms = round(time.time() * 1_000)
    who.client.quarantined.place(0, NAME.encode(), headers, said.SerializeToString(), time_ms=now_ms)


async def replay(who: Caller, *ids: str, edited: str = "", **more: Any) -> Any:
    """Ask for a replay of these records; `edited`: what each is to hold."""
    edits = [pb.QuarantineEdit(id=id_, decoded=edited) for id_ in ids] if edited else []
    return await who.ask("ReplayQuarantined", dagger=NAME, selection={"ids": ids}, edits=edits, **more)


# ---- What a replay says ------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["FAILED_AGAIN", "LATE", "NOT_REPLAYABLE"])
async def test_what_replays_said_of_masked_records_is_masked(
    harness: Any, samples: Any, outcome: str
) -> None:
    """A sink quotes what it refuses, and a window that is closed tells the time of the record."""
    said = getattr(telemetry_pb2, f"QUARANTINE_OUTCOME_{outcome}")
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, NAME, asked(samples, MADE, "place"))
        id_ = put(seeing, 1, of=generation(seeing))
        resolve(seeing, id_, "invalid input: Jakarta", said)
        listed = {who: await who.ask("ListQuarantined", dagger=NAME) for who in (seeing, other)}
        shown = {who: await who.ask("GetQuarantined", dagger=NAME, id=id_) for who in (seeing, other)}
        whole = await other.ask("ListQuarantined", dagger=NAME, all_states=True, brief=True)

    assert [listed[seeing].statuses[0].detail, shown[seeing].status.detail] == ["invalid input: Jakarta"] * 2
    for status in (listed[other].statuses[0], shown[other].status, whole.statuses[0]):
        assert (status.detail, status.reason, status.state) == (
            MASKED, "CONSTRAINT", getattr(pb, f"QUARANTINE_STATE_{outcome}"),
        )  # fmt: skip
    for answer in (listed[other], shown[other], whole):
        assert b"Jakarta" not in answer.SerializeToString()


async def test_why_somebody_discarded_a_record_is_theirs_to_say(harness: Any, samples: Any) -> None:
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, NAME, asked(samples, MADE, "place"))
        id_ = put(seeing, 1, of=generation(seeing))
        await seeing.ask("DiscardQuarantined", dagger=NAME, selection={"ids": [id_]}, reason="of a test")
        shown = await other.ask("GetQuarantined", dagger=NAME, id=id_)

    assert (shown.record.decoded_prefix, shown.status.detail) == ("", "of a test")


async def test_a_dry_run_says_of_masked_records_how_many_and_why_and_no_more(
    harness: Any, samples: Any
) -> None:
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, NAME, asked(samples, MADE, "place"))
        id_ = put(seeing, 1, of=generation(seeing))
        told = {who: await replay(who, id_, validate_only=True) for who in (seeing, other)}

    assert [kind.detail for kind in told[seeing].forecast] == ["of Jakarta"]
    assert [(kind.reason, kind.records, kind.detail) for kind in told[other].forecast] == [
        ("SINK_SCHEMA", 1, MASKED)
    ]


# ---- What it would write -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["sink", "decode"])
@pytest.mark.parametrize("dry", [True, False])
async def test_no_record_that_is_masked_is_edited(
    harness: Any, samples: Any, refusal: Refused, stage: str, dry: bool
) -> None:
    """Neither one of the newest launch, nor one of an earlier one whose fields the newest does not read."""
    edited = CITY if stage == "sink" else '{"city": "Jakarta"}'
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, NAME, asked(samples, MADE, "place"))
        old = put(seeing, 1, of=generation(seeing), stage=stage)
        masked = await refusal(replay(other, old, edited=edited, validate_only=dry))
        await given(seeing, NAME, asked(samples, CLEAN, "place", stream="plain"))
        new = put(seeing, 2, of=generation(seeing), stage=stage)
        later = await refusal(replay(other, old, edited=edited, validate_only=dry))
        both = await refusal(replay(other, old, new, edited=edited, validate_only=dry))
        mine = await replay(other, new, edited=edited, validate_only=True)
        theirs = await replay(seeing, old, new, edited=edited, validate_only=True)

    for error in (masked, later, both):
        assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_RECORD")
        assert "Jakarta" not in str(error)
    assert (mine.records, theirs.records) == (1, 2)


async def test_no_edit_tells_the_columns_of_a_masked_row(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    """The refusal comes before anything is said of what an edit fits."""
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, NAME, asked(samples, MADE, "place"))
        old = put(seeing, 1, of=generation(seeing))
        await given(seeing, NAME, asked(samples, CLEAN, "place", stream="plain"))
        errors = [await refusal(replay(other, old, edited=text)) for text in ('{"x": 1}', "{", "[]")]

    assert {error.reason for error in errors} == {"SENSITIVE_RECORD"}
    assert not any("first" in str(error) for error in errors)


async def test_rows_that_are_masked_are_replayed_into_no_sinks_but_their_own(
    harness: Any, samples: Any, refusal: Refused
) -> None:
    """Else who edits a clean dagger has its old rows written to where they read them."""
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, NAME, asked(samples, MADE, "place"))
        old = put(seeing, 1, of=generation(seeing))
        unread = put(seeing, 2, of=generation(seeing), stage="decode", sink="")
        own = await replay(other, old, validate_only=True)
        await given(seeing, NAME, asked(samples, CLEAN, "place", stream="plain"))
        still = await replay(other, old, validate_only=True)
        await given(other, NAME, asked(samples, CLEAN, "mine", stream="plain"))
        errors = [
            await refusal(replay(other, old, validate_only=dry, force=force))
            for dry in (True, False)
            for force in (True, False)
        ]
        errors.append(await refusal(other.ask("ReplayQuarantined", dagger=NAME)))
        computed = await replay(other, unread, validate_only=True)
        granted = await replay(seeing, old, validate_only=True)

    # What never was a row is read as today's query says, which was judged.
    assert [answer.records for answer in (own, still, computed, granted)] == [1] * 4
    for error in errors:
        assert (error.code, error.reason) == (grpc.StatusCode.PERMISSION_DENIED, "SENSITIVE_RECORD")
        assert "other sinks than those that they were made for" in error.message


async def test_rows_that_were_replayed_elsewhere_are_masked_there(harness: Any, samples: Any) -> None:
    """Somebody with the grant replays old rows into a new place, which has rows of that revision then."""
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, NAME, asked(samples, MADE, "place"))
        old = put(seeing, 1, of=generation(seeing))
        await given(seeing, NAME, asked(samples, CLEAN, "elsewhere", stream="plain"))
        before = await rows(other, NAME)
        await replay(seeing, old)
        after = await rows(other, NAME)
        await given(other, "mine", asked(samples, CLEAN, "elsewhere", stream="plain"))
        beside = await rows(other, "mine")

    assert "first" not in fields(before)
    assert fields(after)["first"] == fields(beside)["first"] == MASKED


async def test_the_log_of_a_replay_is_masked_by_all_that_it_may_have_written(
    harness: Any, samples: Any
) -> None:
    async with two_streams(harness, samples) as (_, seeing, other):
        await given(seeing, NAME, asked(samples, MADE))
        old = put(seeing, 1, of=generation(seeing), sink="log")
        await given(seeing, NAME, asked(samples, CLEAN, stream="plain"))
        wanted = await replay(seeing, old)
        meta = events_pb2.FactMeta(epoch=seeing.client.gateway.fold.fleet.leader.epoch, name=NAME)
        process = events_pb2.DriverHandle(host="a", run_dir="/r", pid=1)
        started = events_pb2.ReplayStarted(meta=meta, replay_id=wanted.replay_id, process=process)
        await say(seeing.client, NAME, started)
        told = {
            (who, of_replay): list((await who.steps("ReadLog", name=NAME, replay=of_replay))[0].lines)
            for who in (seeing, other)
            for of_replay in (True, False)
        }

    clear, masked = told[seeing, True], told[other, True]
    assert told[seeing, False] == told[other, False] == clear  # the newest launch prints clean rows alone
    assert "Jakarta" in clear[0]
    assert masked[0] == f"{STAMP} INFO log: {MASKED}"
    assert "Jakarta" not in "".join(masked)
