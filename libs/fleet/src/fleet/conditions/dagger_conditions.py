"""Conditions of a dagger, judged by its whole state: phase, heartbeats, history. Pure.

A finding needs evidence. Where there is none (the monitor has just started, is deaf, or another condition
explains it better) there is no finding, and an incident stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2, gateway_pb2

from chassis.durations import format_span
from fleet import Dagger
from fleet.alerts.alert import Condition, Severity
from fleet.conditions import quarantine_rate, trend_conditions
from fleet.conditions.finding import Finding, seconds, why
from fleet.conditions.history import History
from fleet.fold.phases import (
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
from fleet.health import advice
from fleet.health.advice import ADVICE, NOT_LAUNCHED, UNLAUNCHED
from fleet.health.dagger_warnings import find_progress_issues
from fleet.health.degradation import (
    Evidence,
    Limits,
    Reason,
    patience,
    silent,
    stalled,
)
from fleet.health.watch import Watch, evidence_of

SEVERITIES: Final[Mapping[Condition, Severity]] = {
    alerts_pb2.ALERT_CONDITION_FAILED: alerts_pb2.ALERT_SEVERITY_CRITICAL,
    alerts_pb2.ALERT_CONDITION_UNREACHABLE: alerts_pb2.ALERT_SEVERITY_CRITICAL,
    alerts_pb2.ALERT_CONDITION_NO_PROGRESS: alerts_pb2.ALERT_SEVERITY_ERROR,
    alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_LATE_ROWS: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_NO_OUTPUT: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_RECORDS_EXPIRED: alerts_pb2.ALERT_SEVERITY_ERROR,
    alerts_pb2.ALERT_CONDITION_RESTART_LOOP: alerts_pb2.ALERT_SEVERITY_ERROR,
    alerts_pb2.ALERT_CONDITION_NO_INPUT: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_LAG_GROWING: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_KAFKA_AWAY: alerts_pb2.ALERT_SEVERITY_CRITICAL,
    alerts_pb2.ALERT_CONDITION_TEAM_QUOTA: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_PARTITION_BEHIND: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_REFUSALS: alerts_pb2.ALERT_SEVERITY_ERROR,
    alerts_pb2.ALERT_CONDITION_FRESHNESS_MISSED: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_WAITING_FOR_EXECUTORS: alerts_pb2.ALERT_SEVERITY_ERROR,
    alerts_pb2.ALERT_CONDITION_SINK_BEHIND: alerts_pb2.ALERT_SEVERITY_WARNING,
    alerts_pb2.ALERT_CONDITION_HOST_AWAY: alerts_pb2.ALERT_SEVERITY_CRITICAL,
    alerts_pb2.ALERT_CONDITION_SPARK_AWAY: alerts_pb2.ALERT_SEVERITY_CRITICAL,
    alerts_pb2.ALERT_CONDITION_STORE_AWAY: alerts_pb2.ALERT_SEVERITY_CRITICAL,
    alerts_pb2.ALERT_CONDITION_RULE: alerts_pb2.ALERT_SEVERITY_WARNING,
}
"""All conditions, with the severity of their alerts; a rule may say another."""
OF_PLATFORM: Final = frozenset({alerts_pb2.ALERT_CONDITION_KAFKA_AWAY})
"""The conditions of the platform itself."""
OF_TEAMS: Final = frozenset({alerts_pb2.ALERT_CONDITION_TEAM_QUOTA})
"""The conditions of teams."""
OF_PRINCIPALS: Final = frozenset({alerts_pb2.ALERT_CONDITION_REFUSALS})
"""The conditions of principals, who call the gateway."""
OF_HOSTS: Final = frozenset({alerts_pb2.ALERT_CONDITION_HOST_AWAY})
"""The conditions of hosts of drivers."""
OF_CLUSTERS: Final = frozenset({alerts_pb2.ALERT_CONDITION_SPARK_AWAY})
"""The conditions of clusters."""
OF_STORES: Final = frozenset({alerts_pb2.ALERT_CONDITION_STORE_AWAY})
"""The conditions of stores, the servers of sinks."""
OF_NO_DAGGER: Final = OF_PLATFORM | OF_TEAMS | OF_PRINCIPALS | OF_HOSTS | OF_CLUSTERS | OF_STORES
"""The conditions of anything but daggers."""
OF_RULES: Final = frozenset({alerts_pb2.ALERT_CONDITION_RULE})
"""The conditions that drivers judge, on the rows of their daggers (`row_rules`)."""
OF_DAGGERS: Final = tuple(condition for condition in SEVERITIES if condition not in OF_NO_DAGGER | OF_RULES)
_STANDS: Final = (
    alerts_pb2.ALERT_CONDITION_FAILED,
    alerts_pb2.ALERT_CONDITION_UNREACHABLE,
    alerts_pb2.ALERT_CONDITION_NO_PROGRESS,
)
"""The conditions of a dagger that stands still."""
_STALLED: Final = {PENDING: NOT_LAUNCHED, STARTING: Reason.START_TIMEOUT}
"""Reason whose advice explains missing progress, by phases before a driver runs."""


def diagnose(
    dagger: Dagger,
    watch: Watch,
    *,
    now: datetime,
    hearing: datetime | None,
    limits: Limits,
    history: History = History(),  # noqa: B008 - a constant
) -> dict[Condition, Finding]:
    """Judge all conditions of a dagger; one that cannot be judged now is not in the result.

    `hearing`: since when heartbeats arrive without a gap (`Hearing.begin`); None while the monitor is deaf.
    """
    if dagger.phase in (STOPPED, DELETED):
        over = "it was deleted" if dagger.phase == DELETED else "it was stopped"
        return dict.fromkeys(OF_DAGGERS, Finding(False, over, dagger.phase_time, final=True))
    evidence = evidence_of(watch, now, hearing)
    unreachable = _unreachable(dagger, watch, evidence, now=now, limits=limits)
    loop = trend_conditions.restart_loop(dagger, history, now=now, limits=limits)
    findings = {
        alerts_pb2.ALERT_CONDITION_FAILED: _failed_finding(dagger),
        alerts_pb2.ALERT_CONDITION_UNREACHABLE: unreachable,
        alerts_pb2.ALERT_CONDITION_RESTART_LOOP: loop,
    }
    between = dagger.phase in (STARTING, BACKING_OFF)
    # These two explain missing progress better, so that it has no alert of its own beside them.
    explanations = (unreachable, loop if between else None)
    if not any(finding is not None and finding.active for finding in explanations):
        progress = _no_progress(dagger, watch, evidence, now=now, hearing=hearing, limits=limits)
        findings[alerts_pb2.ALERT_CONDITION_NO_PROGRESS] = progress
    fresh = evidence.heartbeat is not None and evidence.age < limits.silence
    if dagger.phase in (RUNNING, DEGRADED) and fresh:
        findings[alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE] = quarantine_rate.rate(watch, limits)
        no_input = trend_conditions.no_input(dagger, watch, now=now, limits=limits)
        findings[alerts_pb2.ALERT_CONDITION_NO_INPUT] = no_input
        findings[alerts_pb2.ALERT_CONDITION_LAG_GROWING] = trend_conditions.lag_growing(watch, limits)
        findings[alerts_pb2.ALERT_CONDITION_SINK_BEHIND] = trend_conditions.sink_behind(watch, limits)
        for condition, (reason, well) in trend_conditions.DRIVER_CONDITIONS.items():
            findings[condition] = trend_conditions.driver_warning(watch, reason, well, limits)
    judged_conditions = {condition: finding for condition, finding in findings.items() if finding is not None}
    return judged_conditions | _advise(judged_conditions, dagger, watch, now=now, hearing=hearing)


def _advise(
    findings: Mapping[Condition, Finding],
    dagger: Dagger,
    watch: Watch,
    *,
    now: datetime,
    hearing: datetime | None,
) -> dict[Condition, Finding]:
    """Give findings of a standstill the advice of the issue that `daggers get` lists first."""
    active = [condition for condition in _STANDS if condition in findings and findings[condition].active]
    issues = find_progress_issues(dagger, watch, now=now, hearing=hearing) if active else []
    if not issues:
        return {}
    return {condition: replace(findings[condition], advice=issues[0].advice) for condition in active}


def to_probe(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None, limits: Limits
) -> str | None:
    """Return the URL of a Spark UI to probe; None when heartbeats suffice, or there is no URL."""
    patient = limits.silence / 2
    if watch.heard_at is not None and now - watch.heard_at < patient:
        return None  # as nearly all are, each time
    quiet = evidence_of(watch, now, hearing).quiet
    if dagger.phase not in (RUNNING, DEGRADED) or quiet is None or quiet < patient:
        return None
    return ui_url(dagger, watch) or None


def ui_url(dagger: Dagger, watch: Watch) -> str:
    """Return the URL of the newest launch's Spark UI; empty while it is not known."""
    return watch.ui_url or (dagger.driver.ui_url if dagger.driver else "")


