"""What is wrong with a dagger, judged from all that is known of it. Pure.

A finding is made only on evidence. Where there is none (the monitor has just started, cannot hear, or another
condition says it better), nothing is found, and an incident stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from daggers.v1 import alerts_pb2, events_pb2, gateway_pb2

from fleet import Dagger
from fleet.phases import (
    BACKING_OFF,
    DEGRADED,
    DELETED,
    FAILED,
    PENDING,
    RUNNING,
    STARTING,
    STOPPED,
    STOPPING,
    UNREACHABLE,
)
from health_monitor.watch import Watch

Condition: TypeAlias = "alerts_pb2.AlertCondition.ValueType"
Severity: TypeAlias = "alerts_pb2.AlertSeverity.ValueType"

SEVERITIES: Final[Mapping[Condition, Severity]] = {
    alerts_pb2.ALERT_CONDITION_FAILED: alerts_pb2.ALERT_SEVERITY_CRITICAL,
    alerts_pb2.ALERT_CONDITION_UNREACHABLE: alerts_pb2.ALERT_SEVERITY_CRITICAL,
    alerts_pb2.ALERT_CONDITION_NO_PROGRESS: alerts_pb2.ALERT_SEVERITY_ERROR,
    alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE: alerts_pb2.ALERT_SEVERITY_WARNING,
}
"""Every condition that is watched, and how soon a person has to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is still healthy."""

    silence: timedelta = timedelta(seconds=30)
    """Without a heartbeat for this long, its Spark driver is asked whether it lives."""
    progress: timedelta = timedelta(minutes=2)
    """Longest time without a committed batch or an empty poll; at least three triggers."""
    quarantine_share: float = 0.01
    """Share of the records read that may be set aside, over `watch.WINDOW`."""
    quarantine_records: int = 10
    """Fewer records than this are never too many."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Evidence that a condition holds, or that it does not."""

    ailing: bool
    summary: str
    """One sentence for a person: what is wrong, or why it is over."""
    since: datetime
    """Since when, as far as is known."""
    final: bool = False
    """Nothing is asked of the dagger any more: an incident is over at once."""


def diagnose(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None, limits: Limits
) -> dict[Condition, Finding]:
    """The findings about a dagger, by condition; a condition that is not in it cannot be judged now.

    `hearing`: since when silence means something (`Hearing.begin`).
    """
    if dagger.phase in (STOPPED, DELETED):
        over = "it was deleted" if dagger.phase == DELETED else "it was stopped"
        return dict.fromkeys(SEVERITIES, Finding(False, over, dagger.phase_time, final=True))
    quiet = _quiet(watch, now, hearing)
    silent = quiet is not None and quiet >= limits.silence
    unreachable = _unreachable(dagger, watch, quiet=quiet, silent=silent, now=now)
    found = {
        alerts_pb2.ALERT_CONDITION_FAILED: _failed(dagger),
        alerts_pb2.ALERT_CONDITION_UNREACHABLE: unreachable,
    }
    if unreachable is None or not unreachable.ailing:
        progress = _no_progress(dagger, watch, now=now, hearing=hearing, limits=limits)
        found[alerts_pb2.ALERT_CONDITION_NO_PROGRESS] = progress
    if dagger.phase in (RUNNING, DEGRADED) and not silent:
        found[alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE] = _quarantine(watch, limits)
    return {condition: finding for condition, finding in found.items() if finding is not None}


def to_probe(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None, limits: Limits
) -> str | None:
    """URL of the Spark UI to ask whether the driver lives; None when its heartbeat says so, or nobody can."""
    quiet = _quiet(watch, now, hearing)
    if dagger.phase not in (RUNNING, DEGRADED) or quiet is None or quiet < limits.silence / 2:
        return None
    return ui_url(dagger, watch) or None


def ui_url(dagger: Dagger, watch: Watch) -> str:
    """Where the Spark UI of the newest launch is; empty when nobody has said."""
    return watch.ui_url or (dagger.driver.ui_url if dagger.driver else "")


def _quiet(watch: Watch, now: datetime, hearing: datetime | None) -> timedelta | None:
    """How long no heartbeat came although it would have been heard; None while deaf."""
    return None if hearing is None else now - max(watch.heard or watch.launched, hearing)


def _failed(dagger: Dagger) -> Finding | None:
    if dagger.phase == FAILED:
        return Finding(True, f"it was given up: {_why(dagger.last_error)}", dagger.phase_time)
    if dagger.phase in (RUNNING, DEGRADED):
        return Finding(False, "it runs again", dagger.phase_time)
    return None


