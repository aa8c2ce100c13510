"""When an alert fires and when it is over, and what an attempt to tell somebody was. Pure.

    decide     finding, held for long enough -> AlertFired | AlertResolved
    conclude   the outcome of an attempt -> NotificationSent | NotificationFailed

What an alert is, and what its events make of it, is `fleet.alerts.alert`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import alerts_pb2

from fleet import Dagger
from fleet.alerts.alert import Alert, Notification, Notify, dedup_key
from fleet.decide.backoff import delay
from fleet.health import advice
from health_monitor.conditions.dagger_conditions import SEVERITIES
from health_monitor.conditions.finding import Finding
from health_monitor.receivers import Outcome, Permanent, Sent, Temporary

_SUMMARY_LIMIT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How patient the monitor is, with daggers and with receivers."""

    hold: timedelta = timedelta(seconds=10)
    """A condition must hold for this long before an incident begins."""
    resolve_hold: timedelta = timedelta(seconds=30)
    """It must be gone for this long before the incident is over."""
    first_delay: timedelta = timedelta(seconds=2)
    """Wait before the second attempt at a notification; it doubles from then on."""
    longest_delay: timedelta = timedelta(minutes=10)
    give_up: timedelta = timedelta(hours=24)
    """No further attempt this long after the incident began or ended."""


# ---- Decide: a finding that has held -> an event, or nothing -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """A finding and since when it has been the same without a gap."""

    finding: Finding
    since: datetime
    begun: datetime
    """Since when it was so by the first of these findings: before anybody looked."""


def hold(held: Held | None, finding: Finding | None, now: datetime) -> Held | None:
    """What is held after a look at `now`; a look without evidence begins anew."""
    if finding is None:
        return None
    if held is not None and held.finding.active == finding.active:
        return replace(held, finding=finding)
    return Held(finding, now, finding.since)


def decide(
    alert: Alert,
    held: Held | None,
    *,
    dagger: Dagger | None,
    receivers: Sequence[str],
    now: datetime,
    policy: Policy,
    team: str = "",
    change: alerts_pb2.LastChange | None = None,
) -> alerts_pb2.AlertFired | alerts_pb2.AlertResolved | None:
    """The next turn of the alert, or None. Asked again after its answer was folded in, the answer is None.

    `dagger`: None for the platform and for a team. `team`: whose it is, where no dagger says so.
    `change`: the newest request about the dagger.
    The events carry no epoch yet: the monitor fills it in when it writes them.
    """
    if held is None or held.finding.active == alert.firing:
        return None
    finding, lasted = held.finding, now - held.since
    if finding.active:
        return _fired(alert, finding, dagger, team, receivers, change) if lasted >= policy.hold else None
    if finding.final or lasted >= policy.resolve_hold:
        meta = alerts_pb2.AlertMeta(dagger=alert.dagger, condition=alert.condition, incident=alert.incident)
        resolved = alerts_pb2.AlertResolved(meta=meta, summary=_cut(finding.summary))
        resolved.until.FromDatetime(held.begun)
        return resolved
    return None


def _fired(
    alert: Alert,
    finding: Finding,
    dagger: Dagger | None,
    team: str,
    receivers: Sequence[str],
    change: alerts_pb2.LastChange | None,
) -> alerts_pb2.AlertFired:
    meta = alerts_pb2.AlertMeta(dagger=alert.dagger, condition=alert.condition, incident=alert.incident + 1)
    whose = finding.advice or advice.of_condition(alert.condition)
    fired = alerts_pb2.AlertFired(
        meta=meta,
        dedup_key=dedup_key(alert.dagger, alert.condition),
        severity=SEVERITIES[alert.condition],
        summary=_cut(finding.summary),
        generation=dagger.generation if dagger else 0,
        team=dagger.spec.team if dagger else team,
        receivers=receivers,
        domain=whose.domain,
        last_change=change,
        next=whose.next_of(alert.dagger),
    )
    fired.since.FromDatetime(finding.since)
    if finding.measure is not None:
        fired.value, fired.limit, fired.unit = finding.measure
    return fired


# ---- What became of a notification -------------------------------------------------------------------------


def conclude(notify: Notify, outcome: Outcome, *, now: datetime, policy: Policy) -> Notification:
    """The event that an attempt's outcome is."""
    alert = notify.alert
    meta = alerts_pb2.AlertMeta(dagger=alert.dagger, condition=alert.condition, incident=alert.incident)
    match outcome:
        case Sent():
            return alerts_pb2.NotificationSent(
                meta=meta, notice=alert.notice, receiver=notify.receiver, attempt=notify.attempt
            )
        case Temporary() | Permanent():
            failed = alerts_pb2.NotificationFailed(
                meta=meta,
                notice=alert.notice,
                receiver=notify.receiver,
                attempt=notify.attempt,
                reason=outcome.reason,
                detail=_cut(outcome.detail),
            )
    if isinstance(outcome, Temporary):
        spread = f"{notify.receiver}/{dedup_key(alert.dagger, alert.condition)}"
        wait = delay(spread, notify.attempt, base=policy.first_delay, cap=policy.longest_delay)
        again = now + max(wait, outcome.after or timedelta())
        if alert.noticed_at is None or again <= alert.noticed_at + policy.give_up:
            failed.not_before.FromDatetime(again)
            failed.throttled = outcome.throttled
    return failed


def _cut(text: str) -> str:
    return text if len(text) <= _SUMMARY_LIMIT else text[: _SUMMARY_LIMIT - 1] + "…"
