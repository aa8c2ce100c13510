"""What the golden history of the alerts topic folds to, as plain JSON."""

from __future__ import annotations

from typing import Any

from daggers.v1 import alerts_pb2
from daggers.v1.alerts_pb2 import AlertRoute
from google.protobuf.json_format import MessageToDict
from tests.golden.golden import FOLDER, decoded

from fleet.alerts.alert import Alert
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing.silences import build_message

ALERTS = FOLDER / "alerts.json"
ALERTS_STATE = FOLDER / "alerts_state.json"


def said_of(ledger: Ledger, entry: dict[str, Any], *, changed: bool) -> dict[str, Any]:
    """What the fold said of a record, as `then`."""
    then = {"changed": changed, "epoch": ledger.epoch}
    meta = getattr(decoded(entry), "meta", None)
    return then if meta is None else then | _shown(ledger.alert_of(meta))


def alerts_state(ledger: Ledger) -> dict[str, Any]:
    """The whole state of a fold."""
    return {
        "sequence": ledger.sequence,
        "epoch": ledger.epoch,
        "leader": ledger.leader,
        "alerts": [
            {"dagger": alert.dagger, "condition": alerts_pb2.AlertCondition.Name(alert.condition)}
            | ({"rule": alert.rule, "key": dict(alert.key)} if alert.rule else {})
            | _shown(alert)
            | {"fired": MessageToDict(alert.fired) if alert.fired else None}
            | {"resolved": MessageToDict(alert.resolved) if alert.resolved else None}
            for _, alert in sorted(ledger.alerts.items())
        ],
        "acknowledgements": [
            [alert.id, given.author, given.comment, given.time.isoformat()]
            for _, alert in sorted(ledger.alerts.items())
            if (given := alert.acknowledgement) is not None
        ],
        "routes": [
            [each.team, each.number, each.actor, each.why, MessageToDict(each.message or AlertRoute())]
            for _, revisions in sorted(ledger.routes.revisions.items())
            for each in revisions
        ],
        "groups": [
            {
                "team": key.team,
                "revision": key.revision,
                "path": list(key.path),
                "labels": dict(key.labels),
                "members": [f"{subject} {condition}" for subject, condition in sorted(group.members)],
                "notices": dict(group.counts),
            }
            for key, group in sorted(ledger.routed.groups.items())
        ],
        "silences": [
            MessageToDict(build_message(silence)) | {"ended_by": silence.ended_by}
            for _, silence in sorted(ledger.silences.items())
        ],
        "receiver_tests": [
            [test.team, test.kind, test.actor, [MessageToDict(result) for result in test.results or ()]]
            for test in ledger.receiver_tests.by_id.values()
        ],
        "unreadable": [[record.sequence, record.type, record.digest.hex()] for record in ledger.unreadable],
    }


def _shown(alert: Alert) -> dict[str, Any]:
    return {
        "incident": alert.incident,
        "notice": alerts_pb2.AlertNotice.Name(alert.notice),
        "deliveries": {
            receiver: [
                delivery.attempts,
                delivery.done,
                delivery.not_before.isoformat() if delivery.not_before else None,
            ]
            for receiver, delivery in sorted(alert.deliveries.items())
        },
    }
