"""Reconciling a dagger: given what stands in the log and what is observed, the one next thing to do."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf.message import Message

from daggerspec.exits import ENDED_WITH_DEPLOYMENT, KILLED, LOST
from eventlog.testing import START, given
from fleet import Dagger, Fleet
from fleet.decide.backoff import delay
from fleet.decide.observation import Heartbeat, Observation, Policy, Presence
from fleet.decide.reconcile import Drain, Kill, Launch, next_action
from fleet.fold.facts import evolve
from fleet.fold.quotas import Full

META = events_pb2.RequestMeta(actor="ada")
CLAIM = events_pb2.SchedulerStarted(scheduler_id="s", host="here")
ASKED = events_pb2.DaggerRequested(meta=META, name="d")
INTENDED = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
STOP = events_pb2.StopRequested(meta=META, name="d")
STOP_NOW = events_pb2.StopRequested(meta=META, name="d", mode=events_pb2.STOP_MODE_NOW)
DELETE = events_pb2.DeleteRequested(meta=META, name="d")
RESTART = events_pb2.RestartRequested(meta=META, name="d")
FACT = events_pb2.FactMeta(name="d", generation=2)
DRIVER = events_pb2.DriverHandle(host="here", pid=7)
LAUNCHED = events_pb2.Launched(meta=FACT, driver=DRIVER)
RUNNING = events_pb2.Running(meta=FACT)
UNREACHABLE = events_pb2.Unreachable(meta=FACT)
ISSUED = events_pb2.StopIssued(meta=FACT, mode=events_pb2.STOP_MODE_DRAIN)
BROKEN = events_pb2.DaggerError(reason="BROKEN", detail="it broke", retryable=True)
EXITED = events_pb2.Exited(meta=FACT, code=1, error=BROKEN)
UP = (CLAIM, ASKED, INTENDED, LAUNCHED, RUNNING)

POLICY = Policy()
# All records of a test are written within a minute of START.
NOW = START + timedelta(minutes=1)
SILENT = Observation(presence=Presence.ALIVE, quiet_since=NOW)
GONE = Observation(presence=Presence.GONE, quiet_since=NOW)
REMOTE = Observation(presence=Presence.REMOTE, quiet_since=NOW)


def dagger(*messages: Message) -> Dagger:
    fleet = Fleet()
    for each in given(*messages):
        assert fleet.apply(each).refused == ""
    return fleet.daggers["d"]


def action(*messages: Message, observation: Observation = GONE, now: datetime = NOW, epoch: int = 0) -> Any:
    return next_action(dagger(*messages), now=now, epoch=epoch, observation=observation, policy=POLICY)


def heard(state: Heartbeat.State = Heartbeat.STATE_RUNNING, **fields: Any) -> Observation:
    return replace(SILENT, heartbeat=Heartbeat(state=state, **fields))


def at(seconds: float) -> Any:
    return {"seconds": int(seconds), "nanos": int(seconds % 1 * 1e9)}


# ---- Launching ---------------------------------------------------------------------------------------------


def test_a_pending_dagger_is_launched() -> None:
    assert action(CLAIM, ASKED) == Launch()


def test_a_dagger_without_room_says_so_once_and_is_launched_when_there_is_room() -> None:
    full = replace(GONE, full=Full("MAX_DRIVERS", "1 driver runs, and this host takes 1"))
    said = action(CLAIM, ASKED, observation=full)
    said.meta.name = "d"

    assert (said.error.reason, said.error.retryable) == ("MAX_DRIVERS", True)
    assert action(CLAIM, ASKED, said, observation=full) is None
    assert action(CLAIM, ASKED, said) == Launch()


def test_an_inherited_intent_is_intended_anew_or_adopted_but_never_submitted() -> None:
    alive = replace(SILENT, driver=DRIVER)

    assert action(CLAIM, ASKED, INTENDED) == Launch()
    assert action(CLAIM, ASKED, INTENDED, observation=alive) == events_pb2.Launched(
        driver=DRIVER, adopted=True
    )


def test_an_inherited_intent_of_a_dagger_that_is_to_stop_is_abandoned_where_absence_is_proof() -> None:
    assert action(CLAIM, ASKED, INTENDED, STOP).error.reason == "LAUNCH_ABANDONED"
    assert action(CLAIM, ASKED, INTENDED, STOP, observation=REMOTE) == events_pb2.Unreachable()


def test_a_driver_that_lives_here_is_adopted_though_nobody_knew_of_it_and_it_says_nothing() -> None:
    """Another host's leader could not know whether the intent had become one; its own host does."""
    unknown = (CLAIM, ASKED, INTENDED, DELETE, UNREACHABLE)
    adopted = events_pb2.Launched(driver=DRIVER, adopted=True)

    assert action(*unknown, observation=replace(SILENT, driver=DRIVER)) == adopted
    assert action(*unknown, observation=REMOTE) is None
    assert isinstance(action(*unknown, observation=GONE), events_pb2.Exited)


