"""Decides when an alert fires and resolves, and records the outcomes of notifications. Pure.

    decide     a finding that has held for long enough -> AlertFired | AlertResolved
    conclude   outcome of an attempt to notify -> NotificationSent | NotificationFailed, or the same of a
               group or a silence

`fleet.alerts.alert` defines an alert, and folds its events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2

from fleet import Dagger
from fleet.alerts.alert import (
    CLUSTER,
    HOST,
    STORE,
    Alert,
    GroupNotification,
    GroupTurn,
    Notification,
    Notify,
    dedup_key,
    dedup_key_of,
)
from fleet.alerts.ending_silences import EndingSilence, SilenceNotification
from fleet.conditions.dagger_conditions import SEVERITIES
from fleet.conditions.finding import Finding
from fleet.decide.backoff import delay
from fleet.health import advice
from health_monitor.page import shorten
from health_monitor.receivers import Outcome, Permanent, Success, Temporary

_SUMMARY_LIMIT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Times that findings must hold, and delays between attempts to notify."""

    hold: timedelta = timedelta(seconds=10)
    """Time that a condition must hold before an incident begins."""
    resolve_hold: timedelta = timedelta(seconds=30)
    """Time that it must be gone before the incident is over."""
    first_delay: timedelta = timedelta(seconds=2)
    """Delay before the second attempt at a notification; it doubles with each further one."""
    longest_delay: timedelta = timedelta(minutes=10)
    give_up: timedelta = timedelta(hours=24)
    """Time after an incident's beginning or end, or the end of a silence that held it back, from which no
    further attempt is made.
    """


# ---- Decide: a finding that has held for long enough -> an event -------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldFinding:
    """Finding, and the time since when it has been the same without a gap."""

    finding: Finding
    since: datetime
    begun: datetime
    """`since` of the first of these findings: the condition may be older than the first look at it."""


def hold(previous: HeldFinding | None, finding: Finding | None, now: datetime) -> HeldFinding | None:
    """Hold the finding of `now`, since the previous one if that says the same; no finding ends the hold."""
    if finding is None:
        return None
    if previous is not None and previous.finding.active == finding.active:
        return replace(previous, finding=finding)
    return HeldFinding(finding, now, finding.since)


def decide(
    alert: Alert,
    held_finding: HeldFinding | None,
    *,
    dagger: Dagger | None,
    receivers: Sequence[str],
    now: datetime,
    policy: Policy,
    team: str = "",
    store: str = "",
    change: alerts_pb2.LastChange | None = None,
) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
    """Return the next event of the alert, or None. Once that event is folded in, the answer is None.

    `dagger`: None for the platform, teams and principals. `team`: owner, without a dagger. `change`: the
    newest request about the dagger. `store`: one that does not take its rows. The event has no epoch: the
    leader sets it when it writes.
    """
    if held_finding is None or held_finding.finding.active == alert.firing:
        return None
    finding, lasted = held_finding.finding, now - held_finding.since
    if finding.active:
        if lasted < policy.hold:
            return None
        fired = _build_fired(alert, finding, dagger, team, receivers, change)
        fired.host = _find_place(HOST, alert, dagger.driver.host if dagger and dagger.driver else "")
        fired.cluster = _find_place(CLUSTER, alert, dagger.spec.cluster if dagger else "")
        fired.store = _find_place(STORE, alert, store)
        return fired
    if finding.final or lasted >= policy.resolve_hold:
        resolved = alerts_pb2.AlertResolved(meta=alert.meta(), summary=_cut(finding.summary))
        resolved.until.FromDatetime(held_finding.begun)
        return resolved
    return None


def _build_fired(
    alert: Alert,
    finding: Finding,
    dagger: Dagger | None,
    team: str,
    receivers: Sequence[str],
    change: alerts_pb2.LastChange | None,
) -> alerts_pb2.AlertFired:
    meta = alerts_pb2.AlertMeta(dagger=alert.dagger, condition=alert.condition, incident=alert.incident + 1)
    owner = finding.advice or advice.advise_condition(alert.condition)
    fired = alerts_pb2.AlertFired(
        meta=meta,
        dedup_key=dedup_key(alert.dagger, alert.condition),
        severity=SEVERITIES[alert.condition],
        summary=_cut(finding.summary),
        generation=dagger.generation if dagger else 0,
        team=dagger.spec.team if dagger else team,
        receivers=receivers,
        domain=owner.domain,
        last_change=change,
        next=owner.next_of(alert.dagger),
    )
    fired.since.FromDatetime(finding.since)
    if finding.measure is not None:
        fired.value, fired.limit, fired.unit = finding.measure
    return fired


