"""Reconciles a dagger with desired state: level-triggered, called after every record and after a restart.

`next_action` looks at all that is known and returns the one next action, or None. The facts that it returns
carry no epoch, name or generation yet: the scheduler fills those in when it writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2

from daggerspec.anew import ROOT_MISSING
from daggerspec.exits import (
    ENDED_WITH_DEPLOYMENT,
    NO_EXECUTORS,
    OUT_OF_MEMORY,
    PROCESS_LOST,
    is_deployments,
    left_no_word,
)
from daggerspec.priority import is_critical
from fleet.decide import autoreplay, shadowing
from fleet.decide.backoff import delay
from fleet.decide.observation import Observation, Policy, Presence
from fleet.decide.placement import HOST_LACKS
from fleet.decide.shadowing import EndShadow, LaunchShadow
from fleet.fold.dagger import Dagger
from fleet.fold.facts import Fact
from fleet.fold.phases import (
    BACKING_OFF,
    DEGRADED,
    DELETED,
    PENDING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNREACHABLE,
)
from fleet.health.degradation import Evidence, Heartbeat, Reason, degradation_reasons

HOST_LOST: Final = "HOST_LOST"
# What ran out of memory does so again: its state comes back from the checkpoint.
_OUT_OF_MEMORY_ATTEMPTS: Final = 3
# A disk, a cluster, and what a host has not are waited for, however long it takes.
_WAITED_FOR: Final = frozenset({ROOT_MISSING, NO_EXECUTORS, HOST_LACKS})


@dataclass(frozen=True, slots=True)
class Launch:
    """Launch the newest version, by the launch protocol."""

    host: str = ""
    """Host whose agent launches it; empty: this one."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Ask the driver to finish its batch and exit; asked once or often is the same."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill every process of the driver."""


Action: TypeAlias = (
    Fact | Launch | Drain | Kill | LaunchShadow | EndShadow | events_pb2.QuarantineReplayRequested
)


def next_action(
    dagger: Dagger, *, now: datetime, epoch: int, observation: Observation, policy: Policy
) -> Action | None:
    """Return what the scheduler of `epoch` does next about the dagger; None: nothing, or wait."""
    heartbeat = observation.heartbeat
    return (
        autoreplay.find_new_outage(dagger, heartbeat)
        or _next_driver_action(dagger, now, epoch, observation, policy)
        or autoreplay.next_request(dagger, heartbeat, now=now)
    )


def _next_driver_action(
    dagger: Dagger, now: datetime, epoch: int, observation: Observation, policy: Policy
) -> Action | None:
    """Return what is next about its driver and its shadow."""
    if dagger.shadow is not None:
        step = shadowing.next_step(
            dagger, dagger.shadow, now=now, epoch=epoch, observation=observation, policy=policy
        )
        if step is not None:
            return step
    if dagger.unanswered:
        return _answer_intent(dagger, now, observation, policy)
    if dagger.driver is None and dagger.phase != UNREACHABLE:
        return _without_driver(dagger, now, observation, policy)
    if dagger.driver is None and (adopted := _adopt(observation)) is not None:
        return adopted
    if dagger.confirmed_dead:
        error = _error(HOST_LOST, "its host is gone, says on-call")
        return build_exited(dagger, events_pb2.Exited(error=error), observation)
    if observation.host_gone and observation.presence is Presence.REMOTE:
        return build_exited(dagger, events_pb2.Exited(error=_host_lost(dagger, observation)), observation)
    if observation.presence is Presence.GONE:
        return build_exited(dagger, observation.exit or events_pb2.Exited(), observation)
    if observation.presence is Presence.REMOTE:
        return _elsewhere(dagger, now, observation, policy)
    if dagger.driver is not None and dagger.epoch != epoch:
        return events_pb2.Launched(driver=observation.driver or dagger.driver, adopted=True)
    return (
        _new_ui(dagger, observation)
        or _stop(dagger, now, observation, policy)
        or _health(dagger, now, observation, policy)
        or _new_references(dagger, observation)
    )


def _new_references(dagger: Dagger, observation: Observation) -> Action | None:
    """Report the versions of reference tables, whenever the heartbeat has others than the log."""
    versions = dict(observation.heartbeat.references) if observation.heartbeat else {}
    if not versions or dagger.phase not in (RUNNING, DEGRADED) or versions == dict(dagger.references):
        return None
    return events_pb2.ReferencesLoaded(versions=versions)


def _new_ui(dagger: Dagger, observation: Observation) -> Action | None:
    """Report the launch again with its Spark UI, whose address is known only once the driver has bound a
    port.
    """
    url = observation.heartbeat.ui_url if observation.heartbeat else ""
    if dagger.driver is None or url in ("", dagger.driver.ui_url):
        return None
    launched = events_pb2.Launched(driver=dagger.driver)
    launched.driver.ui_url = url
    return launched


def _elsewhere(dagger: Dagger, now: datetime, observation: Observation, policy: Policy) -> Action | None:
    """Decide about a driver of another host: its agent carries out what the log says. Without an agent that
    is heard, health is all there is to say.
    """
    if not observation.agent:
        return _health(dagger, now, observation, policy)
    if dagger.driver is None:
        return None  # its agent says what became of it
    return (
        _new_ui(dagger, observation)
        or _stop_elsewhere(dagger, now, observation, policy)
        or _health(dagger, now, observation, policy)
        or _new_references(dagger, observation)
    )


def _host_lost(dagger: Dagger, observation: Observation) -> events_pb2.DaggerError:
    host = (dagger.driver.host if dagger.driver is not None else dagger.host) or "?"
    if observation.rebooted:
        return _error(ENDED_WITH_DEPLOYMENT, f"its host {host} was booted anew")
    return _error(HOST_LOST, f"its host {host} is gone")


def _answer_intent(dagger: Dagger, now: datetime, observation: Observation, policy: Policy) -> Action | None:
    """Answer an intent of which no fact says what became. An inherited intent is never submitted."""
    if (adopted := _adopt(observation)) is not None:
        return adopted
    if observation.presence is Presence.REMOTE and not observation.host_gone and dagger.host:
        if now - dagger.phase_time < policy.answer:
            return None  # the agent that it names says what becomes of it
        if not observation.fences:
            return events_pb2.Unreachable()
    wanted, full = dagger.desired == gateway_pb2.DESIRED_RUNNING, observation.full
    if wanted and full is None:
        return Launch(observation.place)  # a new intent fences whatever the old one may still become
    if observation.presence is Presence.REMOTE:
        return events_pb2.Unreachable()
    if wanted and full is not None:
        return events_pb2.LaunchFailed(error=full.error)
    return events_pb2.LaunchFailed(
        error=_error("LAUNCH_ABANDONED", "it was asked to stop before its driver was launched")
    )


def _adopt(observation: Observation) -> events_pb2.Launched | None:
    """Adopt the driver of an unanswered intent: a process of this host; or, of another host, a driver that
    its heartbeat proves, and whose host that names.
    """
    if observation.driver is not None:
        return events_pb2.Launched(driver=observation.driver, adopted=True)
    if observation.presence is not Presence.REMOTE or observation.heartbeat is None:
        return None
    return events_pb2.Launched(driver=events_pb2.DriverHandle(host=observation.heartbeat.host), adopted=True)


def _without_driver(dagger: Dagger, now: datetime, observation: Observation, policy: Policy) -> Action | None:
    if dagger.phase == DELETED or dagger.shadow is not None:
        return None  # nothing else of it is launched, or at rest, while it has a shadow
    if dagger.desired == gateway_pb2.DESIRED_DELETED:
        return events_pb2.Deleted()
    if dagger.desired == gateway_pb2.DESIRED_STOPPED:
        return None if dagger.phase == STOPPED else events_pb2.Stopped()
    if dagger.phase not in (PENDING, BACKING_OFF, STOPPING):
        return None
    if dagger.phase == BACKING_OFF:
        if dagger.not_before is None:
            return _next_attempt(dagger, now, policy)
        if now < dagger.not_before:
            return None
    full = observation.full
    if full is None:
        return Launch(observation.place)
    if dagger.last_error is not None and dagger.last_error.reason == full.reason:
        return None  # said once; launched when there is room
    return events_pb2.LaunchFailed(error=full.error)


def _next_attempt(dagger: Dagger, now: datetime, policy: Policy) -> Action:
    error = dagger.last_error or _error("UNKNOWN", "its driver ended and left no reason")
    if is_deployments(error):  # no attempt, and nothing to wait for
        return _relaunch(dagger.attempt, now)
    if error.reason == PROCESS_LOST and dagger.ran:  # it ran well until others of its process ended it
        return _relaunch(dagger.attempt, now)
    attempt = dagger.attempt + 1
    if not error.retryable:
        return events_pb2.Failed(error=error)
    few = min(_OUT_OF_MEMORY_ATTEMPTS, policy.attempts)
    attempts = few if error.reason == OUT_OF_MEMORY else policy.attempts
    if attempt > attempts and error.reason not in _WAITED_FOR:
        given_up = events_pb2.DaggerError(
            domain=error.domain,
            reason=error.reason,
            detail=f"given up after {attempts} relaunches: {error.detail}",
        )
        return events_pb2.Failed(error=given_up)
    wait = delay(dagger.name, attempt, base=policy.first_delay, cap=policy.longest_delay)
    if error.reason == HOST_LOST and is_critical(dagger.spec):
        wait = timedelta(0)  # the others wait, so that it finds room
    return _relaunch(attempt, now + wait)


def _relaunch(attempt: int, not_before: datetime) -> events_pb2.RelaunchScheduled:
    scheduled = events_pb2.RelaunchScheduled(attempt=attempt)
    scheduled.not_before.FromDatetime(not_before)
    return scheduled


def build_exited(dagger: Dagger, left: events_pb2.Exited, observation: Observation) -> events_pb2.Exited:
    """Build the exit with its reason: requested, of the deployment, killed by the scheduler, or as the driver
    left it.
    """
    exited = events_pb2.Exited()
    exited.CopyFrom(left)
    if observation.heartbeat is not None and observation.heartbeat.HasField("last_commit"):
        exited.last_commit.CopyFrom(observation.heartbeat.last_commit)
    if dagger.phase == STOPPING:
        if exited.code <= 0:  # drained or killed, as asked; any other end of a drain keeps its reason
            exited.ClearField("error")
    elif observation.deployment and left_no_word(exited):
        exited.error.CopyFrom(_error(ENDED_WITH_DEPLOYMENT, observation.deployment))
        exited.ClearField("suspect")
    elif Reason.START_TIMEOUT in dagger.reasons:
        text = "it gave no sign of life after its launch and was killed"
        if observation.overload:
            exited.error.CopyFrom(_error(Reason.HOST_OVERLOADED, f"{text}: {observation.overload}"))
        else:
            exited.error.CopyFrom(_error(Reason.START_TIMEOUT, text))
    elif not exited.HasField("error"):
        exited.error.CopyFrom(_error("STOPPED_UNASKED", "it ended cleanly, but nobody had asked it to"))
    return exited


def _stop(dagger: Dagger, now: datetime, observation: Observation, policy: Policy) -> Action | None:
    """Stop what is asked to stop, and, in its turn, what runs an older version than is asked; but where a
    shadow can take its place, when that does.
    """
    if shadowing.may_begin(dagger, observation):
        return LaunchShadow()
    if shadowing.holds_back(dagger, now, policy):
        return None
    if dagger.desired == gateway_pb2.DESIRED_RUNNING:
        is_due = not dagger.current and observation.has_turn
        mode = events_pb2.STOP_MODE_DRAIN if is_due else events_pb2.STOP_MODE_UNSPECIFIED
    else:
        mode = dagger.stop_mode or events_pb2.STOP_MODE_DRAIN
    if dagger.phase != STOPPING:
        return events_pb2.StopIssued(mode=mode) if mode else None
    # At a boundary it ends by itself, and has been left to it for as long.
    grace = policy.grace if dagger.shadow is None else 2 * policy.grace
    if dagger.stop_issued == events_pb2.STOP_MODE_NOW or now - dagger.phase_time >= grace:
        return Kill()
    if mode == events_pb2.STOP_MODE_NOW:
        return events_pb2.StopIssued(mode=mode)
    return Drain()


def _stop_elsewhere(
    dagger: Dagger, now: datetime, observation: Observation, policy: Policy
) -> LaunchShadow | events_pb2.StopIssued | None:
    """Write how the agent of another host is to stop a driver, as `_stop` stops one of this host."""
    if shadowing.may_begin(dagger, observation):
        return LaunchShadow()
    if shadowing.holds_back(dagger, now, policy):
        return None
    wanted = dagger.desired == gateway_pb2.DESIRED_RUNNING
    if dagger.phase != STOPPING and wanted and (dagger.current or not observation.has_turn):
        return None
    mode = events_pb2.STOP_MODE_DRAIN if wanted else dagger.stop_mode or events_pb2.STOP_MODE_DRAIN
    grace = policy.grace if dagger.shadow is None else 2 * policy.grace
    if dagger.phase == STOPPING and now - dagger.phase_time >= grace:
        mode = events_pb2.STOP_MODE_NOW
    is_issued = dagger.phase == STOPPING and dagger.stop_issued in (mode, events_pb2.STOP_MODE_NOW)
    return None if is_issued else events_pb2.StopIssued(mode=mode)


def _health(dagger: Dagger, now: datetime, observation: Observation, policy: Policy) -> Action | None:
    here = observation.presence is not Presence.REMOTE
    remote = not here and not observation.agent
    if Reason.START_TIMEOUT in dagger.reasons and observation.heartbeat is None and here:
        return Kill()
    evidence, phase_age = _evidence(dagger, now, observation), now - dagger.phase_time
    reasons = degradation_reasons(dagger, evidence, phase_age=phase_age, remote=remote, limits=policy.limits)
    if remote and Reason.NO_HEARTBEAT in reasons:
        return None if dagger.phase == UNREACHABLE else events_pb2.Unreachable()
    if dagger.phase == STOPPING:
        return None
    if reasons:
        is_reported = dagger.phase == DEGRADED and set(reasons) == set(dagger.reasons)
        return None if is_reported else events_pb2.Degraded(reasons=reasons)
    progressing = observation.heartbeat is not None and observation.heartbeat.state == Heartbeat.STATE_RUNNING
    if dagger.phase == STARTING:
        return _build_running(observation) if progressing else None
    if dagger.phase == UNREACHABLE:
        if remote and observation.heartbeat is None:
            return None
        return events_pb2.Recovered() if progressing else events_pb2.Degraded(reasons=[Reason.NO_PROGRESS])
    if dagger.phase == DEGRADED:
        has_lasted = now - dagger.phase_time >= policy.hold
        return events_pb2.Recovered() if progressing and has_lasted else None
    if dagger.phase == RUNNING and dagger.attempt and _settled(dagger, now, policy):
        return events_pb2.Settled()
    return None


def _build_running(observation: Observation) -> events_pb2.Running:
    running = events_pb2.Running()
    if observation.heartbeat is not None and observation.heartbeat.HasField("last_commit"):
        running.last_commit.CopyFrom(observation.heartbeat.last_commit)
    return running


def _evidence(dagger: Dagger, now: datetime, observation: Observation) -> Evidence:
    """Build the scheduler's evidence. Without a heartbeat, silence counts from the begin of the phase."""
    heartbeat, since = observation.heartbeat, observation.quiet_since
    if heartbeat is None:
        return Evidence(heartbeat=None, age=timedelta(0), quiet=now - max(since, dagger.phase_time))
    return Evidence(heartbeat=heartbeat, age=now - since, quiet=now - since)


def _settled(dagger: Dagger, now: datetime, policy: Policy) -> bool:
    """Tell whether it has run for long enough; after an end by memory that takes longer, for its state grows
    again.
    """
    fed = dagger.starved is None or now - dagger.starved >= policy.settle_starved
    return fed and now - dagger.phase_time >= policy.settle


def _error(reason: str, detail: str) -> events_pb2.DaggerError:
    domain = events_pb2.ERROR_DOMAIN_EXTERNAL
    return events_pb2.DaggerError(domain=domain, reason=reason, detail=detail, retryable=True)
