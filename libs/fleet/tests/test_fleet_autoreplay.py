"""A replay that nobody asks for: outstanding from an outage on, asked for once the sink takes rows again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog.testing import START, given, record
from fleet import Dagger, Fleet
from fleet.decide.autoreplay import PAUSE, find_new_outage, next_request
from fleet.decide.observation import Heartbeat

OnOutage = spec_pb2.OnOutage
META = events_pb2.RequestMeta(actor="ada")
AUTO = spec_pb2.Sink(log={}, name="db", on_outage={"then": OnOutage.THEN_SKIP, "auto_replay": True})
SKIP = spec_pb2.Sink(log={}, name="db", on_outage={"then": OnOutage.THEN_SKIP})
CLAIM = events_pb2.SchedulerStarted(scheduler_id="s", host="here")
INTENDED = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
FACT = events_pb2.FactMeta(name="d", generation=2)
LAUNCHED = events_pb2.Launched(meta=FACT, driver=events_pb2.DriverHandle(host="here", pid=7))
# All records of a test are written within a minute of START.
NOW = START + timedelta(minutes=1)


def asked(*sinks: spec_pb2.Sink) -> events_pb2.DaggerRequested:
    return events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(sinks=sinks))


def skipped(number: int = 1, sink: str = "db") -> events_pb2.SinkSkipped:
    return events_pb2.SinkSkipped(meta=FACT, outage={"sink": sink, "generation": 2, "number": number})


def requested(number: int = 1, id_: str = "auto") -> events_pb2.QuarantineReplayRequested:
    outage = events_pb2.SinkOutage(sink="db", generation=2, number=number)
    return events_pb2.QuarantineReplayRequested(name="d", replay_id=id_, outage=outage)


def finished(id_: str = "auto") -> events_pb2.ReplayFinished:
    return events_pb2.ReplayFinished(meta=events_pb2.FactMeta(name="d"), replay_id=id_)


def folded(*messages: Message, sink: spec_pb2.Sink = AUTO) -> Fleet:
    fleet = Fleet()
    for each in given(CLAIM, asked(sink), INTENDED, LAUNCHED, *messages):
        fleet.apply(each)
    return fleet


def dagger(*messages: Message, sink: spec_pb2.Sink = AUTO) -> Dagger:
    return folded(*messages, sink=sink).daggers["d"]


def said(generation: int = 2, **fields: Any) -> Heartbeat:
    return Heartbeat(dagger="d", generation=generation, **fields)


AWAY = said(outages={"db": 1})
BACK = said(outages={"db": 1}, taking=["db"])


def test_an_outage_that_a_launch_tells_of_is_a_fact_once() -> None:
    fact = events_pb2.SinkSkipped(outage={"sink": "db", "generation": 2, "number": 1})

    assert find_new_outage(dagger(), AWAY) == fact
    assert [find_new_outage(dagger(), heartbeat) for heartbeat in (None, said(), said(taking=["db"]))] == [
        None
    ] * 3
    assert [find_new_outage(dagger(skipped()), heartbeat) for heartbeat in (AWAY, BACK)] == [None] * 2
    assert find_new_outage(dagger(skipped(), requested()), BACK) is None
    assert find_new_outage(dagger(skipped(), requested()), said(outages={"db": 2})) is not None


def test_an_outage_whose_rows_nobody_wants_replayed_is_no_fact() -> None:
    assert find_new_outage(dagger(sink=SKIP), AWAY) is None


def test_a_heartbeat_of_a_time_before_tells_of_nothing_new() -> None:
    assert find_new_outage(dagger(skipped(2)), AWAY) is None
    assert next_request(dagger(skipped(2)), BACK, now=NOW) is None


def test_an_outage_is_told_again_neither_by_another_record_nor_by_an_older_one() -> None:
    fleet = folded(skipped(2), requested(2))
    before = fleet.daggers["d"]
    ignored = [
        fleet.apply(record(fact, sequence=20 + number)) for number, fact in enumerate((skipped(), skipped(2)))
    ]

    assert [each.refused for each in ignored] == ["that outage is known"] * 2
    assert fleet.daggers["d"] == before


def test_a_replay_is_asked_for_once_the_sink_has_taken_a_batch() -> None:
    request = next_request(dagger(skipped()), BACK, now=NOW)

    assert next_request(dagger(skipped()), AWAY, now=NOW) is None
    assert request is not None
    assert (request.meta.actor, request.name, request.outage) == ("platform", "d", requested().outage)
    assert (list(request.selection.reasons), list(request.selection.sinks)) == (["SINK_UNAVAILABLE"], ["db"])
    assert (request.force, request.computes, dict(request.up_to)) == (False, False, {})


def test_what_a_launch_that_is_gone_left_to_do_is_done_after_the_first_batch_of_the_next() -> None:
    assert next_request(dagger(skipped()), said(generation=9), now=NOW) is None
    assert next_request(dagger(skipped()), said(generation=9, taking=["db"]), now=NOW) is not None


def test_another_leader_asks_for_the_same_replay_of_the_same_state_under_the_same_id() -> None:
    first, second = (
        next_request(dagger(skipped()), BACK, now=NOW + timedelta(hours=hours)) for hours in (0, 1)
    )

    assert first == second


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (skipped(), requested()),
        (skipped(), requested(), finished()),
        (skipped(), asked()),
        (skipped(), asked(SKIP)),
        (skipped(), events_pb2.DeleteRequested(meta=META, name="d")),
    ],
    ids=["no outage", "asked for", "replayed", "no such sink", "not wanted any more", "deleted"],
)
def test_nothing_is_asked_for(messages: tuple[Message, ...]) -> None:
    assert next_request(dagger(*messages), BACK, now=NOW + timedelta(hours=1)) is None


def test_it_waits_for_a_replay_that_runs_and_a_minute_behind_its_request() -> None:
    by_hand = events_pb2.QuarantineReplayRequested(name="d", replay_id="by hand")
    running, ended = dagger(skipped(), by_hand), dagger(skipped(), by_hand, finished("by hand"))
    assert ended.replay is not None
    soon = ended.replay.time + PAUSE

    assert next_request(running, BACK, now=soon) is None
    assert next_request(ended, BACK, now=soon - timedelta(seconds=1)) is None
    assert next_request(ended, BACK, now=soon) is not None


def test_the_fold_takes_one_request_of_an_outage_and_it_alone_settles_what_is_outstanding() -> None:
    fleet = folded(skipped())
    first = fleet.apply(record(requested(), sequence=20, id="one"))
    fleet.apply(record(finished(), sequence=21, id="two"))
    second = fleet.apply(record(requested(id_="again"), sequence=22, id="three"))
    [outage] = fleet.daggers["d"].outages

    assert first.answer is not None
    assert first.answer.accepted
    assert not outage.outstanding
    assert second.answer is not None
    assert second.answer.refusal is not None
    assert second.answer.refusal.reason == "NOT_OUTSTANDING"


def test_a_request_for_an_outage_before_does_not_settle_the_one_behind_it() -> None:
    fleet = folded(skipped(), skipped(2))
    refused = fleet.apply(record(requested(1), sequence=20)).answer

    assert refused is not None
    assert refused.refusal is not None
    assert refused.refusal.reason == "NOT_OUTSTANDING"
    assert [(outage.number, outage.outstanding) for outage in fleet.daggers["d"].outages] == [(2, True)]
    assert fleet.daggers["d"].replay is None


def test_a_replay_that_somebody_asks_for_settles_nothing() -> None:
    by_hand = events_pb2.QuarantineReplayRequested(name="d", replay_id="by hand")

    assert [outage.outstanding for outage in dagger(skipped(), by_hand).outages] == [True]


def test_outages_of_several_sinks_are_known_by_sink() -> None:
    known = dagger(skipped(3, "b"), skipped(1, "a"), skipped(4, "b")).outages

    assert [(outage.sink, outage.number) for outage in known] == [("a", 1), ("b", 4)]