def test_what_runs_an_older_version_is_stopped_in_its_turn_and_looked_at_until_then() -> None:
    edited = events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(sql="other"))
    early, drain = replace(heard(), has_turn=False), events_pb2.StopIssued(mode=events_pb2.STOP_MODE_DRAIN)
    elsewhere = replace(early, presence=Presence.REMOTE, agent=True)

    assert action(*UP, edited, observation=heard()) == drain
    assert action(*UP, edited, observation=early) is None
    assert action(*UP, edited, observation=elsewhere) is None
    assert action(*UP, edited, observation=replace(elsewhere, has_turn=True)) == drain
    assert isinstance(action(*UP, edited, observation=replace(GONE, has_turn=False)), events_pb2.Exited)
    assert action(*UP, STOP, observation=early) == drain


def test_a_new_leader_adopts_a_living_driver_once() -> None:
    again = events_pb2.SchedulerStarted(scheduler_id="t", host="here")
    adopted = events_pb2.Launched(
        meta=events_pb2.FactMeta(name="d", generation=2, epoch=5), driver=DRIVER, adopted=True
    )

    assert action(*UP, again, observation=heard(), epoch=5) == events_pb2.Launched(
        driver=DRIVER, adopted=True
    )
    assert action(*UP, again, adopted, observation=heard(), epoch=5) is None


def test_a_heartbeat_from_another_host_proves_what_became_of_its_intent() -> None:
    remote = replace(REMOTE, heartbeat=Heartbeat(host="there"))
    adopted = events_pb2.Launched(driver=events_pb2.DriverHandle(host="there"), adopted=True)

    assert action(CLAIM, ASKED, INTENDED, observation=remote) == adopted
    assert action(CLAIM, ASKED, INTENDED, STOP, UNREACHABLE, observation=remote) == adopted
    assert action(CLAIM, ASKED, INTENDED, STOP, UNREACHABLE, observation=REMOTE) is None


def test_the_ui_is_told_once_it_is_known() -> None:
    with_ui = events_pb2.Launched(
        meta=FACT, driver={"host": "here", "pid": 7, "ui_url": "http://127.0.0.1:1"}
    )
    observation = heard(ui_url="http://127.0.0.1:1")

    assert action(*UP, observation=observation) == events_pb2.Launched(driver=with_ui.driver)
    assert action(*UP, with_ui, observation=observation) is None


# ---- Death -------------------------------------------------------------------------------------------------


def test_a_driver_that_is_gone_has_exited_as_it_left_word() -> None:
    left = events_pb2.Exited(code=69, error=BROKEN)

    assert action(*UP, observation=replace(GONE, exit=left)) == left


def test_a_clean_end_that_nobody_asked_for_is_an_error_that_may_pass() -> None:
    exited = action(*UP, observation=replace(GONE, exit=events_pb2.Exited(code=0)))

    assert (exited.error.reason, exited.error.retryable) == ("STOPPED_UNASKED", True)