def _failed_finding(dagger: Dagger) -> Finding | None:
    if dagger.phase == FAILED:
        given_up = f"it was given up: {why(dagger.last_error)}"
        return Finding(True, given_up, dagger.phase_time)
    if dagger.phase in (RUNNING, DEGRADED):
        return Finding(False, "it runs again", dagger.phase_time)
    return None


def _unreachable(
    dagger: Dagger, watch: Watch, evidence: Evidence, *, now: datetime, limits: Limits
) -> Finding | None:
    host = dagger.driver.host if dagger.driver else "its host"
    quiet, is_silent = evidence.quiet, silent(evidence, limits)
    spoke = watch.heard_at is not None and not is_silent and watch.heard_at > dagger.phase_time
    if dagger.phase == UNREACHABLE and not spoke:
        summary = f"neither its heartbeat nor its process on {host} answers; it may still run"
        measure = seconds(quiet, limits.silence) if quiet is not None and is_silent else None
        return Finding(True, summary, dagger.phase_time, measure=measure)
    if dagger.phase in (PENDING, BACKING_OFF, FAILED):
        return Finding(False, "its driver is known to be gone", dagger.phase_time)
    if quiet is None or (dagger.phase in (STARTING, STOPPING) and watch.heard_at is None):
        return None
    since = now - quiet
    if not is_silent:
        return Finding(False, "its driver is heard again", since) if watch.heard_at else None
    if dagger.phase not in (RUNNING, DEGRADED):  # the scheduler ends starts and stops that take too long
        return None
    if watch.answers is None and ui_url(dagger, watch):
        return None  # the probe is under way
    if watch.answers:
        return Finding(False, "its Spark driver answers", now)
    summary = (
        f"no heartbeat for {format_span(quiet)}, and its Spark driver on {host} does not answer;"
        " it may still run"
    )
    return Finding(True, summary, since, measure=seconds(quiet, limits.silence))


