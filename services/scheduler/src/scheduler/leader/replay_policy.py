"""Decides about the replay of a dagger (ADR 95): level-triggered, as `reconcile`. Pure.

An attempt is intended in the log before it is started: `ReplayStarted` with the host and no process. The
sequence of that record is the attempt's number, and fences all attempts before it. An intent that nobody
answered is never submitted; its process is adopted if it lives, and a new attempt is intended if none does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2

from daggerspec import exits
from fleet import Dagger
from fleet.decide.backoff import delay
from fleet.fold.quotas import Full
from fleet.fold.replay import Replay

ATTEMPTS: Final = 5
"""Attempts that end unfinished before a replay is given up."""
_FIRST_DELAY: Final = timedelta(seconds=1)
_LONGEST_DELAY: Final = timedelta(minutes=1)


ABANDONED: Final = "ATTEMPT_ABANDONED"


@dataclass(frozen=True, slots=True)
class Start:
    """Intend an attempt, read it back, and start it; as an agent, start the one that is intended."""


@dataclass(frozen=True, slots=True)
class End:
    """Kill the processes of these attempts."""

    processes: tuple[events_pb2.DriverHandle, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayObservation:
    """Observation of the attempts of one replay, on this host."""

    alive: tuple[events_pb2.DriverHandle, ...] = ()
    """Those that live, the newest last."""
    strays: tuple[events_pb2.DriverHandle, ...] = ()
    """Attempts of other replays of the dagger that live."""
    left: events_pb2.Exited | None = None
    """Exit of the attempt that the log knows; None where it is on another host."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """Counts of that attempt, once it has finished."""
    full: Full | None = None
    """Reason why its host has no room for an attempt now; None: it has."""


Action: TypeAlias = (
    Start
    | End
    | events_pb2.ReplayStarted
    | events_pb2.ReplayWaits
    | events_pb2.ReplayExited
    | events_pb2.ReplayFinished
)


def next_step(dagger: Dagger, observation: ReplayObservation, *, host: str, now: datetime) -> Action | None:
    """Return what the leading scheduler of this host does next about a dagger's replay; None: nothing, or
    wait.
    """
    replay = dagger.replay
    if observation.strays:
        return End(observation.strays)
    if replay is None or replay.finished is not None:
        return End(observation.alive) if observation.alive else None
    if dagger.desired == gateway_pb2.DESIRED_DELETED:
        return End(observation.alive) if observation.alive else _give_up(replay, _build_deleted_error())
    if observation.alive:
        *older, newest = observation.alive
        if older:
            return End(tuple(older))
        if replay.process != newest:
            return events_pb2.ReplayStarted(replay_id=replay.id, process=newest, adopted=True)
        return None
    process = replay.process
    if process is not None and process.host == host and process.pid and observation.left is not None:
        return _conclude(replay, observation.left, observation.outcomes)
    if process is None and replay.exit_time is not None:
        wait = delay(dagger.name, max(replay.exits, 1), base=_FIRST_DELAY, cap=_LONGEST_DELAY)
        if now < replay.exit_time + wait:
            return None
    if observation.full is None:
        return Start()
    if replay.waits is not None and replay.waits.reason == observation.full.reason:
        return None  # said once; started when there is room
    return events_pb2.ReplayWaits(replay_id=replay.id, error=observation.full.error)


def next_agent_step(
    dagger: Dagger, observation: ReplayObservation, *, host: str, is_own: bool, now: datetime
) -> Action | None:
    """Return what the agent of this host does next about a dagger's replay, while another host's leads.

    is_own: whether the newest intent is this agent's to start: the newest leader's, of its own epoch, and not
    tried yet.
    """
    replay = dagger.replay
    is_here = replay is not None and replay.process is not None and replay.process.host == host
    if replay is None or not is_here:
        strays = (*observation.strays, *observation.alive)
        return End(strays) if strays else None
    action = next_step(dagger, observation, host=host, now=now)
    if not isinstance(action, Start) or is_own:
        return action
    if not replay.unanswered:
        return None
    text = "the scheduler of its host, or the leader, was replaced before it was launched"
    error = events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason=ABANDONED, detail=text, retryable=True
    )
    return events_pb2.ReplayExited(replay_id=replay.id, error=error)


def is_wanted(dagger: Dagger | None, replay_id: str, host: str) -> bool:
    """Tell whether an attempt of this replay may live on this host, as far as the log says."""
    replay = dagger.replay if dagger is not None else None
    if dagger is None or replay is None or replay.id != replay_id or replay.finished is not None:
        return False
    is_elsewhere = replay.process is not None and replay.process.host not in ("", host)
    return not is_elsewhere and dagger.desired != gateway_pb2.DESIRED_DELETED


def _conclude(replay: Replay, left: events_pb2.Exited, outcomes: Mapping[str, int]) -> Action:
    """Build the fact of an attempt's end: of the replay, if all is done or nothing can help."""
    if left.HasField("code") and left.code == 0:
        return events_pb2.ReplayFinished(replay_id=replay.id, outcomes=outcomes)
    error = left.error
    is_fenced = left.HasField("code") and left.code == exits.FENCED
    if replay.exits + 1 >= ATTEMPTS or not (error.retryable or is_fenced):
        return _give_up(replay, error)
    gone = events_pb2.ReplayExited(replay_id=replay.id, error=error)
    if left.HasField("code"):
        gone.code = left.code
    return gone


def _give_up(replay: Replay, error: events_pb2.DaggerError) -> events_pb2.ReplayFinished:
    return events_pb2.ReplayFinished(replay_id=replay.id, error=error)


def _build_deleted_error() -> events_pb2.DaggerError:
    return events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_USER,
        reason="DAGGER_DELETED",
        detail="the dagger was deleted meanwhile",
    )
