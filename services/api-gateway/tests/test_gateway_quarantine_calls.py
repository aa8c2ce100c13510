"""Calls about what was set aside: chosen, summed up, shown, replayed, discarded."""

from __future__ import annotations

import time
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from tests.contracts.quarantine import set_aside

from daggerspec.setaside import digest
from eventlog import Draft
from eventlog.testing import START

pb = gateway_pb2
NAME = "completed_bookings"
REPLAYED = telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED
FAILED_AGAIN = telemetry_pb2.QUARANTINE_OUTCOME_FAILED_AGAIN


def now_ms() -> int:
    return round(time.time() * 1_000)


def put(client: Any, number: int, **more: Any) -> str:
    """A record that the dagger has set aside now; its id."""
    id_ = f"{number:032x}"
    fields = {"id": id_, "stage": "sink", "sink": "crm", "reason": "CONSTRAINT", **more}
    client.quarantined.place(0, *set_aside(NAME, number, **fields), time_ms=now_ms())
    return id_


def resolve(client: Any, id_: str, outcome: Any, *, replay: str, sequence: int, **more: Any) -> None:
    """What a replay writes."""
    said = telemetry_pb2.QuarantineResolved(
        dagger=NAME, id=id_, outcome=outcome, replay_id=replay, sequence=sequence, **more
    )
    draft = Draft(f"{replay}/{id_}", "/replay", NAME, START, said)
    value = said.SerializeToString()
    client.quarantined.place(0, NAME.encode(), draft.headers(), value, time_ms=now_ms())


async def ask(client: Any, method: str, **fields: Any) -> Any:
    request = getattr(pb, f"{method}Request")(dagger=NAME, **fields)
    return await getattr(client.quarantine, method)(request, timeout=20)


async def appended(client: Any, sequence: int) -> Any:
    """The event at a sequence of the control log."""
    async for record in client.log.replay(sequence - 1):
        return record.message
    raise AssertionError(sequence)


async def happened(client: Any, fact: Any) -> int:
    """Have a scheduler say so, and the gateway know it; the sequence."""
    await client.log.append(Draft(type(fact).__name__, "/scheduler/s", NAME, START, fact))
    sequence: int = await client.log.end()
    await client.gateway.follower.wait_for(sequence)
    return sequence


async def ids(client: Any, **fields: Any) -> list[str]:
    return [record.id for record in (await ask(client, "ListQuarantined", **fields)).records]


async def test_records_are_chosen_by_what_they_are(ready: Any) -> None:
    await ready.create()
    first = put(ready, 1, time={"seconds": 100})
    second = put(ready, 2, reason="TOO_LARGE", time={"seconds": 200})
    third = put(ready, 3, stage="decode", sink="", reason="MALFORMED", time={"seconds": 300})

    chosen = [
        await ids(ready, selection=selection)
        for selection in (
            {},
            {"reasons": ["TOO_LARGE", "MALFORMED"]},
            {"sinks": ["crm"]},
            {"stage": "decode"},
            {"since": {"seconds": 200}},
            {"until": {"seconds": 200}},
            {"ids": [first, third]},
            {"ids": [first], "reasons": ["TOO_LARGE"]},
        )
    ]

    assert chosen == [
        [third, second, first], [third, second], [second, first], [third], [third, second], [first],
        [third, first], [],
    ]  # fmt: skip


async def test_a_replay_begins_to_read_where_all_is_known_of_what_is_meant(ready: Any) -> None:
    await ready.create()
    ready.quarantined.place(0, *set_aside("another", 9), time_ms=now_ms())
    for number in (1, 2, 3):
        put(ready, number)
    resolve(ready, f"{1:032x}", REPLAYED, replay="r", sequence=99)
    put(ready, 2)
    asked = await ask(ready, "ReplayQuarantined", selection={"ids": [f"{3:032x}"]})
    event = await appended(ready, asked.sequence)

    # The second stands behind the third, and was there before it: it may have been closed in between.
    assert (dict(event.starts), dict(event.up_to)) == ({0: 2}, {0: 6})