def test_the_end_of_a_driver_that_was_told_to_stop_is_no_error_unless_it_failed() -> None:
    stopping = (*UP, STOP, ISSUED)
    killed = events_pb2.Exited(code=-9, error=BROKEN)
    failed = events_pb2.Exited(code=69, error=BROKEN)

    assert not action(*stopping, observation=replace(GONE, exit=killed)).HasField("error")
    assert action(*stopping, observation=replace(GONE, exit=failed)).error == BROKEN


def test_a_death_that_may_pass_is_followed_by_an_attempt_after_a_wait() -> None:
    scheduled = action(*UP, EXITED)

    wait = delay("d", 1, base=POLICY.first_delay, cap=POLICY.longest_delay)
    assert scheduled.attempt == 1
    assert abs(scheduled.not_before.ToDatetime(tzinfo=UTC) - (NOW + wait)) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "left",
    [
        events_pb2.Exited(code=0),
        events_pb2.Exited(code=-9, error=events_pb2.DaggerError(reason=KILLED, retryable=True)),
        events_pb2.Exited(error=events_pb2.DaggerError(reason=LOST, retryable=True)),
    ],
)
def test_an_end_without_a_word_is_the_deployments_where_that_is_proven(left: events_pb2.Exited) -> None:
    proven = replace(GONE, exit=left, deployment="its machine was started anew")
    error = action(*UP, observation=proven).error

    assert (error.reason, error.detail) == (ENDED_WITH_DEPLOYMENT, "its machine was started anew")
    assert (error.domain, error.retryable) == (events_pb2.ERROR_DOMAIN_EXTERNAL, True)
    assert action(*UP, observation=replace(proven, deployment="")).error.reason != ENDED_WITH_DEPLOYMENT


def test_what_a_driver_said_itself_stays_true_whatever_was_started_anew_later() -> None:
    left = events_pb2.Exited(code=69, error=BROKEN)
    proven = replace(GONE, exit=left, deployment="its machine was started anew")

    assert action(*UP, observation=proven) == left


def test_an_end_that_the_deployment_made_is_no_attempt_and_nothing_is_waited_for() -> None:
    taken = events_pb2.Exited(meta=FACT, error={"reason": ENDED_WITH_DEPLOYMENT, "retryable": True})
    never = dagger(*UP, taken)
    often = replace(never, attempt=POLICY.attempts)
    scheduled = [
        next_action(each, now=NOW, epoch=0, observation=GONE, policy=POLICY) for each in (never, often)
    ]
    again = events_pb2.RelaunchScheduled()
    again.CopyFrom(scheduled[0])
    again.meta.CopyFrom(FACT)

    assert [each.attempt for each in scheduled] == [0, POLICY.attempts]
    assert scheduled[0].not_before.ToDatetime(tzinfo=UTC) == NOW
    assert (never.ends, often.ends) == (0, POLICY.attempts)
    assert action(*UP, taken, again) == Launch()
    assert dagger(*UP, taken, again).restarts == 1


def test_the_next_attempt_waits_for_its_time() -> None:
    scheduled = events_pb2.RelaunchScheduled(meta=FACT, attempt=1, not_before=at(NOW.timestamp() + 5))
    waiting = (*UP, EXITED, scheduled)

    assert action(*waiting) is None
    assert action(*waiting, now=NOW + timedelta(seconds=6)) == Launch()


@pytest.mark.parametrize(("reason", "relaunches"), [("OUT_OF_MEMORY", 3), ("BROKEN", POLICY.attempts)])
def test_what_ran_out_of_memory_is_launched_again_a_few_times_only(reason: str, relaunches: int) -> None:
    error = events_pb2.DaggerError(reason=reason, detail="it ended", retryable=True)
    ended = dagger(*UP, events_pb2.Exited(meta=FACT, code=3, error=error))
    again, enough = replace(ended, attempt=relaunches - 1), replace(ended, attempt=relaunches)

    def next_of(each: Dagger) -> Any:
        return next_action(each, now=NOW, epoch=0, observation=GONE, policy=POLICY)

    assert next_of(again).attempt == relaunches
    assert next_of(enough).error.detail == f"given up after {relaunches} relaunches: it ended"


