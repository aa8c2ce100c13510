"""Restart loop, input that stopped, lag that grows, on a simulated clock; and what must wake nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2, spec_pb2, telemetry_pb2
from google.protobuf.message import Message

from daggerspec.exits import ENDED_WITH_DEPLOYMENT, NO_EXECUTORS
from eventlog.testing import given as control_records
from fleet import Dagger, Fleet
from fleet.conditions import history
from fleet.conditions.dagger_conditions import diagnose
from fleet.conditions.finding import Finding, Measure
from fleet.conditions.history import History
from fleet.fold.phases import BACKING_OFF, FAILED, RUNNING, STOPPED, Phase
from fleet.health import advice, watch
from fleet.health.degradation import Limits
from fleet.health.watch import Watch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
BEAT = 5 * SECOND
LIMITS = Limits()
LOOP = alerts_pb2.ALERT_CONDITION_RESTART_LOOP
INPUT = alerts_pb2.ALERT_CONDITION_NO_INPUT
LAG = alerts_pb2.ALERT_CONDITION_LAG_GROWING
STALL = alerts_pb2.ALERT_CONDITION_NO_PROGRESS


def a_dagger(phase: Phase = RUNNING, *, asked: datetime = NOON - 60 * MINUTE, generation: int = 3) -> Dagger:
    """A dagger that was last asked for something then."""
    return Dagger(
        name="bookings",
        spec=spec_pb2.DaggerSpec(),
        warnings=(),
        version=1,
        desired=gateway_pb2.DESIRED_RUNNING,
        phase=phase,
        phase_time=asked,
        sequence=5,
        create_sequence=1,
        create_time=asked,
        update_time=asked,
        generation=generation,
    )


class Life:
    """A dagger whose driver beats every five seconds, and a monitor that looks at each beat."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.now, self.limits = NOON, limits
        self.dagger = a_dagger()
        self.past = History()
        self.watch = watch.begin(NOON - MINUTE, 3)
        self.read = self.lag = 0
        self.seen: dict[int, list[bool]] = {LOOP: [], INPUT: [], LAG: []}
        """Of each condition: what was found at each look that could tell."""

    def passes(
        self, span: timedelta, *, records: Callable[[int], int] = lambda _: 0, lag: int = 0, every: int = 1
    ) -> None:
        """Time goes on; at each beat, or every so many, records come, and the lag grows by so much."""
        for number in range(int(span / BEAT)):
            self.now += BEAT
            self.read += records(number) if number % every == 0 else 0
            self.lag = max(self.lag + lag, 0)
            self.beat()
            for condition, seen in self.seen.items():
                if (found := self.look().get(condition)) is not None:
                    seen.append(found.active)

    def beat(self) -> None:
        heartbeat = telemetry_pb2.Heartbeat(
            dagger="bookings", generation=self.dagger.generation, rows_in=self.read, lag={"t/0": self.lag}
        )
        heartbeat.time.FromDatetime(self.now)
        heartbeat.last_progress.FromDatetime(self.now)
        self.watch = watch.hear(self.watch, heartbeat, self.now, self.limits)

    def relaunch(self, *, asked: bool = False) -> None:
        """The driver dies and another one begins; on a person's request or not."""
        self.dagger = replace(self.dagger, generation=self.dagger.generation + 1)
        if asked:
            self.dagger = replace(self.dagger, update_time=self.now)
        self.read = 0
        self.watch = watch.launch(self.watch, self.dagger.generation, self.now)

    def look(self) -> dict[int, Finding]:
        return diagnose(
            self.dagger,
            self.watch,
            now=self.now,
            hearing=NOON - MINUTE,
            limits=self.limits,
            history=self.past,
        )


def some(_: int) -> int:
    return 10


# ---- No input ----------------------------------------------------------------------------------------------


def test_input_that_was_there_and_stopped_is_missed_and_each_number_is_right() -> None:
    life = Life()
    life.passes(20 * MINUTE, records=some)
    last = life.now
    life.passes(15 * MINUTE - BEAT)
    quiet = life.look()[INPUT].active
    life.passes(BEAT)

    assert not quiet
    assert life.look()[INPUT] == Finding(
        True,
        "no record has come for 15 min; they had come for 19 min 50 s without a pause above 5 s",
        last,
        measure=Measure((life.now - last).total_seconds(), 900.0, "s"),
    )


@pytest.mark.parametrize(
    ("busy", "every"), [(0, 1), (10, 1), (60, 240)], ids=["never", "a test of ten minutes", "each 20 minutes"]
)
def test_a_topic_that_is_idle_or_seldom_used_wakes_nobody(busy: int, every: int) -> None:
    life = Life()
    life.passes(busy * MINUTE, records=some, every=every)
    life.passes(120 * MINUTE)

    assert True not in life.seen[INPUT]


