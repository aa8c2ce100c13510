"""Changes that a fact makes to a dagger beside its phase, for the rows of `fleet.fold.facts`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2

from daggerspec.exits import OUT_OF_MEMORY
from fleet.fold.dagger import Dagger
from fleet.fold.footprint import Footprint
from fleet.fold.phases import STOPPING, Desired
from fleet.fold.replay import Outage, Replay

SUSPICION: Final = timedelta(minutes=10)
"""Time within which two deaths of its process while it was computing have a dagger set alone."""
TWO_DEATHS: Final = (
    f"two processes that it shared died within {SUSPICION.seconds // 60} minutes while it was computing"
)
"""Reason why a dagger is set alone, as a clause."""


@dataclass(frozen=True, slots=True)
class IgnoredFact:
    """A fact that changes nothing, and why."""

    why: str


Changes: TypeAlias = dict[str, Any] | IgnoredFact


def change_nothing(_: Dagger, __: Any, ___: datetime) -> Changes:
    """Change nothing but the phase."""
    return {}


def begin_launch(dagger: Dagger, fact: events_pb2.LaunchIntended, _: datetime) -> Changes:
    """Begin a launch, without what was observed of the one before."""
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return IgnoredFact("it is not asked to run")
    if fact.version != dagger.version:
        return IgnoredFact(f"it is at version {dagger.version}, not {fact.version}")
    if dagger.shadow is not None:
        return IgnoredFact("its shadow is not proven dead")
    return {
        "observed_version": fact.version,
        "host": fact.host,
        "epoch": fact.meta.epoch,
        "stop_issued": events_pb2.STOP_MODE_UNSPECIFIED,
        "ran": False,
        "references": (),
        "confirmed_dead": False,
        "handed": None,
        "observed_query": dagger.query,
        "footprint": Footprint.of(dagger.spec),
    }


def mark_running(dagger: Dagger, _: events_pb2.Running | events_pb2.Recovered, __: datetime) -> Changes:
    """Record progress. A request to begin anew is fulfilled, unless it came after this launch was
    intended.
    """
    changes = {"ran": True, "last_error": None, "good_version": dagger.observed_version}
    begun = 0 if dagger.observed_version >= dagger.from_start else dagger.from_start
    return changes | {"ran_on": dagger.host or dagger.ran_on, "from_start": begun}


def record_error(_: Dagger, fact: events_pb2.LaunchFailed | events_pb2.Failed, __: datetime) -> Changes:
    """Record why it does not run."""
    return {"last_error": fact.error}


def record_exit(dagger: Dagger, fact: events_pb2.Exited, time: datetime) -> Changes:
    """Record the exit of its driver."""
    if dagger.phase == STOPPING and dagger.driver is None:
        return IgnoredFact("its exit is known")
    ended = gateway_pb2.DriverExit(generation=dagger.generation)
    ended.time.FromDatetime(time)
    if fact.HasField("code"):
        ended.code = fact.code
    if fact.HasField("error"):
        ended.error.CopyFrom(fact.error)
    last_error = fact.error if fact.HasField("error") else dagger.last_error
    changes: dict[str, Any] = {"driver": None, "last_error": last_error, "last_exit": ended}
    if fact.suspect:
        is_second = dagger.suspected is not None and time - dagger.suspected <= SUSPICION
        changes |= {"suspected": time, "isolated": dagger.isolated or is_second}
    return changes


def stop(_: Dagger, fact: events_pb2.StopIssued, time: datetime) -> Changes:
    """Record how its driver was told to stop, and whether it leaves a process for another."""
    changes: dict[str, Any] = {"stop_issued": fact.mode}
    if fact.leaves or fact.returns:
        changes |= {"left_because": fact.leaves, "left_time": time}
    return changes


def schedule_relaunch(dagger: Dagger, fact: events_pb2.RelaunchScheduled, _: datetime) -> Changes:
    """Record number and time of the next attempt."""
    if dagger.not_before is not None:
        return IgnoredFact("the next attempt is scheduled")
    changes = {
        "attempt": fact.attempt,
        "not_before": fact.not_before.ToDatetime(tzinfo=UTC),
        "restarts": dagger.restarts + 1,
    }
    starved = dagger.last_error is not None and dagger.last_error.reason == OUT_OF_MEMORY
    return changes | ({"starved": dagger.phase_time} if starved else {})


def record_outage(dagger: Dagger, fact: events_pb2.SinkSkipped, _: datetime) -> Changes:
    """Record a sink's newest outage as outstanding; a replay requested for an older one stays settled."""
    of = fact.outage
    newest = {outage.sink: outage for outage in dagger.outages}
    if of.sink in newest and not newest[of.sink].is_before(of):
        return IgnoredFact("that outage is known")
    newest[of.sink] = Outage(sink=of.sink, generation=of.generation, number=of.number)
    return {"outages": tuple(newest[sink] for sink in sorted(newest))}


def start_replay(dagger: Dagger, fact: events_pb2.ReplayStarted, _: datetime) -> Changes:
    """Record the process that runs its replay, and where: what it printed is there once it has ended."""
    host = fact.process.host
    return _change_replay(
        dagger, fact, lambda replay: replace(replay, process=fact.process, host=host, waits=None)
    )


def delay_replay(dagger: Dagger, fact: events_pb2.ReplayWaits, _: datetime) -> Changes:
    """Record why the process of its replay is not launched now."""
    return _change_replay(dagger, fact, lambda replay: replace(replay, waits=fact.error))


def record_replay_exit(dagger: Dagger, fact: events_pb2.ReplayExited, time: datetime) -> Changes:
    """Record that the process of its replay is gone before the replay has finished."""
    error = fact.error if fact.HasField("error") else None
    return _change_replay(
        dagger,
        fact,
        lambda replay: replace(
            replay, process=None, exits=replay.exits + 1, exit_time=time, last_error=error
        ),
    )


def finish_replay(dagger: Dagger, fact: events_pb2.ReplayFinished, _: datetime) -> Changes:
    """Record the outcome of its replay."""
    return _change_replay(
        dagger, fact, lambda replay: replace(replay, process=None, waits=None, finished=fact)
    )


def _change_replay(dagger: Dagger, fact: Any, change: Callable[[Replay], Replay]) -> Changes:
    """Change its replay, where the fact is about the newest and that has not finished."""
    replay = dagger.replay
    if replay is None or replay.id != fact.replay_id:
        return IgnoredFact("it speaks of a replay that is not the newest")
    return {"replay": change(replay)} if replay.finished is None else IgnoredFact("the replay has finished")


def reach_desired(desired: Desired) -> Callable[[Dagger, Any, datetime], Changes]:
    """Return the change of a fact that says desired state is reached; ignored once another state is
    desired.
    """
    other, shadow = (
        IgnoredFact("it is not what is asked any more"),
        IgnoredFact("its shadow is not proven dead"),
    )

    def changes(dagger: Dagger, _: Any, __: datetime) -> Changes:
        if dagger.desired != desired:
            return other
        return {"attempt": 0} if dagger.shadow is None else shadow

    return changes