@pytest.mark.parametrize(
    ("reason", "ran", "relaunches"),
    [
        ("OUT_OF_MEMORY", timedelta(minutes=11), 3),
        ("OUT_OF_MEMORY", timedelta(minutes=61), None),
        ("BROKEN", timedelta(minutes=11), None),
    ],
)
def test_what_runs_out_of_memory_every_few_minutes_is_given_up(
    reason: str, ran: timedelta, relaunches: int | None
) -> None:
    state, now, generation, launches = dagger(*UP), NOW, 2, 0

    def happens(fact: Any) -> None:
        nonlocal state
        fact.meta.MergeFrom(events_pb2.FactMeta(name="d", generation=generation))
        after = evolve(state, fact, sequence=generation, time=now)
        assert isinstance(after, Dagger)
        state = after

    def next_fact(observation: Observation) -> Any:
        return next_action(state, now=now, epoch=0, observation=observation, policy=POLICY)

    while launches < 10:
        now += ran
        if (settled := next_fact(replace(heard(), quiet_since=now))) is not None:
            happens(settled)
        happens(events_pb2.Exited(error=events_pb2.DaggerError(reason=reason, retryable=True)))
        if isinstance(scheduled := next_fact(GONE), events_pb2.Failed):
            break
        happens(scheduled)
        launches, generation = launches + 1, generation + 1
        happens(events_pb2.LaunchIntended(version=1))
        happens(events_pb2.Launched(driver=DRIVER))
        happens(events_pb2.Running())

    assert launches == (relaunches or 10)


def test_attempts_are_counted_and_end() -> None:
    last = events_pb2.RelaunchScheduled(meta=FACT, attempt=10, not_before=at(1))
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
    fact = events_pb2.FactMeta(name="d", generation=7)
    down = (*UP, EXITED, last, again, events_pb2.LaunchFailed(meta=fact, error=BROKEN))

    failed = action(*down)

    assert isinstance(failed, events_pb2.Failed)
    assert (failed.error.detail, failed.error.retryable) == ("given up after 10 relaunches: it broke", False)


@pytest.mark.parametrize("reason", ["CHECKPOINT_ROOT_MISSING", "NO_EXECUTORS", "HOST_LACKS"])
def test_a_checkpoint_root_a_cluster_and_what_a_host_has_not_are_waited_for_however_long(reason: str) -> None:
    away = events_pb2.DaggerError(reason=reason, detail="it is away", retryable=True)
    last = events_pb2.RelaunchScheduled(meta=FACT, attempt=10, not_before=at(1))
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
    fact = events_pb2.FactMeta(name="d", generation=7)

    scheduled = action(*UP, EXITED, last, again, events_pb2.LaunchFailed(meta=fact, error=away))

    assert isinstance(scheduled, events_pb2.RelaunchScheduled)
    assert scheduled.attempt == 11


def test_a_users_error_is_final_at_once() -> None:
    wrong = events_pb2.DaggerError(domain=events_pb2.ERROR_DOMAIN_USER, reason="BAD_SQL", detail="no")

    assert action(*UP, events_pb2.Exited(meta=FACT, code=64, error=wrong)) == events_pb2.Failed(error=wrong)


@pytest.mark.parametrize("observation", [REMOTE, replace(REMOTE, quiet_since=START)])
def test_an_unreachable_driver_is_never_launched_again(observation: Observation) -> None:
    assert action(*UP, UNREACHABLE, observation=observation) is None
    assert action(*UP, UNREACHABLE, RESTART, observation=observation) is None
    assert action(*UP, UNREACHABLE, STOP, observation=observation) is None