def test_who_pauses_for_ten_minutes_may_pause_for_half_an_hour() -> None:
    life = Life()
    life.passes(60 * MINUTE, records=some, every=120)
    life.passes(30 * MINUTE - 11 * MINUTE)
    patient = True not in life.seen[INPUT]
    life.passes(12 * MINUTE)

    assert patient
    assert life.seen[INPUT][-1]


def test_input_that_comes_back_ends_it_and_must_last_before_it_is_missed_again() -> None:
    life = Life()
    life.passes(20 * MINUTE, records=some)
    life.passes(20 * MINUTE)
    life.passes(BEAT, records=some)
    back = life.look()[INPUT]
    life.seen[INPUT].clear()
    for _ in range(6):  # flapping: a minute of input, then a quarter of an hour of nothing
        life.passes(MINUTE, records=some)
        life.passes(16 * MINUTE)

    assert (back.active, back.summary) == (False, "records come")
    assert True not in life.seen[INPUT]


def test_a_relaunch_does_not_forget_the_input_and_a_request_does() -> None:
    found = []
    for asked in (False, True):
        life = Life()
        life.passes(20 * MINUTE, records=some)
        life.relaunch(asked=asked)
        life.passes(16 * MINUTE)
        found.append(life.seen[INPUT][-1])
        assert (INPUT in life.look()) is not asked

    assert found == [True, False]


def test_what_is_not_read_though_it_is_there_is_no_missing_input() -> None:
    life = Life()
    life.passes(20 * MINUTE, records=some)
    life.seen[INPUT].clear()
    life.passes(30 * MINUTE, lag=1)

    assert life.seen[INPUT] == []


# ---- Lag that grows ----------------------------------------------------------------------------------------


def test_a_lag_that_grows_for_ten_minutes_is_told_with_its_slope() -> None:
    life = Life()
    life.passes(5 * MINUTE, records=some)
    life.passes(10 * MINUTE + BEAT, records=some, lag=20)
    finding = life.look()[LAG]

    assert finding.measure is not None
    first, last = life.watch.backlogs[0], life.watch.backlogs[-1]
    grew, read = last.lag - first.lag, last.read - first.read
    assert finding.measure == Measure(grew / (grew + read), 0.05, "share")
    assert (grew, last.lag, read) == (120 * 20, 121 * 20, 120 * 10)
    assert finding.summary == (
        "its lag grew by 2,400 to 2,420 records in 10 min: 66.7% of what came was not read"
    )
    assert finding.since == first.time


@pytest.mark.parametrize("lag", [-50, 0], ids=["a backlog that shrinks", "a great one that stays"])
def test_a_great_lag_that_does_not_grow_wakes_nobody(lag: int) -> None:
    life = Life()
    life.lag = 1_000_000
    life.passes(40 * MINUTE, records=some, lag=lag)

    assert life.seen[LAG]
    assert True not in life.seen[LAG]


def test_waves_that_are_caught_up_with_wake_nobody() -> None:
    life = Life()
    for _ in range(8):
        life.passes(3 * MINUTE, records=some, lag=100)
        life.passes(3 * MINUTE, records=some, lag=-100)

    assert True not in life.seen[LAG]


def test_a_lag_that_grows_by_a_small_share_or_by_few_records_wakes_nobody() -> None:
    share, few = Life(), Life()
    share.passes(40 * MINUTE, records=lambda _: 1_000, lag=40)
    few.passes(40 * MINUTE, records=lambda _: 1, lag=1)

    assert share.seen[LAG]
    assert few.seen[LAG]
    assert True not in share.seen[LAG] + few.seen[LAG]


def test_a_start_and_a_relaunch_are_observed_for_the_whole_window_first() -> None:
    life = Life()
    life.passes(10 * MINUTE, records=some, lag=100)
    life.relaunch()
    life.passes(10 * MINUTE, records=some, lag=100)
    before = list(life.seen[LAG])
    life.passes(BEAT, records=some, lag=100)

    assert before == []
    assert life.seen[LAG] == [True]


# ---- Restart loop ------------------------------------------------------------------------------------------


FULL = events_pb2.DaggerError(reason="OUT_OF_MEMORY", domain=events_pb2.ERROR_DOMAIN_USER)


def ended(*ago: float) -> History:
    """A history of launches that ended so many minutes ago."""
    return History(ends=tuple(NOON - each * MINUTE for each in ago), error=FULL)


def found(dagger: Dagger, past: History, observed: Watch | None = None) -> dict[int, Finding]:
    observed = observed or watch.begin(NOON - 60 * MINUTE, 3)
    return diagnose(dagger, observed, now=NOON, hearing=NOON - 60 * MINUTE, limits=LIMITS, history=past)


