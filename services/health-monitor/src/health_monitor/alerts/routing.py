"""Routes of a team decide who is told of an alert that fires; decided once, and part of its event. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC

from daggers.v1 import alerts_pb2

from fleet.alerts.alert import Alert, evolve
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing.labels import list_labels
from fleet.alerts.routing.routes import keep_receivers
from fleet.alerts.routing.trees import build_destination


def route(
    fired: alerts_pb2.AlertFired,
    ledger: Ledger,
    *,
    own: Collection[str],
    fallback: Sequence[str],
) -> None:
    """Add the destinations of an alert that fires, and name their receivers; nothing without routes.

    `own`: receivers that the team has now; `fallback`: those of the platform, which are told at once where
    the routes name none of them.
    """
    routes = ledger.routes.in_force(fired.team) if fired.team else None
    if routes is None or _is_shown_alone(ledger.alert_of(fired.meta)):
        return
    destinations = list(keep_receivers(routes.find_destinations(list_labels(_build_alert(fired))), own))
    receivers = dict.fromkeys(name for destination in destinations for name in destination.receivers)
    del fired.destinations[:], fired.receivers[:]
    fired.destinations.extend(map(build_destination, destinations))
    fired.receivers.extend(receivers or fallback)


def _is_shown_alone(alert: Alert) -> bool:
    """Tell whether a receiver may show an alert as open that it was told of by itself: then what fires anew
    is told by itself, too, as no group would tell that end.
    """
    return not alert.is_routed and any(delivery.shows_open for delivery in alert.deliveries.values())


def _build_alert(fired: alerts_pb2.AlertFired) -> Alert:
    """Build the alert that an event begins, for its labels."""
    meta = fired.meta
    before = Alert(
        dagger=meta.dagger,
        condition=meta.condition,
        rule=meta.rule,
        key=dict(meta.key),
        incident=meta.incident - 1,
    )
    return evolve(before, fired, fired.since.ToDatetime(tzinfo=UTC))
