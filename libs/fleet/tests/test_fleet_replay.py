"""A dagger has one replay at a time, from its request to its end."""

from __future__ import annotations

from datetime import UTC, datetime

from daggers.v1 import events_pb2
from google.protobuf.message import Message

from eventlog.testing import given, record
from fleet import Fleet
from fleet.fold.replay import Replay

META = events_pb2.FactMeta(epoch=0, name="d")
CREATED = events_pb2.DaggerRequested(name="d")
ALLOWED = events_pb2.AllowRefusalsRequested(name="d", until={"seconds": 2_000_000_000})
REQUESTED = events_pb2.QuarantineReplayRequested(name="d", replay_id="one", up_to={0: 7}, records=2)
STARTED = events_pb2.ReplayStarted(meta=META, replay_id="one", process={"host": "h", "pid": 7})
EXITED = events_pb2.ReplayExited(meta=META, replay_id="one", code=1, error={"reason": "LOST"})
WAITS = events_pb2.ReplayWaits(meta=META, replay_id="one", error={"reason": "MAX_MEMORY"})
FINISHED = events_pb2.ReplayFinished(meta=META, replay_id="one", outcomes={"REPLAYED": 2})
LEADER = events_pb2.SchedulerStarted(scheduler_id="s", host="h")


def folded(*messages: Message) -> Fleet:
    fleet = Fleet()
    for each in given(LEADER, CREATED, *messages):
        fleet.apply(each)
    return fleet


def replay(*messages: Message) -> Replay:
    found = folded(*messages).daggers["d"].replay
    assert found is not None
    return found


def test_a_replay_is_requested_started_gone_and_finished() -> None:
    requested, started = replay(REQUESTED), replay(REQUESTED, STARTED)
    gone, finished = replay(REQUESTED, STARTED, EXITED), replay(REQUESTED, STARTED, FINISHED)

    assert (requested.id, requested.sequence, requested.request) == ("one", 2, REQUESTED)
    assert (requested.process, requested.finished, started.process) == (None, None, STARTED.process)
    assert (gone.process, gone.exits, gone.last_error) == (None, 1, EXITED.error)
    assert (finished.process, finished.finished) == (None, FINISHED)


def test_what_a_replay_waits_for_counts_as_no_attempt_and_is_over_once_it_is_launched() -> None:
    waiting, again = replay(REQUESTED, WAITS), replay(REQUESTED, STARTED, EXITED, WAITS)
    launched = replay(REQUESTED, WAITS, STARTED)
    finished = replay(REQUESTED, WAITS, FINISHED)

    assert (waiting.waits, waiting.exits, waiting.last_error) == (WAITS.error, 0, None)
    assert (again.waits, again.exits, again.last_error) == (WAITS.error, 1, EXITED.error)
    assert (launched.waits, launched.process, finished.waits) == (None, STARTED.process, None)


def test_another_is_refused_until_it_has_finished() -> None:
    other = events_pb2.QuarantineReplayRequested(name="d", replay_id="two")
    running, finished = folded(REQUESTED), folded(REQUESTED, FINISHED)

    refused = running.apply(record(other, sequence=9)).answer
    accepted = finished.apply(record(other, sequence=9)).answer

    assert refused is not None
    assert refused.refusal is not None
    assert refused.refusal.reason == "REPLAY_RUNNING"
    assert accepted is not None
    assert accepted.accepted
    assert running.daggers["d"].replay == replay(REQUESTED)


def test_facts_of_another_replay_or_after_its_end_change_nothing() -> None:
    other = events_pb2.ReplayFinished(meta=META, replay_id="two")

    assert replay(REQUESTED, other).finished is None
    assert replay(REQUESTED, FINISHED, STARTED, EXITED, WAITS) == replay(REQUESTED, FINISHED)


def test_a_replay_or_a_discard_asks_for_no_launch() -> None:
    dagger = folded(REQUESTED, events_pb2.QuarantineDiscardRequested(name="d")).daggers["d"]

    assert (dagger.version, dagger.generation, dagger.phase) == (3, 0, folded().daggers["d"].phase)


def test_refusals_are_allowed_until_the_newest_word_says() -> None:
    ends = events_pb2.AllowRefusalsRequested(name="d", until={"seconds": 1_900_000_000})
    nonsense = events_pb2.AllowRefusalsRequested(name="d", until={"seconds": 2**60})

    told = [folded(*said).daggers["d"].refusals_until for said in ((), (ALLOWED,), (ALLOWED, ends, nonsense))]

    assert told == [
        None, datetime.fromtimestamp(2_000_000_000, UTC), datetime.fromtimestamp(1_900_000_000, UTC)
    ]  # fmt: skip