async def test_a_topic_that_has_got_more_partitions_is_read_from_its_beginning(ready: Any) -> None:
    await ready.create()
    put(ready, 1)
    put(ready, 2)
    ready.quarantined.place(1, *set_aside(NAME, 2, id=f"{2:032x}", stage="sink"), time_ms=now_ms())
    asked = await ask(ready, "ReplayQuarantined", selection={"ids": [f"{2:032x}"]})
    event = await appended(ready, asked.sequence)

    assert (dict(event.starts), dict(event.up_to)) == ({0: 0, 1: 0}, {0: 2, 1: 1})


async def test_what_was_closed_for_an_earlier_dagger_of_the_name_is_discarded_for_this_one(
    ready: Any,
) -> None:
    created = (await ready.create()).sequence
    put(ready, 1)
    resolve(ready, f"{1:032x}", REPLAYED, replay="r", sequence=created - 1)
    put(ready, 1)
    said = {"sequence": created + 1, "up_to": {0: 3}, "created": created}
    discarded = telemetry_pb2.QuarantineDiscarded(dagger=NAME, **said)
    draft = Draft("discard/d", "/api-gateway", NAME, START, discarded)
    value = discarded.SerializeToString()
    ready.quarantined.place(0, NAME.encode(), draft.headers(), value, time_ms=now_ms())

    (status,) = (await ask(ready, "ListQuarantined", all_states=True)).statuses

    assert status.state == pb.QUARANTINE_STATE_DISCARDED


def said_of(client: Any, partition: int = 0) -> list[telemetry_pb2.QuarantineEdited]:
    """The edits that stand in the topic."""
    kind = telemetry_pb2.QuarantineEdited
    return [
        kind.FromString(each.value)
        for each in client.quarantined.partitions[partition]
        if dict(each.headers)["ce_type"].endswith(b".QuarantineEdited")
    ]


async def test_an_edit_stands_in_the_topic_and_the_log_has_its_digest(ready: Any) -> None:
    await ready.create()
    row = put(ready, 1, decoded_prefix='{"city": -1, "fare": 5}')
    record = put(ready, 2, stage="decode", sink="", message="shop.Booking", value=b"\xff")
    other = put(ready, 3, stage="decode", sink="", message="shop.Booking", value=b"\xff")
    fields = {
        "selection": {"ids": [row, record, other]},
        "edits": [
            {"id": row, "decoded": '{"city": 4}'},
            {"id": record, "decoded": '{"eventTime": "1970-01-01T00:01:40Z"}'},
            {"id": other, "value": bytes.fromhex("0a0208c801")},
        ],
    }
    await ask(ready, "ReplayQuarantined", validate_only=True, **fields)
    only_said = said_of(ready)
    asked = await ask(ready, "ReplayQuarantined", request_id="edit-1", **fields)
    again = await ask(ready, "ReplayQuarantined", request_id="edit-1", **fields)
    event = await appended(ready, asked.sequence)
    edits = said_of(ready)

    assert only_said == []
    assert [(edit.id, edit.columns, edit.value.hex()) for edit in edits] == [
        (row, '{"city": 4}', ""), (record, "", "0a020864"), (other, "", "0a0208c801")
    ]  # fmt: skip
    assert {edit.replay_id for edit in edits} == {"edit-1"}
    assert dict(event.edits) == {edit.id: digest(edit) for edit in edits}
    assert b"city" not in event.SerializeToString()
    assert again.sequence == asked.sequence