def test_an_unreachable_driver_is_dead_when_on_call_says_so() -> None:
    vouched = events_pb2.DeathConfirmed(meta=META, name="d", generation=2)

    assert action(*UP, UNREACHABLE, vouched, observation=REMOTE).error.reason == "HOST_LOST"


def test_a_driver_is_dead_when_its_host_is_gone_and_is_launched_again_elsewhere() -> None:
    lost = replace(REMOTE, host_gone=True)
    exited = events_pb2.Exited(meta=FACT, error=action(*UP, UNREACHABLE, observation=lost).error)

    assert exited.error.reason == "HOST_LOST"
    assert isinstance(action(*UP, observation=lost), events_pb2.Exited)
    assert isinstance(action(*UP, UNREACHABLE, exited, observation=lost), events_pb2.RelaunchScheduled)


def test_what_was_to_stop_has_stopped_when_its_host_is_gone() -> None:
    lost = replace(REMOTE, host_gone=True)

    assert action(*UP, STOP, UNREACHABLE, observation=lost).error.reason == "HOST_LOST"
    assert action(CLAIM, ASKED, INTENDED, STOP, UNREACHABLE, observation=lost).error.reason == "HOST_LOST"


def test_a_driver_that_lives_here_lives_though_somebody_vouched_for_its_death() -> None:
    alive = replace(heard(), host_gone=True)

    assert not isinstance(action(*UP, observation=alive), events_pb2.Exited)


def test_a_sign_of_life_ends_being_unreachable() -> None:
    alive = replace(heard(), presence=Presence.REMOTE)

    assert action(*UP, UNREACHABLE, observation=alive) == events_pb2.Recovered()


# ---- Stopping ----------------------------------------------------------------------------------------------


def test_a_stop_is_written_before_it_is_done() -> None:
    assert action(*UP, STOP, observation=heard()) == events_pb2.StopIssued(mode=events_pb2.STOP_MODE_DRAIN)
    assert action(*UP, STOP, ISSUED, observation=heard()) == Drain()


def test_a_drain_beyond_the_grace_or_asked_to_end_now_is_a_kill() -> None:
    late = NOW + POLICY.grace

    assert action(*UP, STOP, ISSUED, observation=heard(), now=late) == Kill()
    assert action(*UP, STOP_NOW, observation=heard()) == events_pb2.StopIssued(mode=events_pb2.STOP_MODE_NOW)
    assert action(*UP, STOP, ISSUED, STOP_NOW, observation=heard()) == events_pb2.StopIssued(
        mode=events_pb2.STOP_MODE_NOW
    )


def test_a_restart_drains_the_driver_and_launches_when_it_is_gone() -> None:
    exited = events_pb2.Exited(meta=FACT, code=0)

    assert action(*UP, RESTART, observation=heard()) == events_pb2.StopIssued(mode=events_pb2.STOP_MODE_DRAIN)
    assert action(*UP, RESTART, ISSUED, exited) == Launch()


def test_what_has_no_driver_is_stopped_or_deleted_at_once() -> None:
    assert action(CLAIM, ASKED, STOP) == events_pb2.Stopped()
    assert action(CLAIM, ASKED, DELETE) == events_pb2.Deleted()
    assert action(*UP, EXITED, DELETE) == events_pb2.Deleted()


def test_a_stopped_and_a_deleted_dagger_have_no_next_action() -> None:
    meta = events_pb2.FactMeta(name="d")

    assert action(CLAIM, ASKED, STOP, events_pb2.Stopped(meta=meta)) is None
    assert action(CLAIM, ASKED, DELETE, events_pb2.Deleted(meta=meta)) is None


# ---- Health ------------------------------------------------------------------------------------------------


def test_the_first_progress_makes_it_run() -> None:
    starting = (CLAIM, ASKED, INTENDED, LAUNCHED)

    assert action(*starting, observation=heard(Heartbeat.STATE_STARTING)) is None
    assert action(*starting, observation=heard()) == events_pb2.Running()