def _find_place(prefix: str, alert: Alert, of_dagger: str) -> str:
    """Return the host, cluster or store that an alert is of; of a dagger's alert, the dagger's."""
    return alert.dagger.removeprefix(prefix) if alert.dagger.startswith(prefix) else of_dagger


# ---- Conclude: the outcome of an attempt -> an event -------------------------------------------------------


def conclude(
    notify: Notify, outcome: Outcome, *, now: datetime, policy: Policy
) -> Notification | GroupNotification | SilenceNotification:
    """Build the event of an attempt's outcome, with the time of the next attempt unless it is the last."""
    if notify.ending is not None:
        return _conclude_silence(notify, notify.ending, outcome, now, policy)
    if notify.group is not None:
        return _conclude_group(notify, notify.group, outcome, now, policy)
    alert = notify.alert
    meta = alert.meta()
    if isinstance(outcome, Success):
        return alerts_pb2.NotificationSent(
            meta=meta, notice=notify.notice, receiver=notify.receiver, attempt=notify.attempt
        )
    failed = alerts_pb2.NotificationFailed(
        meta=meta,
        notice=notify.notice,
        receiver=notify.receiver,
        attempt=notify.attempt,
        reason=outcome.reason,
        detail=_cut(outcome.detail),
    )
    acknowledged_at = alert.acknowledgement.time if alert.acknowledgement else None
    due_since = max(filter(None, (alert.noticed_at, notify.released_at, acknowledged_at)), default=None)
    again = _find_next_attempt(notify, outcome, dedup_key_of(alert.meta()), now, policy)
    if again is not None and (due_since is None or again <= due_since + policy.give_up):
        failed.not_before.FromDatetime(again)
        failed.throttled = isinstance(outcome, Temporary) and outcome.throttled
    return failed


def _conclude_group(
    notify: Notify, group: GroupTurn, outcome: Outcome, now: datetime, policy: Policy
) -> GroupNotification:
    notice = group.build_message(notify.receiver, notify.attempt)
    if isinstance(outcome, Success):
        return alerts_pb2.GroupNotificationSent(notice=notice)
    failed = alerts_pb2.GroupNotificationFailed(
        notice=notice, reason=outcome.reason, detail=_cut(outcome.detail)
    )
    again = _find_next_attempt(notify, outcome, group.dedup_key, now, policy)
    if again is not None and again <= group.first_attempt + policy.give_up:
        failed.not_before.FromDatetime(again)
        failed.throttled = isinstance(outcome, Temporary) and outcome.throttled
    return failed


def _conclude_silence(
    notify: Notify, ending: EndingSilence, outcome: Outcome, now: datetime, policy: Policy
) -> SilenceNotification:
    silence = ending.silence
    notice = alerts_pb2.SilenceNotice(
        silence_id=silence.id, receiver=notify.receiver, attempt=notify.attempt, alerts=len(ending.alerts)
    )
    if isinstance(outcome, Success):
        return alerts_pb2.SilenceNotificationSent(notice=notice)
    failed = alerts_pb2.SilenceNotificationFailed(
        notice=notice, reason=outcome.reason, detail=_cut(outcome.detail)
    )
    again = _find_next_attempt(notify, outcome, f"silence/{silence.id}", now, policy)
    if again is not None and again < silence.end:
        failed.not_before.FromDatetime(again)
        failed.throttled = isinstance(outcome, Temporary) and outcome.throttled
    return failed


def _find_next_attempt(
    notify: Notify, outcome: Temporary | Permanent, key: str, now: datetime, policy: Policy
) -> datetime | None:
    """Return when another attempt may be made; None where it would not help."""
    if isinstance(outcome, Permanent):
        return None
    wait = delay(
        f"{notify.receiver}/{key}", notify.attempt, base=policy.first_delay, cap=policy.longest_delay
    )
    return now + max(wait, outcome.after or timedelta())


def _cut(text: str) -> str:
    return shorten(text, _SUMMARY_LIMIT)