async def test_what_is_wrong_with_edits_is_said_at_once(ready: Any, refusal: Any) -> None:
    await ready.create()
    row = put(ready, 1, decoded_prefix='{"city": -1}')
    record = put(ready, 2, stage="decode", sink="", message="shop.Booking", value=b"\xff")
    gone = "f" * 32
    unseen = await refusal(
        ask(
            ready, "ReplayQuarantined", selection={"ids": [row]},
            edits=[{"id": record, "decoded": "{}"}, {"id": row}, {"id": row, "decoded": "{}"}],
        )
    )  # fmt: skip
    held = await refusal(
        ask(
            ready, "ReplayQuarantined", selection={"ids": [row, record, gone]},
            edits=[
                {"id": row, "decoded": '{"town": 1}'},
                {"id": record, "decoded": '{"eventTime": "secret"}'},
                {"id": gone, "value": b"x"},
            ],
        )
    )  # fmt: skip

    assert [(violation.field, violation.reason) for violation in unseen.violations] == [
        ("edits[0].id", "NOT_SELECTED"), ("edits[1]", "REQUIRED"), ("edits[2].id", "NOT_UNIQUE")
    ]  # fmt: skip
    assert [(violation.field, violation.reason) for violation in held.violations] == [
        ("edits[0].decoded", "UNKNOWN_COLUMN"), ("edits[1].decoded", "MALFORMED"),
        ("edits[2].id", "NOT_FOUND"),
    ]  # fmt: skip
    assert not any("secret" in violation.message for violation in held.violations)
    assert said_of(ready) == []


async def test_refusals_are_allowed_for_a_while_and_a_repeat_changes_nothing(
    ready: Any, refusal: Any
) -> None:
    await ready.create()
    began = time.time()
    answer = await ask(
        ready, "AllowRefusals", period={"seconds": 3600}, reason="a backfill", request_id="a-1"
    )
    again = await ask(ready, "AllowRefusals", period={"seconds": 7200}, request_id="a-1")
    event = await appended(ready, answer.sequence)
    ended = await ask(ready, "AllowRefusals", period={})
    wrong = [
        await refusal(ask(ready, "AllowRefusals", request_id=" ")),
        await refusal(ask(ready, "AllowRefusals", period={"seconds": 24 * 3600 + 1})),
        await refusal(ask(ready, "AllowRefusals", period={"seconds": -1})),
    ]
    nobodys = pb.AllowRefusalsRequest(dagger="nobodys", period={"seconds": 1})
    none = await refusal(ready.quarantine.AllowRefusals(nobodys, timeout=20))

    assert answer == again
    assert 3600 <= answer.until.seconds + 1 - began < 3600 + 60
    assert event == events_pb2.AllowRefusalsRequested(
        meta={"actor": "anonymous", "message": "a backfill"}, name=NAME, until=answer.until
    )
    assert ended.until.seconds < answer.until.seconds
    assert [[violation.field for violation in one.violations] for one in wrong] == [
        ["period", "request_id"], ["period"], ["period"]
    ]  # fmt: skip
    assert none.code == grpc.StatusCode.NOT_FOUND


async def test_a_list_without_contents_has_the_rest(ready: Any) -> None:
    await ready.create()
    put(ready, 1, value=b"secret", detail="why")

    (record,) = (await ask(ready, "ListQuarantined", brief=True)).records

    assert (record.value, record.detail) == (b"", "why")


async def test_what_is_wrong_with_a_selection_is_said_at_once(ready: Any, refusal: Any) -> None:
    await ready.create()
    wrong = {"ids": [""], "stage": "elsewhere", "since": {"seconds": 5}, "until": {"seconds": 4}}

    listing = await refusal(ask(ready, "ListQuarantined", selection=wrong, states=[0, 77]))
    discarding = await refusal(ask(ready, "DiscardQuarantined", selection=wrong))

    selected = ["selection.ids[0]", "selection.stage", "selection.until"]
    assert [violation.field for violation in listing.violations] == [*selected, "states[0]", "states[1]"]
    assert [violation.field for violation in discarding.violations] == [*selected, "reason"]


async def test_what_is_open_is_summed_up(ready: Any) -> None:
    await ready.create()
    put(ready, 1, time={"seconds": 100})
    put(ready, 2, time={"seconds": 50})
    done = put(ready, 3, reason="TOO_LARGE")
    resolve(ready, done, REPLAYED, replay="r", sequence=99)
    stale = set_aside(NAME, 4, stage="decode", reason="MALFORMED")
    ready.quarantined.place(1, *stale, time_ms=now_ms() - 13 * 24 * 3_600_000)

    groups = (await ask(ready, "SummarizeQuarantine")).groups
    of_all = (await ready.quarantine.SummarizeQuarantine(pb.SummarizeQuarantineRequest(), timeout=20)).groups

    told = [(g.stage, g.reason, g.sink, g.records, g.expiring) for g in groups]
    assert told == [("decode", "MALFORMED", "", 1, 1), ("sink", "CONSTRAINT", "crm", 2, 0)]
    assert groups[1].oldest.seconds == 50
    assert list(of_all) == list(groups)


