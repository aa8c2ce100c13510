"""Decide what the agent of a host does next about a dagger there, while a scheduler elsewhere leads. Pure.

The leader decides and writes intents and stops; the agent carries them out, and says what only it can know.
Asked after every record and every tick, it answers the one next thing to do, or None.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from daggers.v1 import events_pb2, gateway_pb2

from daggerspec.exits import ENDED_WITH_DEPLOYMENT
from fleet.decide import shadowing
from fleet.decide.observation import Observation, Policy, Presence
from fleet.decide.reconcile import Drain, Kill, build_exited
from fleet.decide.shadowing import LaunchShadow
from fleet.fold.dagger import Dagger
from fleet.fold.phases import STOPPING, UNREACHABLE
from fleet.health.degradation import Reason

ABANDONED: Final = "LAUNCH_ABANDONED"


@dataclass(frozen=True, slots=True)
class Submit:
    """Launch what the newest intent says, once."""


Step: TypeAlias = (
    Submit
    | Drain
    | Kill
    | LaunchShadow
    | shadowing.Step
    | events_pb2.Launched
    | events_pb2.LaunchFailed
    | events_pb2.Exited
)


def next_step(
    dagger: Dagger, *, observation: Observation, is_own: bool, now: datetime, policy: Policy
) -> Step | None:
    """Return what this host's agent does next about a dagger whose newest launch is of this host.

    is_own: whether the newest intent, of a launch or of a shadow, is this agent's to launch: written by a
    leader elsewhere in the agent's own epoch, and not tried yet. Another one is never launched: who was to do
    it might still be about to.
    """
    if (step := _attend_shadow(dagger, observation, is_own=is_own, now=now, policy=policy)) is not None:
        return step
    if dagger.unanswered and not dagger.host:
        return None  # an older leader's, which launches itself
    if observation.driver is not None and (dagger.driver is None or not dagger.driver.pid):
        return events_pb2.Launched(driver=observation.driver, adopted=True)
    if dagger.unanswered:
        return _answer(dagger, is_own=is_own)
    if dagger.driver is None and dagger.phase != UNREACHABLE:
        return None
    if observation.presence is Presence.GONE:
        return build_exited(dagger, observation.exit or events_pb2.Exited(), observation)
    if observation.presence is Presence.REMOTE:
        return None
    if dagger.phase == STOPPING and dagger.stop_issued:
        return Kill() if dagger.stop_issued == events_pb2.STOP_MODE_NOW else Drain()
    if Reason.START_TIMEOUT in dagger.reasons and observation.heartbeat is None:
        return Kill()
    return None


def _attend_shadow(
    dagger: Dagger, observation: Observation, *, is_own: bool, now: datetime, policy: Policy
) -> LaunchShadow | shadowing.Step | None:
    """Launch the shadow of a dagger, or go on with it as a leader does on its own host."""
    shadow, seen = dagger.shadow, observation.shadow
    if shadow is None or seen is None:
        return None
    is_launched = shadow.driver is not None or seen.driver is not None
    if is_own and not is_launched and shadowing.is_wanted(dagger, shadow):
        return LaunchShadow()
    # Nobody takes it over: whichever leader intended it, this host's agent has it.
    return shadowing.next_step(
        dagger, shadow, now=now, epoch=shadow.epoch, observation=observation, policy=policy
    )


def _answer(dagger: Dagger, *, is_own: bool) -> Submit | events_pb2.LaunchFailed:
    """Launch an intent of which no driver lives, or say that nothing came of it."""
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return _build_failure(ABANDONED, "it was asked to stop before its driver was launched")
    if is_own:
        return Submit()
    return _build_failure(
        ENDED_WITH_DEPLOYMENT, "the scheduler of its host was started anew before it was launched"
    )


def _build_failure(reason: str, detail: str) -> events_pb2.LaunchFailed:
    error = events_pb2.DaggerError(
        domain=events_pb2.ERROR_DOMAIN_EXTERNAL, reason=reason, detail=detail, retryable=True
    )
    return events_pb2.LaunchFailed(error=error)