def test_a_launch_without_a_sign_of_life_is_degraded_then_killed_and_its_exit_says_why() -> None:
    starting, late = (CLAIM, ASKED, INTENDED, LAUNCHED), NOW + POLICY.limits.start
    degraded = action(*starting, observation=SILENT, now=late)
    degraded.meta.CopyFrom(FACT)

    assert degraded.reasons == ["START_TIMEOUT"]
    assert action(*starting, degraded, observation=SILENT, now=late) == Kill()
    assert action(*starting, degraded, observation=GONE, now=late).error.reason == "START_TIMEOUT"
    busy = replace(GONE, overload="the host is overloaded")
    ended = action(*starting, degraded, observation=busy, now=late).error
    assert (ended.reason, ended.domain) == ("HOST_OVERLOADED", events_pb2.ERROR_DOMAIN_EXTERNAL)


def test_what_was_unreachable_before_it_ever_ran_is_killed_where_it_lives_and_what_ran_never_is() -> None:
    degraded, late = events_pb2.Degraded(meta=FACT, reasons=["NO_PROGRESS"]), NOW + POLICY.limits.start
    never_ran = (CLAIM, ASKED, INTENDED, LAUNCHED, UNREACHABLE)
    timed_out = events_pb2.Degraded(meta=FACT, reasons=["START_TIMEOUT"])

    assert action(*never_ran, observation=SILENT) == events_pb2.Degraded(reasons=["NO_PROGRESS"])
    assert action(*never_ran, degraded, observation=SILENT, now=late) == events_pb2.Degraded(
        reasons=["START_TIMEOUT"]
    )
    assert action(*never_ran, degraded, timed_out, observation=SILENT, now=late) == Kill()
    assert action(*UP, degraded, observation=SILENT, now=late) == events_pb2.Degraded(
        reasons=["NO_HEARTBEAT"]
    )


def test_a_launch_without_a_sign_of_life_is_killed_by_its_own_host_only() -> None:
    timed_out = events_pb2.Degraded(meta=FACT, reasons=["START_TIMEOUT"])
    history, late = (CLAIM, ASKED, INTENDED, LAUNCHED, timed_out), NOW + POLICY.limits.silence

    assert action(*history, observation=SILENT, now=late) == Kill()
    assert action(*history, observation=REMOTE, now=late) == events_pb2.Unreachable()


def test_a_slow_start_with_heartbeats_is_never_killed() -> None:
    slow = replace(heard(Heartbeat.STATE_STARTING, running_batch_age_ms=1), quiet_since=NOW)
    stuck = replace(heard(Heartbeat.STATE_STARTING), quiet_since=NOW + POLICY.limits.start)
    starting, late = (CLAIM, ASKED, INTENDED, LAUNCHED), NOW + POLICY.limits.start

    assert action(*starting, observation=replace(slow, quiet_since=late), now=late) is None
    assert action(*starting, observation=stuck, now=late) == events_pb2.Degraded(reasons=["NO_PROGRESS"])


def test_silence_degrades_a_driver_that_lives_here_and_makes_another_unreachable() -> None:
    late = NOW + POLICY.limits.silence

    assert action(*UP, observation=heard(), now=late) == events_pb2.Degraded(reasons=["NO_HEARTBEAT"])
    assert action(*UP, observation=REMOTE, now=late) == events_pb2.Unreachable()


def test_a_new_leader_does_not_blame_drivers_for_what_it_could_not_hear() -> None:
    assert action(*UP, observation=SILENT, now=NOW + timedelta(seconds=10)) is None


@pytest.mark.parametrize("observation", [SILENT, REMOTE])
def test_what_a_new_leader_has_heard_nothing_of_is_not_called_running_for_long(
    observation: Observation,
) -> None:
    assert action(*UP, observation=observation, now=NOW + timedelta(seconds=11)) == events_pb2.Degraded(
        reasons=["NO_PROGRESS"]
    )


