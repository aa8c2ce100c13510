"""Decides what a callback changes: which open incidents it is about, and the event that says so. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Literal, TypeAlias

from daggers.v1 import alerts_pb2

from fleet.alerts.alert import Acknowledgement, Alert, acknowledge, unacknowledge
from fleet.alerts.ledger import Ledger
from health_monitor.callbacks import Callback

Result: TypeAlias = Literal["acknowledged", "unacknowledged", "unchanged", "not_open"]
Event: TypeAlias = alerts_pb2.AlertAcknowledged | alerts_pb2.AcknowledgementEnded
_SKEW: Final = timedelta(seconds=5)
"""A receiver's clock may be behind ours by so much: less than passes between two incidents of an alert."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Change that a callback makes."""

    result: Result
    detail: str
    """One sentence for a person."""
    event: Event | None = None
    """None: nothing."""


def decide(callback: Callback, ledger: Ledger, now: datetime) -> Decision:
    """Decide what a callback that is signed changes. The same one again changes nothing."""
    alerts = find_alerts(callback, ledger)
    if not alerts:
        detail = f"nothing is open of what {callback.receiver} was told under {callback.dedup_key}"
        return Decision("not_open", detail)
    changed = [alert for alert in alerts if _build_change(callback, now)(alert) is not alert]
    if not changed:
        return Decision("unchanged", _describe(alerts[0]))
    kind = alerts_pb2.AcknowledgementEnded if callback.is_taken_back else alerts_pb2.AlertAcknowledged
    metas = [alert.meta() for alert in changed]
    event = kind(incidents=metas, actor=callback.actor, receiver=callback.receiver)
    if callback.is_taken_back:
        return Decision("unacknowledged", f"{callback.actor} took the acknowledgement back", event)
    return Decision("acknowledged", f"acknowledged by {callback.actor}", event)


def find_alerts(callback: Callback, ledger: Ledger) -> list[Alert]:
    """List the open alerts that a callback is about: those that its receiver was told of under its key, and
    that had fired when it was done.
    """
    key, receiver, instant = callback.dedup_key, callback.receiver, callback.time + _SKEW
    alone = [
        alert
        for alert in ledger.list_open()
        if alert.fired is not None
        and alert.fired.dedup_key == key
        and not alert.is_routed
        and alert.may_tell(receiver)
        and alert.fired_at is not None
        and alert.fired_at <= instant
    ]
    alerts = alone or ledger.routed.list_announced(key, receiver, instant)
    return [alert for alert in alerts if callback.incident in ("", alert.id)]


def _build_change(callback: Callback, now: datetime) -> Callable[[Alert], Alert]:
    """Build what the fold will do to each alert."""
    if callback.is_taken_back:
        return lambda alert: unacknowledge(alert, alert.incident, callback.receiver, callback.draft_id)
    own = Acknowledgement(author=callback.actor, time=now, receiver=callback.receiver)
    return partial(_acknowledge, own, callback.draft_id)


def _acknowledge(own: Acknowledgement, draft_id: str, alert: Alert) -> Alert:
    return acknowledge(alert, alert.incident, own, draft_id)


def _describe(alert: Alert) -> str:
    acknowledgement = alert.acknowledgement
    return f"acknowledged by {acknowledgement.author}" if acknowledgement else "nobody looks after it"
