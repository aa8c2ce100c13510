"""An alert: what is wrong with a dagger, and who was told."""

from typing import Any

from daggers.v1 import alerts_pb2, gateway_pb2

from cli.output.error_text import domain
from daggerclient.times import iso


def alert(what: gateway_pb2.Alert) -> dict[str, Any]:
    """An alert; `until` is null while it is open, `value` and `limit` where nothing was measured."""
    return {
        "dagger": what.dagger,
        "condition": alerts_pb2.AlertCondition.Name(what.condition).removeprefix("ALERT_CONDITION_"),
        "incident": what.incident,
        "severity": alerts_pb2.AlertSeverity.Name(what.severity).removeprefix("ALERT_SEVERITY_"),
        "domain": domain(what.domain) if what.domain else None,
        "summary": what.summary,
        "next": what.next or None,
        "since": iso(what.since),
        "fire_time": iso(what.fire_time),
        "until": iso(what.until) if what.HasField("until") else None,
        "resolution": what.resolution or None,
        "value": what.value if what.HasField("value") else None,
        "limit": what.limit if what.HasField("limit") else None,
        "unit": what.unit or None,
        "generation": what.generation,
        "team": what.team,
        "deliveries": [_delivery(delivery) for delivery in what.deliveries],
        "sequence": what.sequence,
    }


def _delivery(what: gateway_pb2.AlertDelivery) -> dict[str, Any]:
    return {
        "receiver": what.receiver,
        "state": gateway_pb2.AlertDelivery.State.Name(what.state).removeprefix("STATE_"),
        "attempts": what.attempts,
        "reason": what.reason or None,
        "detail": what.detail or None,
        "not_before": iso(what.not_before) if what.HasField("not_before") else None,
    }
