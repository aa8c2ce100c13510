"""`daggers alerts ack` and `unack`: who looks after an open alert."""

from collections.abc import Sequence
from typing import Annotated

import typer
from daggers.v1 import alerts_pb2, gateway_pb2

from cli.commands.alert_text import condition, find_alerts
from cli.errors import RefusedError
from cli.framework.gateway import Gateway
from cli.framework.instants import span
from cli.framework.session import Session
from cli.output.json_views.answers import to_json

FLAGS = {
    "alerts.dagger": "NAME",
    "alerts.condition": "CONDITION",
    "alerts.rule": "CONDITION",
    "comment": "--comment",
    "duration": "--for",
}
Target = Annotated[
    str,
    typer.Argument(
        metavar="INCIDENT|NAME",
        help="Incident as `daggers alerts list` and notifications show it, its first four digits at least; or"
        " the name of a dagger, `platform` or `team/NAME`.",
    ),
]
Condition = Annotated[
    str,
    typer.Argument(
        help="With NAME: the condition, such as no_progress, or a rule on rows, whose keys are all meant."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would follow.")]
_LEAST_DIGITS = 4


def acknowledge(
    session: Session,
    target: Target,
    condition_: Condition = "",
    comment: Annotated[str, typer.Option(help="What you do, for whoever reads it.")] = "",
    for_: Annotated[
        str, typer.Option("--for", help="How long: 30m, 2h, 1d; default: as long as the alert is open.")
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Acknowledge open alerts: say that you look after them, so that nobody is reminded of them.

    Needs the right to edit in the team. Their ends are notified all the same; what fires anew is not
    acknowledged. `daggers alerts unack` takes it back.
    """
    with session.connect(FLAGS) as gateway:
        request = gateway_pb2.AcknowledgeAlertsRequest(
            alerts=_select(gateway, target, condition_), comment=comment, validate_only=dry_run
        )
        if for_:
            request.duration.FromTimedelta(span("--for", for_))
        answer = gateway.call(gateway.alerts.AcknowledgeAlerts, request)
    verb = "would be acknowledged" if dry_run else "acknowledged"
    session.out.print_result(to_json(answer), _describe(answer.alerts, verb))


def unacknowledge(
    session: Session, target: Target, condition_: Condition = "", dry_run: DryRun = False
) -> None:
    """Release open alerts that somebody acknowledged: reminders of them go on.

    Needs the right to edit in the team. What nobody has acknowledged stays as it is.
    """
    with session.connect(FLAGS) as gateway:
        request = gateway_pb2.UnacknowledgeAlertsRequest(
            alerts=_select(gateway, target, condition_), validate_only=dry_run
        )
        answer = gateway.call(gateway.alerts.UnacknowledgeAlerts, request)
    verb = "would be released" if dry_run else "released"
    session.out.print_result(to_json(answer), _describe(answer.alerts, verb))


def _select(gateway: Gateway, target: str, condition_: str) -> gateway_pb2.OpenAlerts:
    """Build the selector of what is meant. Raises: RefusedError, where no open incident has such digits."""
    if not condition_:
        alert = _find_incident(gateway, target)
        return gateway_pb2.OpenAlerts(
            dagger=alert.dagger,
            condition=alert.condition,
            rule=alert.rule,
            key=alert.key,
            incident=alert.incident,
        )
    name = "ALERT_CONDITION_" + condition_.upper().replace("-", "_").replace(" ", "_")
    if name in alerts_pb2.AlertCondition.keys() and name != "ALERT_CONDITION_RULE":  # noqa: SIM118 - no mapping
        return gateway_pb2.OpenAlerts(dagger=target, condition=alerts_pb2.AlertCondition.Value(name))
    return gateway_pb2.OpenAlerts(dagger=target, condition=alerts_pb2.ALERT_CONDITION_RULE, rule=condition_)


def _find_incident(gateway: Gateway, digits: str) -> gateway_pb2.Alert:
    opened = [alert for alert in find_alerts(gateway, "") if alert.id.startswith(digits)]
    if len(digits) < _LEAST_DIGITS or not opened:
        raise RefusedError(
            f"no open incident {digits}: give four of its digits at least, as `daggers alerts list`"
            " shows them, or NAME and CONDITION"
        )
    if len(opened) > 1:
        names = ", ".join(f"{alert.id} of {alert.dagger}" for alert in opened)
        raise RefusedError(f"several open incidents begin with {digits}: {names}")
    return opened[0]


def _describe(alerts: Sequence[gateway_pb2.Alert], verb: str) -> str:
    return "\n".join(f"{verb}: {alert.id} {alert.dagger} {condition(alert)}" for alert in alerts)
