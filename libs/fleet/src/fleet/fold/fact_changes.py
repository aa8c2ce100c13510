"""What a fact changes of a dagger beside its phase: what rows of `fleet.fold.facts` refer to. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2

from daggerspec.exits import OUT_OF_MEMORY
from fleet.fold.dagger import Dagger
from fleet.fold.phases import STOPPING, Desired
from fleet.fold.replay import Outage, Replay


@dataclass(frozen=True, slots=True)
class Ignored:
    """A fact that changes nothing, and why."""

    why: str


Changes: TypeAlias = dict[str, Any] | Ignored


def nothing(_: Dagger, __: Any, ___: datetime) -> Changes:
    """Nothing but its phase."""
    return {}


def intended(dagger: Dagger, fact: events_pb2.LaunchIntended, _: datetime) -> Changes:
    """A launch begins: what was known of the one before is not of it."""
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return Ignored("it is not asked to run")
    if fact.version != dagger.version:
        return Ignored(f"it is at version {dagger.version}, not {fact.version}")
    if dagger.shadow is not None:
        return Ignored("its shadow is not proven dead")
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
    }


def runs(dagger: Dagger, _: events_pb2.Running | events_pb2.Recovered, __: datetime) -> Changes:
    """It gets on. What it was to begin anew it has begun, unless that was asked for since its launch."""
    changes = {"ran": True, "last_error": None, "good_version": dagger.observed_version}
    begun = 0 if dagger.observed_version >= dagger.from_start else dagger.from_start
    return changes | {"ran_on": dagger.host or dagger.ran_on, "from_start": begun}


def failed(_: Dagger, fact: events_pb2.LaunchFailed | events_pb2.Failed, __: datetime) -> Changes:
    """Why it does not run."""
    return {"last_error": fact.error}


def exited(dagger: Dagger, fact: events_pb2.Exited, time: datetime) -> Changes:
    """Its driver has ended."""
    if dagger.phase == STOPPING and dagger.driver is None:
        return Ignored("its exit is known")
    ended = gateway_pb2.DriverExit(generation=dagger.generation)
    ended.time.FromDatetime(time)
    if fact.HasField("code"):
        ended.code = fact.code
    if fact.HasField("error"):
        ended.error.CopyFrom(fact.error)
    last_error = fact.error if fact.HasField("error") else dagger.last_error
    return {"driver": None, "last_error": last_error, "last_exit": ended}


def relaunch_scheduled(dagger: Dagger, fact: events_pb2.RelaunchScheduled, _: datetime) -> Changes:
    """The next attempt, and when."""
    if dagger.not_before is not None:
        return Ignored("the next attempt is scheduled")
    changes = {
        "attempt": fact.attempt,
        "not_before": fact.not_before.ToDatetime(tzinfo=UTC),
        "restarts": dagger.restarts + 1,
    }
    starved = dagger.last_error is not None and dagger.last_error.reason == OUT_OF_MEMORY
    return changes | ({"starved": dagger.phase_time} if starved else {})


def skipped(dagger: Dagger, fact: events_pb2.SinkSkipped, _: datetime) -> Changes:
    """A replay of a sink's newest outage is outstanding; one that was asked for already stays so."""
    of = fact.outage
    known = {outage.sink: outage for outage in dagger.outages}
    if of.sink in known and not known[of.sink].is_before(of):
        return Ignored("that outage is known")
    known[of.sink] = Outage(sink=of.sink, generation=of.generation, number=of.number)
    return {"outages": tuple(known[sink] for sink in sorted(known))}


def replay_started(dagger: Dagger, fact: events_pb2.ReplayStarted, _: datetime) -> Changes:
    """The process of its replay runs."""
    return _of_replay(dagger, fact, lambda replay: replace(replay, process=fact.process, waits=None))


def replay_waits(dagger: Dagger, fact: events_pb2.ReplayWaits, _: datetime) -> Changes:
    """The process of its replay is not launched now."""
    return _of_replay(dagger, fact, lambda replay: replace(replay, waits=fact.error))


def replay_exited(dagger: Dagger, fact: events_pb2.ReplayExited, time: datetime) -> Changes:
    """The process of its replay is gone, and the replay has not finished."""
    error = fact.error if fact.HasField("error") else None
    return _of_replay(
        dagger,
        fact,
        lambda replay: replace(
            replay, process=None, exits=replay.exits + 1, exit_time=time, last_error=error
        ),
    )


def replay_finished(dagger: Dagger, fact: events_pb2.ReplayFinished, _: datetime) -> Changes:
    """No more is to come of its replay."""
    return _of_replay(dagger, fact, lambda replay: replace(replay, process=None, waits=None, finished=fact))


def _of_replay(dagger: Dagger, fact: Any, change: Callable[[Replay], Replay]) -> Changes:
    """Its replay as the fact leaves it, where that is the newest and goes on."""
    replay = dagger.replay
    if replay is None or replay.id != fact.replay_id:
        return Ignored("it speaks of a replay that is not the newest")
    return {"replay": change(replay)} if replay.finished is None else Ignored("the replay has finished")


def at_rest(asked: Desired) -> Callable[[Dagger, Any, datetime], Changes]:
    """What was asked is so, if it is still asked."""
    other, shadow = Ignored("it is not what is asked any more"), Ignored("its shadow is not proven dead")

    def changes(dagger: Dagger, _: Any, __: datetime) -> Changes:
        if dagger.desired != asked:
            return other
        return {"attempt": 0} if dagger.shadow is None else shadow

    return changes
