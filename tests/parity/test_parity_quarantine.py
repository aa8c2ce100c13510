"""A replay takes what `daggers quarantine list` shows: gateway and runtime read one topic alike."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from daggers.v1 import events_pb2, telemetry_pb2
from google.protobuf.message import Message as Said
from hypothesis import given
from hypothesis import strategies as st

from api_gateway.quarantine import state
from api_gateway.quarantine.index import QuarantineIndex
from api_gateway.quarantine.reads import DaggerLife, QuarantineReads
from api_gateway.quarantine.topic import Message
from api_gateway.state.database import Database
from eventlog import Draft
from runtime.replay.history import History

CREATED, ASKED = 10, 90
"""Sequences of the dagger's creation, and of the replay's request."""
BEFORE = 2
"""Of the creation of a dagger that had its name before."""
NAME = "orders"
NOON_MS = 1_700_000_000_000
MS = 1_000_000

REASONS = st.sampled_from(["MALFORMED", "TOO_LARGE"])
STAGES = st.sampled_from([("decode", ""), ("sink", "db"), ("sink", "lake")])
# In the same few milliseconds, and finer: drivers write microseconds.
INSTANTS = st.integers(0, 7).map(lambda half: {"seconds": NOON_MS // 1_000, "nanos": half * MS // 2})
IDS = st.sampled_from(["a", "b", "c"])


@st.composite
def set_aside(draw: st.DrawFn, generation: int = CREATED + 1) -> telemetry_pb2.Quarantined:
    """What a driver writes; an older one neither an id, nor always a time."""
    stage, sink = draw(STAGES)
    record = telemetry_pb2.Quarantined(
        dagger=NAME, generation=generation, id=draw(st.one_of(IDS, st.just(""))), stage=stage, sink=sink
    )
    record.reason = draw(REASONS)
    if (time := draw(st.none() | INSTANTS)) is not None:
        record.time.nanos, record.time.seconds = time["nanos"], time["seconds"]
    return record


@st.composite
def selections(draw: st.DrawFn) -> events_pb2.QuarantineSelection:
    """Any selection, of two conditions at most: more leave nothing."""
    conditions: dict[str, st.SearchStrategy[Any]] = {
        "ids": st.lists(IDS, min_size=1, max_size=2),
        "reasons": st.lists(REASONS, min_size=1, max_size=1),
        "sinks": st.lists(st.sampled_from(["db", "lake"]), min_size=1, max_size=1),
        "stage": st.sampled_from(["decode", "sink"]),
        "since": INSTANTS,
        "until": INSTANTS,
    }
    chosen = draw(st.lists(st.sampled_from([*conditions]), max_size=2, unique=True))
    return events_pb2.QuarantineSelection(**{name: draw(conditions[name]) for name in chosen})


@st.composite
def resolved(draw: st.DrawFn, created: int = CREATED) -> telemetry_pb2.QuarantineResolved:
    """What replays before this one said."""
    outcome: Any = draw(st.sampled_from([*state.OUTCOMES]))
    return telemetry_pb2.QuarantineResolved(
        dagger=NAME, id=draw(IDS), replay_id="before", sequence=created + 5, outcome=outcome, created=created
    )


@st.composite
def discarded(draw: st.DrawFn, end: int, created: int = CREATED) -> telemetry_pb2.QuarantineDiscarded:
    """What somebody discarded when the topic ended there, or a little before."""
    return telemetry_pb2.QuarantineDiscarded(
        dagger=NAME,
        sequence=created + 6,
        selection=draw(selections()),
        up_to={0: max(end - draw(st.integers(0, 2)), 0)},
        created=created,
    )


@st.composite
def topics(draw: st.DrawFn) -> list[Said]:
    """What stands in a partition: what a dagger of the same name left comes first."""
    said: list[Said] = []
    for created, least, most in ((BEFORE, 0, 4), (CREATED, 1, 8)):
        for _ in range(draw(st.integers(least, most))):
            new = set_aside(created + 1)
            said.append(draw(st.one_of(new, new, resolved(created), discarded(len(said), created))))
    return said


def events(said: list[Said]) -> list[Message]:
    """Them as they are read; Kafka's time, of records that have none, goes on by a millisecond each."""
    messages = []
    for offset, each in enumerate(said):
        # Two events of one id are one record that was set aside twice.
        draft = Draft(f"q-{offset % 5}", "/test", NAME, datetime(2026, 1, 1, tzinfo=UTC), each)
        value = each.SerializeToString()
        messages.append(Message(0, offset, NOON_MS + offset % 4, NAME.encode(), draft.headers(), value))
    return messages


def listed(messages: list[Message], selection: events_pb2.QuarantineSelection) -> tuple[list[str], int, int]:
    """Ids as a gateway lists them, what is named in any state; how many a replay means, as it says; and from
    where that reads.
    """
    states = () if selection.ids else state.NEEDED
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'index.db'}")
        try:
            index, born = QuarantineIndex(database), DaggerLife(NAME, CREATED)
            index.prepare()
            index.write(messages)
            reads = QuarantineReads(database)
            page, _ = reads.page(
                born, before=None, limit=100, size=1 << 20, states=states, selection=selection
            )
            kinds = reads.replay_groups(born, selection)
            start = reads.starts(born, min((kind.first for kind in kinds), default=0)).get(0, 0)
        finally:
            database.close()
    return sorted(each.record.id for each in page), sum(kind.records for kind in kinds), start


def replayed(
    messages: list[Message], up_to: int, start: int, selection: events_pb2.QuarantineSelection
) -> list[str]:
    """Ids as a replay takes them that was asked for when the topic had `up_to` records."""
    asked = events_pb2.QuarantineReplayRequested(replay_id="own", selection=selection, up_to={0: up_to})
    history = History(asked, ASKED, CREATED)
    for message in messages[start:]:
        headers = dict(message.headers)
        kind, id_ = headers["ce_type"].decode(), headers["ce_id"].decode()
        history.apply((message.partition, message.offset), kind, message.value, id_, message.time_ms)
    return sorted(record.id for record in history.selected)


@given(topics(), st.lists(set_aside(), max_size=3), selections())
def test_a_replay_takes_what_is_listed_whatever_is_set_aside_after_it_was_asked_for(
    said: list[Said], later: list[Said], selection: events_pb2.QuarantineSelection
) -> None:
    messages = events([*said, *later])
    shown, counted, start = listed(messages[: len(said)], selection)

    assert replayed(messages, len(said), start, selection) == shown
    assert counted == len(shown)
