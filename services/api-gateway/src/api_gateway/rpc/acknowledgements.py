"""Acknowledgements of alerts: somebody looks after what is open, and nobody is reminded of it meanwhile.

As silences they are appended to `daggers.alerts` by a gateway, so all who fold that topic come to the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from daggers.v1 import alerts_pb2, gateway_pb2
from google.protobuf.duration_pb2 import Duration

from api_gateway.not_found import no_open_alert
from api_gateway.rpc.alert_log import Alerts
from api_gateway.rpc.alert_messages import build_alert
from chassis.errors import ApiError, invalid
from chassis.interceptors import actor
from chassis.logging import note
from daggerspec import fields
from daggerspec.alertrules import key_digest
from daggerspec.violation import Violation
from fleet.alerts.alert import Alert, condition_label
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing.silences import LONGEST

pb = gateway_pb2
_RULE: Final = alerts_pb2.ALERT_CONDITION_RULE
_COMMENT: Final = 500
_NAME: Final = 300
"""Characters of a dagger's or rule's name, or of a principal, at most; all are shorter."""


async def acknowledge(request: pb.AcknowledgeAlertsRequest, alerts: Alerts) -> pb.AcknowledgeAlertsResponse:
    """Say that the caller looks after open alerts, or check that. Raises: ApiError."""
    wrong = [*_find_violations(request.alerts), *fields.text("comment", request.comment, limit=_COMMENT)]
    if request.HasField("duration"):
        wrong += [*fields.duration("duration", request.duration, positive=True)] or _find_excess(
            request.duration
        )
    if wrong:
        raise invalid(wrong)
    event = alerts_pb2.AlertAcknowledged(
        incidents=_select(request.alerts, alerts.ledger), actor=actor(), comment=request.comment
    )
    if request.HasField("duration"):
        event.until.FromDatetime(alerts.clock() + request.duration.ToTimedelta())
    metas = event.incidents
    note(incidents=len(metas), validate_only=request.validate_only)
    if not request.validate_only:
        await alerts.append(f"acknowledgement/{uuid.uuid4().hex}", metas[0].dagger, event, "")
    return pb.AcknowledgeAlertsResponse(alerts=_list(metas, alerts), sequence=alerts.ledger.sequence)


async def unacknowledge(
    request: pb.UnacknowledgeAlertsRequest, alerts: Alerts
) -> pb.UnacknowledgeAlertsResponse:
    """Take acknowledgements of open alerts back, or check that. Raises: ApiError."""
    if wrong := [*_find_violations(request.alerts)]:
        raise invalid(wrong)
    event = alerts_pb2.AcknowledgementEnded(incidents=_select(request.alerts, alerts.ledger), actor=actor())
    metas = event.incidents
    note(incidents=len(metas), validate_only=request.validate_only)
    given = [meta for meta in metas if alerts.ledger.alert_of(meta).acknowledgement is not None]
    if given and not request.validate_only:
        await alerts.append(f"acknowledgement/{uuid.uuid4().hex}", metas[0].dagger, event, "")
    return pb.UnacknowledgeAlertsResponse(alerts=_list(metas, alerts), sequence=alerts.ledger.sequence)


def _find_violations(selector: pb.OpenAlerts) -> Iterator[Violation]:
    """Yield what is wrong with which alerts are meant, each by itself."""
    if not selector.dagger:
        yield Violation("alerts.dagger", "must say whose alerts are meant", "REQUIRED")
    yield from fields.text("alerts.dagger", selector.dagger, limit=_NAME)
    if selector.condition == alerts_pb2.ALERT_CONDITION_UNSPECIFIED:
        yield Violation("alerts.condition", "must say what is wrong", "REQUIRED")
    elif selector.condition not in alerts_pb2.AlertCondition.values():
        yield Violation(
            "alerts.condition", f"is {selector.condition}, which is no condition", "UNKNOWN_VALUE"
        )
    yield from fields.text("alerts.rule", selector.rule, limit=_NAME)
    if (selector.condition == _RULE) != bool(selector.rule):
        text = "must be the name of a rule where the condition is RULE, and empty otherwise"
        yield Violation("alerts.rule", text, "REQUIRED" if not selector.rule else "NOT_ALLOWED")
    if selector.incident < 0:
        yield Violation("alerts.incident", "must not be negative", "OUT_OF_RANGE")


def _select(selector: pb.OpenAlerts, ledger: Ledger) -> list[alerts_pb2.AlertMeta]:
    """Return the open incidents that are meant, by their keys. Raises: ApiError, where none is open."""
    key = dict(selector.key)
    opened = [alert for alert in ledger.list_open() if alert.dagger == selector.dagger]
    chosen = [
        alert
        for alert in opened
        if (alert.condition, alert.rule) == (selector.condition, selector.rule)
        and (not key or dict(alert.key) == key)
        and selector.incident in (0, alert.incident)
    ]
    if not chosen:
        raise _not_open_error(selector, opened)
    return [alert.meta() for alert in sorted(chosen, key=lambda alert: key_digest(alert.key))]


def _list(metas: Iterable[alerts_pb2.AlertMeta], alerts: Alerts) -> list[pb.Alert]:
    ledger, now = alerts.ledger, alerts.clock()
    return [build_alert(ledger.alert_of(meta), ledger, now) for meta in metas]


def _not_open_error(selector: pb.OpenAlerts, opened: Sequence[Alert]) -> ApiError:
    names = [alert.rule or condition_label(alert.condition) for alert in opened]
    return no_open_alert(selector.dagger, selector.rule or condition_label(selector.condition), names)


def _find_excess(duration: Duration) -> list[Violation]:
    if duration.ToTimedelta() <= LONGEST:
        return []
    return [Violation("duration", f"must not be longer than {LONGEST.days} days", "OUT_OF_RANGE")]