def _unreachable(
    dagger: Dagger, watch: Watch, *, quiet: timedelta | None, silent: bool, now: datetime
) -> Finding | None:
    host = dagger.driver.host if dagger.driver else "its host"
    spoke = watch.heard is not None and not silent and watch.heard > dagger.phase_time
    if dagger.phase == UNREACHABLE and not spoke:
        what = f"neither its heartbeat nor its process on {host} answers; it may still run"
        return Finding(True, what, dagger.phase_time)
    if dagger.phase in (PENDING, BACKING_OFF, FAILED):
        return Finding(False, "its driver is known to be gone", dagger.phase_time)
    if quiet is None or (dagger.phase in (STARTING, STOPPING) and watch.heard is None):
        return None
    since = now - quiet
    if not silent:
        return Finding(False, "its driver is heard again", since) if watch.heard else None
    if dagger.phase not in (RUNNING, DEGRADED):  # the scheduler looks after a start and a stop
        return None
    if watch.answers is None and ui_url(dagger, watch):
        return None  # it is being asked
    if watch.answers:
        return Finding(False, "its Spark driver answers", since)
    what = (
        f"no heartbeat for {_span(quiet)}, and its Spark driver on {host} does not answer; it may still run"
    )
    return Finding(True, what, since)


def _no_progress(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None, limits: Limits
) -> Finding | None:
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return None
    runs = dagger.phase in (RUNNING, DEGRADED)
    if dagger.phase not in (PENDING, STARTING, BACKING_OFF) and not runs:
        return None
    if hearing is None:
        return None
    trigger = dagger.spec.trigger.ToTimedelta() if dagger.spec.HasField("trigger") else timedelta(seconds=1)
    patience = max(limits.progress, 3 * trigger)
    if watch.progressed is not None and now - watch.progressed < patience:
        return Finding(False, "it makes progress", watch.progressed) if runs else None
    # What was told while hearing counts in full, silence from when it would have been heard. A person's
    # request begins the wait anew.
    told = watch.progressed if watch.told is not None and watch.told >= hearing else None
    since = max(told or max(watch.since, hearing), dagger.update_time)
    if now - since < patience:
        return None
    return Finding(True, _stall(dagger, watch, _span(now - since)), since)


def _stall(dagger: Dagger, watch: Watch, span: str) -> str:
    """What it is doing instead of getting on."""
    heartbeat = watch.heartbeat
    if dagger.phase == PENDING:
        waits = f": {_why(dagger.last_error)}" if dagger.last_error else "; does a scheduler run?"
        return f"no driver has been launched for {span}{waits}"
    if dagger.phase == BACKING_OFF:
        return f"no progress for {span}, its driver keeps ending: {_why(dagger.last_error)}"
    if heartbeat is not None and heartbeat.retrying:
        return f"no progress for {span}, it retries a sink: {_why(heartbeat.retrying[0])}"
    if dagger.phase == STARTING:
        return f"no progress for {span}, its driver has not reached its source yet"
    if heartbeat is None:
        return f"no heartbeat for {span}"
    if watch.answers:
        return f"no heartbeat for {span}, though its Spark driver answers"
    if heartbeat.running_batch_age_ms:
        age = _span(timedelta(milliseconds=heartbeat.running_batch_age_ms))
        return f"no progress for {span}: batch {heartbeat.batch_id + 1} has been running for {age}"
    return f"no progress for {span}: no batch was committed and the source was not found empty"


def _quarantine(watch: Watch, limits: Limits) -> Finding | None:
    if len(watch.samples) < 2:
        return None
    first, last = watch.samples[0], watch.samples[-1]
    records = last.quarantined - first.quarantined
    share = records / max(last.rows_in - first.rows_in, records, 1)
    if records < limits.quarantine_records or share <= limits.quarantine_share:
        return Finding(False, f"{share:.1%} of its records are set aside", last.time)
    heartbeat = watch.heartbeat
    reasons = sorted(heartbeat.quarantined.items(), key=lambda each: -each[1])[:3] if heartbeat else []
    named = ", ".join(reason for reason, _ in reasons)
    span = _span(last.time - first.time)
    return Finding(True, f"{records:,} records were set aside in {span}, {share:.1%}: {named}", first.time)


def _why(error: events_pb2.DaggerError | None) -> str:
    if error is None:
        return "it left no reason"
    return f"{error.reason}: {error.detail}" if error.detail else error.reason


def _span(span: timedelta) -> str:
    """A duration for a person, by its two greatest units."""
    seconds = max(int(span.total_seconds()), 0)
    for size, name, below, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size} {name} {rest} {part}" if rest else f"{seconds // size} {name}"
    return f"{seconds} s"