@pytest.mark.parametrize(
    ("batch_ms", "age_s", "reasons"),
    [(0, 11, ["BATCH_STUCK"]), (0, 10, None), (9000, 44, ["NO_PROGRESS"]), (9000, 45, ["BATCH_STUCK"])],
)
def test_a_batch_that_takes_long_is_late_and_one_that_takes_far_longer_than_others_is_stuck(
    batch_ms: int, age_s: int, reasons: list[str] | None
) -> None:
    observation = heard(
        time=at(1000),
        last_progress=at(1000 - age_s),
        running_batch_age_ms=age_s * 1000,
        batch_duration_ms=batch_ms,
    )

    assert action(*UP, observation=observation) == (reasons and events_pb2.Degraded(reasons=reasons))


def test_a_driver_that_reads_nothing_and_runs_no_batch_is_not_running() -> None:
    hung = heard(time=at(1000), last_progress=at(989))

    assert action(*UP, observation=hung) == events_pb2.Degraded(reasons=["NO_PROGRESS"])


def test_progress_grows_old_while_no_heartbeat_comes_long_before_silence_is_told() -> None:
    last = heard(time=at(1000), last_progress=at(999))

    assert action(*UP, observation=last, now=NOW + timedelta(seconds=9)) is None
    assert action(*UP, observation=last, now=NOW + timedelta(seconds=10)) == events_pb2.Degraded(
        reasons=["NO_PROGRESS"]
    )


def test_an_idle_driver_that_finds_its_source_empty_is_running() -> None:
    assert action(*UP, observation=heard(time=at(9000), last_progress=at(8999))) is None


def test_a_driver_that_is_late_elsewhere_is_not_unreachable_yet() -> None:
    last = replace(heard(time=at(1000), last_progress=at(999)), presence=Presence.REMOTE)

    assert action(*UP, observation=last, now=NOW + POLICY.limits.silence / 2) == events_pb2.Degraded(
        reasons=["NO_PROGRESS"]
    )
    assert action(*UP, observation=last, now=NOW + POLICY.limits.silence) == events_pb2.Unreachable()


def test_the_same_reason_is_written_once_and_another_one_anew() -> None:
    retrying = heard(retrying=[events_pb2.DaggerError(reason="INFLUX_DOWN")])
    degraded = action(*UP, observation=retrying)
    degraded.meta.CopyFrom(FACT)
    other = heard(retrying=[events_pb2.DaggerError(reason="KAFKA_DOWN")])

    assert degraded.reasons == ["SINK_RETRYING", "INFLUX_DOWN"]
    assert action(*UP, degraded, observation=retrying) is None
    assert action(*UP, degraded, observation=other).reasons == ["SINK_RETRYING", "KAFKA_DOWN"]


def test_recovery_is_held_back_so_that_flapping_does_not_fill_the_log() -> None:
    degraded = events_pb2.Degraded(meta=FACT, reasons=["NO_HEARTBEAT"])
    since = START + timedelta(seconds=5)

    assert action(*UP, degraded, observation=heard(), now=since + POLICY.hold / 2) is None
    assert action(*UP, degraded, observation=heard(), now=since + POLICY.hold) == events_pb2.Recovered()


def test_attempts_are_forgotten_after_long_enough_in_running() -> None:
    scheduled = events_pb2.RelaunchScheduled(meta=FACT, attempt=1, not_before=at(1))
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
    fact = events_pb2.FactMeta(name="d", generation=7)
    up = (*UP, EXITED, scheduled, again, events_pb2.Launched(meta=fact, driver=DRIVER))
    up = (*up, events_pb2.Running(meta=fact))
    settled = START + timedelta(seconds=9) + POLICY.settle

    early = replace(heard(), quiet_since=settled)
    assert action(*up, observation=early, now=settled - timedelta(seconds=1)) is None
    assert action(*up, observation=early, now=settled) == events_pb2.Settled()
    assert dagger(*up).phase == gateway_pb2.RUNNING
