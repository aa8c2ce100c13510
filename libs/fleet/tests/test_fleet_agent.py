"""Tests what the agent of a host does while a scheduler elsewhere leads, and which of its facts count."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog.testing import START, given
from fleet import Dagger, Fleet
from fleet.decide.agent import Submit, next_step
from fleet.decide.observation import Heartbeat, Observation, Policy, Presence
from fleet.decide.reconcile import Drain, Kill, Launch, next_action
from fleet.fold.hosts import AGENT
from fleet.fold.quotas import Full

META = events_pb2.RequestMeta(actor="ada")
THERE = events_pb2.HostRegistered(
    scheduler_id="t", host="there", boot_id="b", agent=AGENT, shared_checkpoints=True
)
ELSEWHERE = events_pb2.SchedulerStarted(scheduler_id="s", host="here")
ASKED = events_pb2.DaggerRequested(meta=META, name="d")
STOP = events_pb2.StopRequested(meta=META, name="d")
RESTART = events_pb2.RestartRequested(meta=META, name="d")
# The records that all histories here begin with: 0 registers the host, 1 is the leader's claim, 3 the launch.
INTENDED = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=1, name="d"), version=1, host="there")
FACT = events_pb2.FactMeta(epoch=1, name="d", generation=3)
DRIVER = events_pb2.DriverHandle(host="there", pid=7)
LAUNCHED = events_pb2.Launched(meta=FACT, driver=DRIVER)
RUNNING = events_pb2.Running(meta=FACT)
INTENT = (THERE, ELSEWHERE, ASKED, INTENDED)
UP = (*INTENT, LAUNCHED, RUNNING)

NOW = START + timedelta(minutes=1)
ALIVE = Observation(presence=Presence.ALIVE, quiet_since=NOW)
GONE = Observation(presence=Presence.GONE, quiet_since=NOW)
REACHED = Observation(presence=Presence.REMOTE, quiet_since=NOW, agent=True)
POLICY = Policy()


def fold(*messages: Message) -> Fleet:
    fleet = Fleet()
    for record in given(*messages):
        assert fleet.apply(record).refused == ""
    return fleet


def dagger(*messages: Message) -> Dagger:
    return fold(*messages).daggers["d"]


def step(*messages: Message, observation: Observation = ALIVE, is_own: bool = True) -> Any:
    return next_step(dagger(*messages), observation=observation, is_own=is_own, now=NOW, policy=POLICY)


def lead(*messages: Message, observation: Observation = REACHED, now: datetime = NOW) -> Any:
    """Return what the leader does, elsewhere."""
    return next_action(dagger(*messages), now=now, epoch=1, observation=observation, policy=POLICY)


def issue(mode: events_pb2.StopMode.ValueType) -> events_pb2.StopIssued:
    return events_pb2.StopIssued(meta=FACT, mode=mode)


# ---- The agent ---------------------------------------------------------------------------------------------


def test_an_agent_launches_an_intent_of_its_own_epoch_and_never_another_one() -> None:
    inherited = step(*INTENT, observation=GONE, is_own=False)

    assert step(*INTENT, observation=GONE) == Submit()
    assert (type(inherited), inherited.error.reason) == (events_pb2.LaunchFailed, "ENDED_WITH_DEPLOYMENT")


def test_an_intent_without_a_host_is_its_leaders_and_no_agents() -> None:
    older = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(epoch=1, name="d"), version=1)

    assert step(THERE, ELSEWHERE, ASKED, older, observation=GONE) is None
    assert fold(THERE, ELSEWHERE, ASKED, older).host_of(dagger(THERE, ELSEWHERE, ASKED, older)) == "here"


def test_an_intent_that_was_asked_to_stop_is_answered_and_not_launched() -> None:
    assert step(*INTENT, STOP, observation=GONE).error.reason == "LAUNCH_ABANDONED"


def test_a_driver_of_an_unanswered_intent_is_adopted() -> None:
    found = replace(ALIVE, driver=DRIVER)

    assert step(*INTENT, observation=found, is_own=False) == events_pb2.Launched(driver=DRIVER, adopted=True)


def test_a_driver_that_the_leader_only_heard_of_is_adopted_with_its_process() -> None:
    adopted = events_pb2.Launched(meta=FACT, driver=events_pb2.DriverHandle(host="there"), adopted=True)
    found = replace(ALIVE, driver=DRIVER)

    assert step(*INTENT, adopted, observation=found) == events_pb2.Launched(driver=DRIVER, adopted=True)
    assert step(*UP, observation=found) is None


def test_an_intent_that_names_no_host_is_its_leaders() -> None:
    unnamed = events_pb2.LaunchIntended(meta=INTENDED.meta, version=1)

    assert step(THERE, ELSEWHERE, ASKED, unnamed, observation=GONE) is None


def test_a_stop_is_carried_out_as_the_log_says_and_not_before() -> None:
    drained = (*UP, STOP, issue(events_pb2.STOP_MODE_DRAIN))

    assert step(*UP, STOP) is None
    assert step(*drained) == Drain()
    assert step(*drained, issue(events_pb2.STOP_MODE_NOW)) == Kill()


def test_the_end_of_a_driver_is_reported_with_how_it_ended() -> None:
    left = events_pb2.Exited(code=64, error={"reason": "BROKEN"})

    assert step(*UP, observation=replace(GONE, exit=left)) == left
    assert step(*UP) is None


def test_a_driver_that_gave_no_sign_in_time_is_killed() -> None:
    degraded = events_pb2.Degraded(meta=FACT, reasons=["START_TIMEOUT"])

    assert step(*INTENT, LAUNCHED, degraded) == Kill()
    assert step(*INTENT, LAUNCHED, degraded, observation=replace(ALIVE, heartbeat=Heartbeat())) is None


# ---- The leader, elsewhere ---------------------------------------------------------------------------------


def test_a_leader_writes_the_stop_of_a_driver_elsewhere_once() -> None:
    stop = lead(*UP, STOP)

    assert stop == events_pb2.StopIssued(mode=events_pb2.STOP_MODE_DRAIN)
    assert lead(*UP, STOP, issue(events_pb2.STOP_MODE_DRAIN)) is None
    assert lead(*UP, RESTART) == events_pb2.StopIssued(mode=events_pb2.STOP_MODE_DRAIN)
    assert lead(*UP) is None


def test_a_drain_elsewhere_that_takes_too_long_becomes_a_kill_in_the_log() -> None:
    drained, late = (*UP, STOP, issue(events_pb2.STOP_MODE_DRAIN)), NOW + POLICY.grace
    quiet = replace(REACHED, quiet_since=late)

    assert lead(*drained, observation=quiet, now=late) == events_pb2.StopIssued(mode=events_pb2.STOP_MODE_NOW)
    assert lead(*drained, issue(events_pb2.STOP_MODE_NOW), observation=quiet, now=late) is None


def test_a_stop_waits_for_an_agent_that_is_not_heard() -> None:
    assert lead(*UP, STOP, observation=replace(REACHED, agent=False)) is None


def test_an_intent_elsewhere_is_waited_for_and_then_made_anew() -> None:
    placed, late = replace(REACHED, place="third"), NOW + POLICY.answer

    assert lead(*INTENT, observation=placed) is None
    assert lead(*INTENT, observation=placed, now=late) == Launch("third")


def test_an_intent_elsewhere_is_not_made_anew_where_a_lease_would_not_fence_it() -> None:
    alone, late = replace(REACHED, fences=False), NOW + POLICY.answer

    assert lead(*INTENT, observation=alone, now=late) == events_pb2.Unreachable()


def test_an_intent_that_no_other_host_can_run_is_left_to_its_host() -> None:
    late, nowhere = NOW + POLICY.answer, Full("NO_HOST", "no host can run it")

    assert lead(*INTENT, observation=replace(REACHED, full=nowhere), now=late) == events_pb2.Unreachable()
    assert lead(*INTENT, observation=replace(GONE, full=nowhere)).error.reason == "NO_HOST"


def test_an_intent_of_a_host_that_is_gone_is_made_anew_at_once() -> None:
    assert lead(*INTENT, observation=replace(REACHED, agent=False, host_gone=True)) == Launch()


def test_a_silent_driver_whose_agent_is_heard_is_degraded_and_not_unreachable() -> None:
    late = NOW + timedelta(minutes=5)
    silent = lead(*UP, now=late)
    lost = lead(*UP, observation=replace(REACHED, agent=False), now=late)

    assert (type(silent), type(lost)) == (events_pb2.Degraded, events_pb2.Unreachable)


def test_a_dagger_of_a_host_that_was_booted_anew_is_launched_again_without_an_attempt() -> None:
    ended = lead(*UP, observation=replace(REACHED, host_gone=True, rebooted=True))

    assert (type(ended), ended.error.reason) == (events_pb2.Exited, "ENDED_WITH_DEPLOYMENT")


# ---- Which facts count -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "host_epoch", "refused"),
    [
        (1, 0, ""),
        (1, 4, ""),
        (0, 4, "it is of epoch 0, the newest is 1"),
        (1, 3, "it is of host epoch 3, the newest of there is 4"),
        (1, 5, "it is of host epoch 5, the newest of there is 4"),
    ],
)
def test_a_fact_of_an_agent_counts_when_leader_and_host_are_the_newest(
    epoch: int, host_epoch: int, refused: str
) -> None:
    meta = events_pb2.FactMeta(epoch=epoch, name="d", generation=3, host_epoch=host_epoch)
    *history, fact = given(*INTENT, THERE, events_pb2.Launched(meta=meta, driver=DRIVER))
    fleet = Fleet()
    for record in history:
        fleet.apply(record)

    assert fleet.apply(fact).refused == refused


def test_the_agent_of_another_host_says_nothing_that_counts() -> None:
    other = events_pb2.HostRegistered(scheduler_id="x", host="third", agent=AGENT)
    meta = events_pb2.FactMeta(epoch=1, name="d", generation=3, host_epoch=4)
    *history, fact = given(*INTENT, other, events_pb2.Exited(meta=meta))
    fleet = Fleet()
    for record in history:
        fleet.apply(record)

    assert fleet.apply(fact).refused == "it is of host epoch 4, the newest of there is 0"


def test_an_intent_names_the_host_of_a_launch_before_anybody_answers() -> None:
    fleet = fold(*INTENT)

    assert fleet.host_of(fleet.daggers["d"]) == "there"
    assert [one.name for one in fleet.occupied_on("there")] == ["d"]
    assert fleet.daggers["d"].phase == gateway_pb2.STARTING


def test_a_host_that_registers_in_another_boot_has_lost_what_ran_before_and_is_there() -> None:
    again = events_pb2.HostRegistered(scheduler_id="t2", host="there", boot_id="c", agent=AGENT)
    same = events_pb2.HostRegistered(scheduler_id="t2", host="there", boot_id="b", agent=AGENT)
    fleets = [fold(*UP, registered) for registered in (again, same)]

    assert [fleet.is_lost(fleet.daggers["d"]) for fleet in fleets] == [True, False]
    assert [fleet.standing("there").is_gone for fleet in fleets] == [False, False]


def test_only_the_newest_leader_finds_a_host_silent() -> None:
    def lose(leader: int) -> events_pb2.HostGone:
        cause = events_pb2.HOST_GONE_CAUSE_SILENCE
        return events_pb2.HostGone(meta=META, host="there", epoch=0, cause=cause, leader_epoch=leader)

    another = events_pb2.SchedulerStarted(scheduler_id="u", host="third")
    refused = [
        (
            fleet := Fleet(),
            [fleet.apply(record) for record in given(THERE, ELSEWHERE, another, lose(leader))],
        )[1][-1]
        for leader in (1, 2)
    ]

    assert [applied.refused for applied in refused] == ["another scheduler leads since (epoch 2, not 1)", ""]


def test_a_critical_dagger_of_a_lost_host_waits_for_nothing_and_the_others_do() -> None:
    waits = []
    for priority in (spec_pb2.PRIORITY_CRITICAL, spec_pb2.PRIORITY_NORMAL):
        request = events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(priority=priority))
        exited = events_pb2.Exited(
            meta=FACT, error=events_pb2.DaggerError(reason="HOST_LOST", retryable=True)
        )
        scheduled = lead(THERE, ELSEWHERE, request, INTENDED, LAUNCHED, RUNNING, exited)
        assert type(scheduled) is events_pb2.RelaunchScheduled
        waits.append(scheduled.not_before.ToDatetime(UTC) - NOW)

    assert waits[0] == timedelta(0)
    assert waits[1] >= timedelta(seconds=1)
