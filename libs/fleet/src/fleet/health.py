"""What is wrong with a driver that lives, from its last heartbeat and the time since: why it does not run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from fleet.dagger import Dagger
from fleet.observation import Heartbeat, Observation, Policy, Presence
from fleet.phases import RUNNING, STARTING

START_TIMEOUT: Final = "START_TIMEOUT"
DRIVER_REASONS: Final = ("REFERENCE_STALE", "LATE_ROWS", "NO_OUTPUT", "QUARANTINE_FLOOD")
"""Codes of the warnings by which a driver says itself that not all is well."""
# Nothing is shown as RUNNING ten seconds and three triggers after its last progress; two are for the showing.
_LATE: Final = timedelta(seconds=8)


def degradation_reasons(dagger: Dagger, now: datetime, observation: Observation, policy: Policy) -> list[str]:
    """What is wrong with a living driver, UPPER_SNAKE, in a fixed order."""
    heartbeat = observation.heartbeat
    quiet = now - (observation.quiet_since if heartbeat else max(observation.quiet_since, dagger.phase_time))
    remote = observation.presence is Presence.REMOTE
    if heartbeat is None and (dagger.phase == STARTING if remote else not dagger.ran):
        if quiet < policy.start_timeout:
            return []
        return ["NO_HEARTBEAT" if remote else START_TIMEOUT]
    if quiet >= policy.silence:
        return ["NO_HEARTBEAT"]
    if heartbeat is None:
        unheard = dagger.phase == RUNNING and quiet >= _patience(dagger)
        return ["NO_PROGRESS"] if unheard else list(dagger.reasons)
    reasons = []
    if (behind := _behind(dagger, heartbeat, quiet)) is not None:
        reasons.append(behind)
    if heartbeat.retrying:
        reasons += ["SINK_RETRYING", *sorted({each.reason for each in heartbeat.retrying if each.reason})]
    reasons += [code for code in DRIVER_REASONS if code in driver_warnings(heartbeat)]
    if dagger.phase == STARTING and heartbeat.state == Heartbeat.STATE_STARTING and not reasons:
        late = now - dagger.phase_time >= policy.start_timeout
        return ["NO_PROGRESS"] if late and not heartbeat.running_batch_age_ms else []
    return reasons


def driver_warnings(heartbeat: Heartbeat) -> dict[str, str]:
    """The driver's warnings by their code: the text behind it. Of one code the first counts."""
    texts: dict[str, str] = {}
    for warning in heartbeat.warnings:
        code, _, text = warning.partition(" ")
        texts.setdefault(code.removesuffix(":"), text)
    return texts


def _behind(dagger: Dagger, heartbeat: Heartbeat, quiet: timedelta) -> str | None:
    """Why it cannot be called RUNNING: it neither committed nor found its source empty for too long.

    The age is told by the driver's clock, and since its heartbeat by ours.
    """
    if not heartbeat.HasField("last_progress"):
        return None
    told = timedelta(milliseconds=heartbeat.time.ToMilliseconds() - heartbeat.last_progress.ToMilliseconds())
    if told + quiet < _patience(dagger):
        return None
    longest = max(_patience(dagger), 5 * timedelta(milliseconds=heartbeat.batch_duration_ms))
    running = timedelta(milliseconds=heartbeat.running_batch_age_ms)
    return "BATCH_STUCK" if running and running + quiet >= longest else "NO_PROGRESS"


def _patience(dagger: Dagger) -> timedelta:
    """How old the last progress may be of what is called RUNNING."""
    trigger = dagger.spec.trigger.ToTimedelta() if dagger.spec.HasField("trigger") else timedelta(seconds=1)
    return 3 * trigger + _LATE
