"""Messages of alerts for the API, from the fold of the alerts topic. Pure."""

from __future__ import annotations

from datetime import datetime

from daggers.v1 import alerts_pb2, gateway_pb2

from fleet.alerts.alert import Acknowledgement, Alert, Delivery
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing.labels import list_labels
from fleet.alerts.routing.silences import build_message


def build_alert(alert: Alert, ledger: Ledger, now: datetime) -> gateway_pb2.Alert:
    """Convert an alert that has fired to its message of the API, with the silence that holds it back now,
    and who looks after it.
    """
    fired = alert.fired or alerts_pb2.AlertFired()
    silence = ledger.find_silence(alert, now)
    given = alert.find_acknowledgement(now)
    cause = ledger.find_cause(alert)
    answer = gateway_pb2.Alert(
        dagger=alert.dagger,
        condition=alert.condition,
        incident=alert.incident,
        severity=fired.severity,
        domain=fired.domain,
        summary=fired.summary,
        since=fired.since,
        resolution=alert.resolved.summary if alert.resolved else "",
        unit=fired.unit,
        generation=fired.generation,
        team=fired.team,
        deliveries=[_delivery(name, alert.deliveries[name]) for name in sorted(alert.deliveries)],
        sequence=alert.sequence,
        next=fired.next,
        rule=alert.rule,
        key=alert.key,
        values=fired.meta.values,
        silence=None if silence is None else build_message(silence),
        acknowledgement=None if given is None else _build_acknowledgement(given),
        id=alert.id,
        labels=list_labels(alert),
        holds_back=len(ledger.list_held(alert)),
        cause="" if cause is None else cause.id,
    )
    if fired.HasField("value"):
        answer.value = fired.value
    if fired.HasField("limit"):
        answer.limit = fired.limit
    if alert.fired_at is not None:
        answer.fire_time.FromDatetime(alert.fired_at)
    if alert.until is not None:
        answer.until.FromDatetime(alert.until)
    return answer


def _delivery(receiver: str, delivery: Delivery) -> gateway_pb2.AlertDelivery:
    kind = gateway_pb2.AlertDelivery
    failure = delivery.failure or alerts_pb2.NotificationFailed()
    state = kind.STATE_PENDING
    if delivery.done:
        without_failure = kind.STATE_SENT if delivery.attempts else kind.STATE_WITHHELD
        state = kind.STATE_FAILED if delivery.failure else without_failure
    return kind(
        receiver=receiver,
        state=state,
        attempts=delivery.attempts,
        reason=failure.reason,
        detail=failure.detail,
        not_before=failure.not_before if failure.HasField("not_before") else None,
    )


def _build_acknowledgement(given: Acknowledgement) -> alerts_pb2.AlertAcknowledgement:
    message = alerts_pb2.AlertAcknowledgement(author=given.author, comment=given.comment)
    message.time.FromDatetime(given.time)
    if given.until is not None:
        message.until.FromDatetime(given.until)
    return message
