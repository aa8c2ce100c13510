"""Facts of a cutover: what the fold takes, and what it refuses whoever writes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from eventlog.testing import record
from fleet import Dagger, Fleet
from fleet.fold.phases import BACKING_OFF, RUNNING, STARTING, STOPPED, STOPPING

EPOCH, OLD, SHADOW = 0, 2, 6
HERE = {"host": "h", "pid": 7}
THERE = {"host": "h", "pid": 8}


def meta(generation: int = 0) -> events_pb2.FactMeta:
    return events_pb2.FactMeta(epoch=EPOCH, name="d", generation=generation)


def edit(sql: str) -> events_pb2.DaggerRequested:
    return events_pb2.DaggerRequested(name="d", spec=spec_pb2.DaggerSpec(sql=sql))


EDITED = [
    events_pb2.SchedulerStarted(scheduler_id="s"),
    edit("one"),
    events_pb2.LaunchIntended(meta=meta(), version=1),
    events_pb2.Launched(meta=meta(OLD), driver=HERE),
    events_pb2.Running(meta=meta(OLD)),
    edit("two"),
]
INTENDED = events_pb2.ShadowIntended(meta=meta(), version=2)
LAUNCHED = events_pb2.ShadowLaunched(meta=meta(SHADOW), driver=THERE)
ENDED = events_pb2.ShadowEnded(meta=meta(SHADOW), code=-9)
DECIDED = events_pb2.CutoverDecided(meta=meta(SHADOW), boundary={"seconds": 120})
EXITED = events_pb2.Exited(meta=meta(OLD), code=0)
HANDED = events_pb2.CutoverHanded(meta=meta(SHADOW), written={"seconds": 120}, closed={"seconds": 60})
AGAIN = events_pb2.LaunchIntended(meta=meta(), version=2)
STOP = events_pb2.StopRequested(name="d")


def folded(*messages: Message) -> tuple[Dagger, str]:
    """The dagger behind an edit and these records, and why the last of them changed nothing."""
    fleet, said = Fleet(), ""
    for sequence, message in enumerate([*EDITED, *messages]):
        said = fleet.apply(record(message, sequence=sequence)).refused
    return fleet.daggers["d"], said


def test_a_shadow_runs_beside_the_driver_and_fences_nobody() -> None:
    dagger, _ = folded(INTENDED, LAUNCHED)

    assert (dagger.phase, dagger.generation, dagger.current) == (RUNNING, OLD, False)
    assert dagger.driver == events_pb2.DriverHandle(**HERE)
    assert dagger.shadow is not None
    assert (dagger.shadow.generation, dagger.shadow.version) == (SHADOW, 2)
    assert dagger.shadow.driver == events_pb2.DriverHandle(**THERE)


def test_at_the_boundary_the_driver_ends_and_the_shadow_goes_on() -> None:
    ending, _ = folded(INTENDED, LAUNCHED, DECIDED)
    dead, _ = folded(INTENDED, LAUNCHED, DECIDED, EXITED)
    dagger, _ = folded(INTENDED, LAUNCHED, DECIDED, EXITED, HANDED)
    runs, _ = folded(INTENDED, LAUNCHED, DECIDED, EXITED, HANDED, events_pb2.Running(meta=meta(SHADOW)))

    assert ending.shadow is not None
    assert (ending.phase, ending.shadow.boundary) == (STOPPING, datetime(1970, 1, 1, 0, 2, tzinfo=UTC))
    assert (dead.phase, dead.driver, dead.occupied) == (STOPPING, None, True)
    assert (dagger.phase, dagger.generation, dagger.observed_generation) == (STARTING, SHADOW, SHADOW)
    assert (dagger.driver, dagger.host, dagger.shadow) == (events_pb2.DriverHandle(**THERE), "h", None)
    assert (dagger.current, dagger.unanswered) == (True, False)
    assert (runs.phase, runs.ran) == (RUNNING, True)


def test_a_driver_that_died_unreachable_is_followed_by_its_shadow_as_well() -> None:
    unreachable = events_pb2.Unreachable(meta=meta(OLD))
    dead, _ = folded(INTENDED, LAUNCHED, DECIDED, unreachable, EXITED)
    dagger, _ = folded(INTENDED, LAUNCHED, DECIDED, unreachable, EXITED, HANDED)

    assert dead.phase == BACKING_OFF
    assert (dagger.phase, dagger.generation, dagger.not_before) == (STARTING, SHADOW, None)


def test_where_the_shadow_ends_the_edit_is_one_as_ever() -> None:
    dagger, _ = folded(INTENDED, LAUNCHED, DECIDED, EXITED, ENDED, AGAIN)

    assert (dagger.phase, dagger.generation, dagger.shadow) == (STARTING, len(EDITED) + 5, None)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([INTENDED, INTENDED], "version 2 had a shadow"),
        ([INTENDED, ENDED, INTENDED], "version 2 had a shadow"),
        ([INTENDED, edit("three"), events_pb2.ShadowIntended(meta=meta(), version=3)], "another shadow"),
        ([events_pb2.ShadowIntended(meta=meta(), version=1)], "it is at version 2, and runs 1"),
        ([STOP, events_pb2.ShadowIntended(meta=meta(), version=3)], "it is not asked to run"),
        ([EXITED, INTENDED], "ShadowIntended does not apply in BACKING_OFF"),
        ([INTENDED, DECIDED], "its shadow is not launched"),
        ([LAUNCHED], "it speaks of the shadow 6, which there is not"),
        ([INTENDED, LAUNCHED, edit("three"), DECIDED], "it is at version 3, not 2"),
        ([INTENDED, LAUNCHED, STOP, DECIDED], "it is not asked to run"),
        ([INTENDED, LAUNCHED, events_pb2.CutoverDecided(meta=meta(SHADOW))], "it names no instant"),
        ([INTENDED, LAUNCHED, DECIDED, HANDED], "a driver of it runs"),
        ([INTENDED, LAUNCHED, EXITED, HANDED], "no boundary is decided"),
        ([INTENDED, LAUNCHED, DECIDED, EXITED, STOP, HANDED], "it is not asked to run"),
        ([INTENDED, LAUNCHED, DECIDED, EXITED, edit("three"), HANDED], "it is at version 3, not 2"),
        ([INTENDED, LAUNCHED, DECIDED, EXITED, AGAIN], "its shadow is not proven dead"),
        (
            [INTENDED, LAUNCHED, DECIDED, EXITED, STOP, events_pb2.Stopped(meta=meta(OLD))],
            "its shadow is not",
        ),
        (
            [INTENDED, LAUNCHED, DECIDED, EXITED, events_pb2.CutoverHanded(meta=meta(SHADOW))],
            "it names no instant",
        ),
        (
            [
                *(INTENDED, LAUNCHED, DECIDED, events_pb2.Unreachable(meta=meta(OLD))),
                *(events_pb2.Recovered(meta=meta(OLD)), DECIDED),
            ],
            "a boundary is decided",
        ),
    ],
)
def test_what_would_write_a_window_twice_or_not_at_all_changes_nothing(
    messages: Sequence[Message], why: str
) -> None:
    before, _ = folded(*messages[:-1])
    after, said = folded(*messages)

    assert why in said
    assert after == before


@given(st.integers(0, 5), st.integers(0, 5))
def test_a_shadow_goes_on_only_if_each_window_that_it_let_go_of_is_written(written: int, closed: int) -> None:
    handed = events_pb2.CutoverHanded(
        meta=meta(SHADOW), written={"seconds": 60 * written}, closed={"seconds": 60 * closed}
    )
    dagger, said = folded(INTENDED, LAUNCHED, DECIDED, EXITED, handed)

    assert (dagger.generation == SHADOW) == (closed <= written) == (not said)


def test_a_dagger_is_at_rest_once_its_shadow_is_proven_dead() -> None:
    stopped = events_pb2.Stopped(meta=meta(OLD))
    exited: list[Any] = [events_pb2.StopIssued(meta=meta(OLD), mode=events_pb2.STOP_MODE_DRAIN), EXITED]
    dagger, _ = folded(INTENDED, LAUNCHED, STOP, *exited, ENDED, stopped)

    assert (dagger.phase, dagger.occupied, dagger.shadow) == (STOPPED, False, None)