async def test_a_record_is_shown_by_the_schema_of_today(ready: Any, refusal: Any) -> None:
    await ready.create()
    put(ready, 1, stage="decode", sink="", message="shop.Booking", value=bytes.fromhex("0a020864"))
    put(ready, 2, stage="decode", sink="", message="shop.Booking", value=b"\xff")
    put(ready, 3, stage="decode", sink="", message="shop.Unknown")
    put(ready, 5, id="0000abc" + "0" * 25, decoded_prefix='{"fare": 5}')

    shown = [await ask(ready, "GetQuarantined", id=f"{number:032x}") for number in (1, 2, 3)]
    row = await ask(ready, "GetQuarantined", id="0000abc")
    several = await refusal(ask(ready, "GetQuarantined", id="0000"))
    none = await refusal(ask(ready, "GetQuarantined", id="ffff"))

    assert [each.decoded for each in shown] == ['{"eventTime": "1970-01-01T00:01:40Z"}', "", ""]
    assert [each.undecodable for each in shown][1:] == [
        "it is no shop.Booking, as that is registered now",
        "message shop.Unknown is not registered",
    ]
    assert row.decoded == '{"fare": 5}'
    assert row.status.state == pb.QUARANTINE_STATE_OPEN
    assert (several.reason, none.code) == ("ID_NOT_UNIQUE", grpc.StatusCode.NOT_FOUND)


async def test_a_replay_is_asked_for_with_what_was_read_and_told_of(ready: Any) -> None:
    await ready.create()
    first, second = put(ready, 1), put(ready, 2)
    only_said = await ask(ready, "ReplayQuarantined", validate_only=True)
    asked = await ask(ready, "ReplayQuarantined", request_id="again-1", selection={"sinks": ["crm"]})
    event = await appended(ready, asked.sequence)
    begun = await ask(ready, "GetReplay")
    resolve(ready, first, REPLAYED, replay="again-1", sequence=asked.sequence)
    resolve(
        ready, second, FAILED_AGAIN, replay="again-1", sequence=asked.sequence, reason="CONSTRAINT", attempt=1
    )
    told = await ask(ready, "GetReplay", replay_id="again-1")
    listed = await ask(ready, "ListQuarantined", all_states=True)

    assert (only_said.records, only_said.sequence, only_said.forecast[0].records) == (2, 0, 2)
    assert event == events_pb2.QuarantineReplayRequested(
        meta={"actor": "anonymous"},
        name=NAME,
        replay_id="again-1",
        selection={"sinks": ["crm"]},
        up_to={0: 2},
        starts={0: 0},
        records=2,
    )
    assert (begun.replay_id, begun.records, dict(begun.outcomes), begun.finished) == ("again-1", 2, {}, False)
    assert (dict(told.outcomes), told.finished) == ({"REPLAYED": 1, "FAILED_AGAIN": 1}, False)
    assert [(status.state, status.attempts) for status in listed.statuses] == [
        (pb.QUARANTINE_STATE_FAILED_AGAIN, 1),
        (pb.QUARANTINE_STATE_REPLAYED, 0),
    ]
    assert await ids(ready) == [second]


async def test_a_replay_that_has_not_begun_says_what_it_waits_for_until_it_has(ready: Any) -> None:
    await ready.create()
    put(ready, 1, stage="decode", sink="")
    await ask(ready, "ReplayQuarantined", request_id="again-1")
    epoch = await happened(ready, events_pb2.SchedulerStarted(scheduler_id="s", host="h"))
    meta = events_pb2.FactMeta(epoch=epoch, name=NAME)
    needs = {"reason": "MAX_MEMORY", "detail": "it needs 2,304 MiB"}
    await happened(ready, events_pb2.ReplayWaits(meta=meta, replay_id="again-1", error=needs))
    waiting = await ask(ready, "GetReplay")
    await happened(ready, events_pb2.ReplayStarted(meta=meta, replay_id="again-1", process={"pid": 7}))
    begun = await ask(ready, "GetReplay")

    assert (waiting.finished, waiting.last_error) == (False, events_pb2.DaggerError(**needs))
    assert (begun.finished, begun.HasField("last_error")) == (False, False)