def test_three_ends_in_an_hour_are_a_loop_though_it_runs_between_them() -> None:
    assert found(a_dagger(asked=NOON - 90 * MINUTE), ended(50, 30, 10))[LOOP] == Finding(
        True,
        "its driver has ended 3 times in 50 min: OUT_OF_MEMORY",
        NOON - 50 * MINUTE,
        measure=Measure(3, 3, "count"),
        advice=advice.advise_ended(FULL),
    )


@pytest.mark.parametrize("ago", [(10,), (70, 40, 10), (59, 58)])
def test_fewer_ends_are_none(ago: tuple[float, ...]) -> None:
    assert not found(a_dagger(asked=NOON - 90 * MINUTE), ended(*ago))[LOOP].active


def test_a_request_of_a_person_begins_the_count_anew() -> None:
    assert not found(a_dagger(asked=NOON - 5 * MINUTE), ended(12, 9, 7, 4, 2))[LOOP].active


def test_a_dagger_that_was_given_up_or_stopped_loops_no_more_at_once() -> None:
    ends = [found(a_dagger(phase), ended(12, 9, 7))[LOOP] for phase in (FAILED, STOPPED)]

    assert [(end.active, end.final) for end in ends] == [(False, True)] * 2


def test_a_loop_is_told_once_and_not_as_missing_progress_too() -> None:
    judged = [found(a_dagger(BACKING_OFF), past) for past in (History(), ended(12, 9, 7))]

    assert [STALL in each for each in judged] == [True, False]


# ---- What a page tells of the past -------------------------------------------------------------------------


def folded(messages: Iterable[Message]) -> tuple[History, Dagger]:
    """The history of what happened, a minute between each."""
    fleet, past = Fleet(), History()
    for record in control_records(*messages):
        if fleet.apply(record).changed and "bookings" in fleet.daggers:
            past = history.after(past, record, fleet.daggers["bookings"])
    return past, fleet.daggers["bookings"]


def meta(generation: int = 0) -> events_pb2.FactMeta:
    return events_pb2.FactMeta(epoch=0, name="bookings", generation=generation)


ASKED = events_pb2.DaggerRequested(
    name="bookings", spec=spec_pb2.DaggerSpec(), meta=events_pb2.RequestMeta(actor="rohil")
)
LAUNCHED = [
    events_pb2.SchedulerStarted(scheduler_id="s"),
    ASKED,
    events_pb2.LaunchIntended(meta=meta(), submission_id="x", version=1),
    events_pb2.Launched(meta=meta(2), driver=events_pb2.DriverHandle(host="h")),
]


def test_the_last_change_is_the_newest_request_and_who_made_it() -> None:
    stop = events_pb2.StopRequested(name="bookings", meta=events_pb2.RequestMeta(actor="prakhar"))
    past, dagger = folded([*LAUNCHED, stop])

    assert past.change is not None
    assert (past.change.revision, past.change.actor) == (dagger.version, "prakhar") == (2, "prakhar")
    assert past.change.time.ToDatetime(tzinfo=UTC) == dagger.update_time


def test_an_end_that_nobody_asked_for_is_remembered_and_one_on_request_is_not() -> None:
    error = events_pb2.DaggerError(reason="BAD_LUCK")
    died = events_pb2.Exited(meta=meta(2), error=error)
    crashed, _ = folded([*LAUNCHED, died])
    stopped, _ = folded(
        [*LAUNCHED, events_pb2.StopRequested(name="bookings"), events_pb2.Stopped(meta=meta(2))]
    )

    assert (len(crashed.ends), crashed.error) == (1, error)
    assert stopped.ends == ()


@pytest.mark.parametrize(
    ("reason", "loops"), [(ENDED_WITH_DEPLOYMENT, False), (NO_EXECUTORS, False), ("KILLED", True)]
)
def test_a_deployment_that_is_started_anew_three_times_is_no_loop_of_its_drivers(
    reason: str, loops: bool
) -> None:
    messages, generation = list(LAUNCHED), 2
    for _ in range(3):
        messages += [
            events_pb2.Exited(meta=meta(generation), error=events_pb2.DaggerError(reason=reason)),
            events_pb2.RelaunchScheduled(meta=meta(generation), attempt=1),
            events_pb2.LaunchIntended(meta=meta(), submission_id=f"after {generation}", version=1),
        ]
        generation = len(messages) - 1
        messages.append(events_pb2.Launched(meta=meta(generation), driver={"host": "h"}))
    past, dagger = folded(messages)
    finding = diagnose(
        dagger,
        watch.begin(dagger.phase_time, generation),
        now=dagger.phase_time,
        hearing=dagger.phase_time,
        limits=LIMITS,
        history=past,
    ).get(LOOP)

    assert dagger.driver is not None
    assert (finding is not None and finding.active) is loops