def _no_progress(
    dagger: Dagger,
    watch: Watch,
    evidence: Evidence,
    *,
    now: datetime,
    hearing: datetime | None,
    limits: Limits,
) -> Finding | None:
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return None
    runs = dagger.phase in (RUNNING, DEGRADED)
    if dagger.phase not in (PENDING, STARTING, BACKING_OFF) and not runs:
        return None
    if hearing is None:
        return None
    if watch.progressed is not None and not stalled(dagger, now - watch.progressed, limits):
        return Finding(False, "it makes progress", watch.progressed) if runs else None
    # Progress that was reported since the monitor hears counts in full; silence only from when a report would
    # have been heard. A request of a person restarts the wait.
    reported = watch.progressed if watch.reported_at is not None and watch.reported_at >= hearing else None
    since = max(reported or max(watch.since, hearing), dagger.update_time)
    if not stalled(dagger, now - since, limits):
        return None
    summary = _describe_stall(dagger, watch, evidence, format_span(now - since), now)
    measure = seconds(now - since, patience(dagger, limits))
    owner = ADVICE[_STALLED.get(dagger.phase, Reason.NO_PROGRESS)]
    return Finding(True, summary, since, measure=measure, advice=owner)


def _describe_stall(dagger: Dagger, watch: Watch, evidence: Evidence, span: str, now: datetime) -> str:
    """Describe what the dagger has been doing for `span` instead of making progress."""
    heartbeat = evidence.heartbeat
    silence = format_span(evidence.quiet or timedelta(0))
    if dagger.phase == PENDING:
        span = format_span(now - max(dagger.phase_time, dagger.update_time))
        waits = f": {why(dagger.last_error)}" if dagger.last_error else f"; {UNLAUNCHED}"
        return f"no driver has been launched for {span}{waits}"
    if dagger.phase == BACKING_OFF:
        return f"no progress for {span}, {_ends(dagger)}"
    if heartbeat is not None and heartbeat.retrying:
        return f"no progress for {span}, it retries a sink: {why(heartbeat.retrying[0])}"
    if dagger.phase == STARTING and dagger.attempt:
        return f"no progress for {span}, {_ends(dagger)}"
    if dagger.phase == STARTING:
        return f"no progress for {span}, its driver has not reached its source yet"
    if heartbeat is None:
        return f"no heartbeat for {silence}"
    if watch.answers:
        return f"no heartbeat for {silence}, though its Spark driver answers"
    if evidence.batch_age is not None:
        batch = f"batch {heartbeat.running_batch_id}" if heartbeat.HasField("running_batch_id") else "a batch"
        return f"no progress for {span}: {batch} has been running for {format_span(evidence.batch_age)}"
    return f"no progress for {span}: no batch was committed and the source was not found empty"


def _ends(dagger: Dagger) -> str:
    """Describe how often its driver has ended since it last ran well, and the last error."""
    return f"{advice.describe_ends(dagger.ends)}: {why(dagger.last_error)}"
