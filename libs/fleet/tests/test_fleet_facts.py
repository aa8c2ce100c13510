"""The table of facts: it is whole, and each row has words."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import events_pb2
from google.protobuf.message import Message

from fleet.fold.facts import FACTS, About, describe_fact

META = events_pb2.FactMeta(epoch=3, name="x", generation=40)


def test_every_message_that_has_a_fact_meta_is_a_row() -> None:
    declared = {
        name
        for name, message in events_pb2.DESCRIPTOR.message_types_by_name.items()
        if "meta" in message.fields_by_name
        and message.fields_by_name["meta"].message_type == events_pb2.FactMeta.DESCRIPTOR
    }

    assert declared == {kind.DESCRIPTOR.name for kind in FACTS}


@pytest.mark.parametrize("kind", FACTS)
def test_a_fact_says_the_phase_that_follows_unless_several_may(kind: Any) -> None:
    row = FACTS[kind]

    assert (len(set(row.phases.values())) == 1) == (row.summary is None)
    assert (row.about is About.ORPHAN) == (not row.phases)


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (events_pb2.LaunchIntended(version=2), "STARTING, generation 41: version 2 is being launched"),
        (
            events_pb2.Launched(meta=META, driver={"host": "h", "pid": 7, "ui_url": "http://u"}),
            "driver launched, generation 40: on h, pid 7, UI http://u",
        ),
        (events_pb2.Launched(meta=META, adopted=True), "driver adopted, generation 40: on ?, pid ?"),
        (events_pb2.Exited(meta=META), "driver exited, generation 40"),
        (events_pb2.Exited(meta=META, code=0), "driver exited with code 0, generation 40"),
        (
            events_pb2.Failed(meta=META, error={"reason": "LOST", "detail": "why"}),
            "FAILED, generation 40: INTERNAL LOST: why",
        ),
        (
            events_pb2.RelaunchScheduled(meta=META, attempt=2, not_before={"seconds": 1}),
            "BACKING_OFF, generation 40: attempt 2 not before 1970-01-01T00:00:01Z",
        ),
        (
            events_pb2.RelaunchScheduled(meta=META, not_before={"seconds": 1}),
            "BACKING_OFF, generation 40: no attempt, not before 1970-01-01T00:00:01Z",
        ),
        (
            events_pb2.ReferencesLoaded(meta=META, versions={"b": "2", "a": "1"}),
            "reference tables loaded, generation 40: a 1, b 2",
        ),
        (
            events_pb2.ShadowIntended(version=2),
            "shadow intended, generation 41: version 2 is being launched beside its driver",
        ),
        (
            events_pb2.ShadowLaunched(meta=META, driver={"host": "h", "pid": 7}),
            "shadow launched, generation 40: on h, pid 7",
        ),
        (events_pb2.ShadowEnded(meta=META, code=-9), "shadow exited with code -9, generation 40"),
        (
            events_pb2.CutoverDecided(meta=META, boundary={"seconds": 60}),
            "STOPPING, generation 40: its driver writes windows that end up to 1970-01-01T00:01:00Z,"
            " its shadow those behind",
        ),
        (
            events_pb2.CutoverHanded(meta=META, written={"seconds": 60}),
            "STARTING, generation 40: it writes windows that end behind 1970-01-01T00:01:00Z",
        ),
        (
            events_pb2.SinkSkipped(meta=META, outage={"sink": "db"}),
            "rows of sink db are quarantined, generation 40: it does not answer; they are replayed when it"
            " takes rows again",
        ),
        (events_pb2.Stopped(), "STOPPED"),
    ],
)
def test_a_fact_in_words_is_what_happened_its_launch_and_the_rest(fact: Message, said: str) -> None:
    assert describe_fact(fact, 41) == said


def test_a_replay_says_how_it_goes_on_and_what_became_of_its_records() -> None:
    meta = events_pb2.FactMeta(epoch=3, name="x")
    lost = events_pb2.DaggerError(domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason="LOST")
    full = events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason="MAX_MEMORY", detail="it needs"
    )
    said = [
        describe_fact(events_pb2.ReplayWaits(meta=meta, replay_id="r", error=full), 41),
        describe_fact(
            events_pb2.ReplayStarted(meta=meta, replay_id="r", process={"host": "h", "pid": 7}), 41
        ),
        describe_fact(events_pb2.ReplayStarted(meta=meta, replay_id="r", adopted=True), 41),
        describe_fact(events_pb2.ReplayExited(meta=meta, replay_id="r", code=-9), 41),
        describe_fact(
            events_pb2.ReplayFinished(meta=meta, replay_id="r", outcomes={"REPLAYED": 2, "LATE": 1}), 41
        ),
        describe_fact(
            events_pb2.ReplayFinished(meta=meta, replay_id="r", outcomes={"LATE": 1}, error=lost), 41
        ),
    ]

    assert said == [
        "replay r waits: EXTERNAL MAX_MEMORY: it needs",
        "replay r launched: on h, pid 7",
        "replay r adopted: on ?, pid ?",
        "replay r ended unfinished with code -9",
        "replay r finished: 1 LATE, 2 REPLAYED",
        "replay r given up: 1 LATE; EXTERNAL LOST",
    ]
