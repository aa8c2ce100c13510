"""The judge of health: two observers, one rule, and a meaning for each reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, spec_pb2

from fleet.fold.dagger import Dagger, decide
from fleet.health.degradation import (
    SHOWN,
    Evidence,
    Heartbeat,
    Limits,
    progress_age,
    silent,
    stalled,
    too_many,
)

SECOND = timedelta(seconds=1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_dagger(**trigger: int) -> Dagger:
    request = events_pb2.DaggerRequested(
        name="d", spec=spec_pb2.DaggerSpec(**{k: {"seconds": v} for k, v in trigger.items()})
    )
    dagger = decide(None, request, sequence=1, time=NOON)
    assert isinstance(dagger, Dagger)
    return dagger


@pytest.mark.parametrize(
    ("limits", "trigger", "seconds"),
    [
        (SHOWN, {}, 3 + 8),
        (SHOWN, {"trigger": 60}, 180 + 8),
        (Limits(), {}, 120),
        (Limits(), {"trigger": 60}, 180),
    ],
)
def test_progress_is_too_old_after_three_triggers_and_what_the_observer_bears(
    limits: Limits, trigger: Any, seconds: int
) -> None:
    dagger = a_dagger(**trigger)

    assert not stalled(dagger, (seconds - 1) * SECOND, limits)
    assert stalled(dagger, seconds * SECOND, limits)


@pytest.mark.parametrize(("quiet", "is_silent"), [(None, False), (29 * SECOND, False), (30 * SECOND, True)])
def test_silence_counts_only_while_something_could_be_heard(quiet: timedelta | None, is_silent: bool) -> None:
    assert silent(Evidence(heartbeat=None, age=SECOND, quiet=quiet), Limits()) == is_silent


def test_progress_told_by_a_clock_that_was_set_back_is_not_from_the_future() -> None:
    heartbeat = Heartbeat(time={"seconds": 100}, last_progress={"seconds": 3_700})

    assert progress_age(heartbeat) == timedelta(0)


@pytest.mark.parametrize(
    ("kept_back", "went_on", "is_too_many"),
    [(0, 0, False), (19, 0, False), (20, 0, True), (20, 1_980, False), (21, 1_979, True)],
)
def test_too_many_is_a_number_and_a_share(kept_back: int, went_on: int, is_too_many: bool) -> None:
    assert too_many(kept_back, went_on, Limits()) == is_too_many
