"""What is done next about a replay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, gateway_pb2

from eventlog.testing import given
from fleet import Dagger, Fleet
from fleet.fold.quotas import Full
from scheduler.leader.replay_policy import ATTEMPTS, End, ReplayObservation, Start, is_wanted, next_step

NOW = datetime(2026, 1, 1, tzinfo=UTC)
META = events_pb2.FactMeta(epoch=0, name="d")
ASKED = events_pb2.QuarantineReplayRequested(name="d", replay_id="one", records=2)
INTENDED = events_pb2.ReplayStarted(meta=META, replay_id="one", process={"host": "here"})
PROCESS = events_pb2.DriverHandle(host="here", pid=7, start_ticks=1, run_dir="runs/_replay/3")
STARTED = events_pb2.ReplayStarted(meta=META, replay_id="one", process=PROCESS)
LOST = events_pb2.DaggerError(domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason="LOST", retryable=True)
WRONG = events_pb2.DaggerError(domain=events_pb2.ERROR_DOMAIN_USER, reason="BAD_SQL")
EXITED = events_pb2.ReplayExited(meta=META, replay_id="one", code=-9, error=LOST)
FINISHED = events_pb2.ReplayFinished(meta=META, replay_id="one")
DELETED = events_pb2.DeleteRequested(name="d")
NO_ROOM = Full("MAX_MEMORY", "it needs much")
WAITS = events_pb2.ReplayWaits(replay_id="one", error=NO_ROOM.error)


def dagger(*messages: Any) -> Dagger:
    fleet = Fleet()
    leader = events_pb2.SchedulerStarted(scheduler_id="s", host="here")
    for each in given(leader, events_pb2.DaggerRequested(name="d"), *messages):
        fleet.apply(each)
    return fleet.daggers["d"]


def step(dagger: Dagger, *, host: str = "here", now: datetime = NOW, **seen: Any) -> Any:
    return next_step(dagger, ReplayObservation(**seen), host=host, now=now)


def left(code: int, error: events_pb2.DaggerError | None = None) -> events_pb2.Exited:
    return events_pb2.Exited(code=code, error=error)


def test_what_is_asked_is_started_where_there_is_room() -> None:
    assert step(dagger()) is None
    assert step(dagger(ASKED)) == Start()
    assert step(dagger(ASKED, INTENDED), full=NO_ROOM) == WAITS


def test_what_has_no_room_says_so_once_and_is_started_when_there_is() -> None:
    said = step(dagger(ASKED), full=NO_ROOM)
    said.meta.CopyFrom(META)
    waiting = dagger(ASKED, said)

    assert (said.error.reason, said.error.detail, said.error.retryable) == (
        "MAX_MEMORY",
        "it needs much",
        True,
    )
    assert step(waiting, full=NO_ROOM) is None
    assert step(waiting, full=Full("MAX_DRIVERS", "one runs")).error.reason == "MAX_DRIVERS"
    assert step(waiting) == Start()


def test_an_attempt_that_died_waits_for_room_as_the_first_did() -> None:
    gone = dagger(ASKED, INTENDED, STARTED, EXITED)
    assert gone.replay is not None
    exited = gone.replay.exit_time
    assert exited is not None

    assert step(gone, now=exited, full=NO_ROOM) is None
    assert step(gone, now=exited + timedelta(minutes=2), full=NO_ROOM) == WAITS


def test_an_intent_that_nobody_answered_is_intended_anew_unless_its_process_lives() -> None:
    unanswered = dagger(ASKED, INTENDED)
    adopted = events_pb2.ReplayStarted(replay_id="one", process=PROCESS, adopted=True)

    assert step(unanswered) == Start()
    assert step(unanswered, alive=(PROCESS,)) == adopted
    assert step(unanswered, host="there") == Start()


def test_one_that_runs_is_left_alone_and_two_never_are() -> None:
    running, other = dagger(ASKED, INTENDED, STARTED), events_pb2.DriverHandle(host="here", pid=9)

    assert step(running, alive=(PROCESS,)) is None
    assert step(running, alive=(other, PROCESS)) == End((other,))
    assert step(running, alive=(PROCESS,), strays=(other,)) == End((other,))


def test_an_attempt_that_counted_all_records_ends_the_replay() -> None:
    done = step(dagger(ASKED, INTENDED, STARTED), left=left(0), outcomes={"REPLAYED": 2})

    assert done == events_pb2.ReplayFinished(replay_id="one", outcomes={"REPLAYED": 2})


@pytest.mark.parametrize("code", [-9, 69, 75])
def test_an_attempt_that_died_is_told_of_and_started_again_after_a_while(code: int) -> None:
    running = dagger(ASKED, INTENDED, STARTED)
    error = LOST if code != 75 else events_pb2.DaggerError(reason="FENCED")
    gone = dagger(ASKED, INTENDED, STARTED, EXITED)
    assert gone.replay is not None
    exited = gone.replay.exit_time
    assert exited is not None

    assert step(running, left=left(code, error)) == events_pb2.ReplayExited(
        replay_id="one", code=code, error=error
    )
    assert step(gone, now=exited) is None
    assert step(gone, now=exited + timedelta(minutes=2)) == Start()


def test_what_can_help_nobody_is_given_up_at_once_and_the_rest_after_some_attempts() -> None:
    running = dagger(ASKED, INTENDED, STARTED)
    attempts = [each for _ in range(ATTEMPTS - 1) for each in (INTENDED, STARTED, EXITED)]
    last = dagger(ASKED, *attempts, INTENDED, STARTED)

    assert step(running, left=left(64, WRONG)) == events_pb2.ReplayFinished(replay_id="one", error=WRONG)
    assert step(last, left=left(-9, LOST)) == events_pb2.ReplayFinished(replay_id="one", error=LOST)


def test_the_replay_of_a_dagger_that_is_deleted_is_ended() -> None:
    going = dagger(ASKED, INTENDED, STARTED, DELETED)
    given_up = step(going)

    assert going.desired == gateway_pb2.DESIRED_DELETED
    assert step(going, alive=(PROCESS,)) == End((PROCESS,))
    assert (type(given_up), given_up.error.reason) == (events_pb2.ReplayFinished, "DAGGER_DELETED")


def test_nothing_is_done_once_it_has_finished_but_to_end_what_still_lives() -> None:
    over = dagger(ASKED, INTENDED, STARTED, FINISHED)

    assert step(over) is None
    assert step(over, alive=(PROCESS,)) == End((PROCESS,))


def test_an_attempt_may_live_where_the_log_has_it_and_for_the_replay_that_it_is_of() -> None:
    running = dagger(ASKED, INTENDED, STARTED)
    over = dagger(ASKED, INTENDED, STARTED, FINISHED)

    assert is_wanted(running, "one", "here")
    assert not is_wanted(running, "one", "there")
    assert not is_wanted(running, "two", "here")
    assert not is_wanted(over, "one", "here")
    assert not is_wanted(None, "one", "here")