async def test_the_same_request_for_a_replay_is_applied_once_and_another_waits(
    ready: Any, refusal: Any
) -> None:
    await ready.create()
    put(ready, 1)
    first = await ask(ready, "ReplayQuarantined", request_id="one")
    put(ready, 2)
    again = await ask(ready, "ReplayQuarantined", request_id="one")
    other = await refusal(ask(ready, "ReplayQuarantined", request_id="two"))

    assert (again.sequence, again.records) == (first.sequence, 1)
    assert other.reason == "REPLAY_RUNNING"


async def test_nothing_is_asked_for_where_no_record_is_meant(ready: Any) -> None:
    await ready.create()
    put(ready, 1)

    replay = await ask(ready, "ReplayQuarantined", selection={"reasons": ["NONE_SUCH"]})
    discard = await ask(ready, "DiscardQuarantined", selection={"reasons": ["NONE_SUCH"]}, reason="test")

    assert (replay.records, replay.sequence, discard.records, discard.sequence) == (0, 0, 0, 0)


async def test_what_may_not_be_replayed_is_forecast(ready: Any) -> None:
    await ready.create()
    put(ready, 1, sink="influx", truncated=True)
    worn = put(ready, 2, sink="influx")
    put(ready, 3, sink="influx")
    put(ready, 4, sink="crm")
    put(ready, 5, sink="", stage="decode")
    resolve(ready, worn, FAILED_AGAIN, replay="r", sequence=99, attempt=5)

    plain = (await ask(ready, "ReplayQuarantined", validate_only=True)).forecast
    forced = (await ask(ready, "ReplayQuarantined", validate_only=True, force=True)).forecast

    unseen, others = ("UNSEEN", 1), [("SINK_GONE", 1), ("TRUNCATED", 1)]
    assert [(each.reason, each.records) for each in plain] == [("", 1), unseen, ("NEEDS_FORCE", 1), *others]
    assert [(each.reason, each.records) for each in forced] == [("", 2), unseen, *others]


async def test_discarded_records_are_hidden_and_what_comes_later_is_not(ready: Any) -> None:
    await ready.create()
    gone, kept = put(ready, 1), put(ready, 2, reason="TOO_LARGE")
    fields = {"selection": {"reasons": ["CONSTRAINT"]}, "reason": "test traffic", "request_id": "d-1"}
    dry = await ask(ready, "DiscardQuarantined", validate_only=True, **fields)
    before = await ids(ready)
    done = await ask(ready, "DiscardQuarantined", **fields)
    later = put(ready, 3)
    again = await ask(ready, "DiscardQuarantined", **fields)
    discarded = await ask(ready, "ListQuarantined", states=[pb.QUARANTINE_STATE_DISCARDED])

    assert (dry.records, dry.sequence, before) == (1, 0, [kept, gone])
    assert (done.records, again) == (1, done)
    assert await ids(ready) == [later, kept]
    assert [record.id for record in discarded.records] == [gone]
    assert discarded.statuses[0].detail == "test traffic"


async def test_a_dagger_that_was_made_anew_begins_anew(ready: Any) -> None:
    created = await ready.create()
    id_ = put(ready, 1, generation=created.sequence + 1)
    resolve(ready, id_, REPLAYED, replay="r", sequence=created.sequence)

    listed = await ask(ready, "ListQuarantined")

    assert [status.state for status in listed.statuses] == [pb.QUARANTINE_STATE_OPEN]


@pytest.mark.parametrize("method", ["GetReplay", "SummarizeQuarantine", "ReplayQuarantined"])
async def test_a_dagger_that_is_not_there_is_not_found(ready: Any, refusal: Any, method: str) -> None:
    error = await refusal(ask(ready, method))

    assert error.code == grpc.StatusCode.NOT_FOUND
