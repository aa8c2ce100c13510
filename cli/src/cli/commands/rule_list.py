"""`daggers alerts rules`: the rules of a dagger, and what becomes of each now."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from daggers.v1 import gateway_pb2, rules_pb2, telemetry_pb2

from cli.commands.alert_text import find_alerts
from cli.framework.session import Session
from cli.output.vitals import NONE, describe_learning
from daggerclient.times import duration, iso
from daggerspec.alertrules import format_key, severity

Name = Annotated[str, typer.Argument(metavar="NAME", help="The dagger.")]
_COLUMNS = ("RULE", "FIRES WHEN", "FOR", "SEVERITY", "NOW")


def list_rules(session: Session, name: Name) -> None:
    """List the alert rules of a dagger: when each fires, and whether it does now, or is learning."""
    with session.connect({"name": "NAME"}) as gateway:
        answer = gateway.call(gateway.daggers.GetDagger, gateway_pb2.GetDaggerRequest(name=name))
        fires = [alert for alert in find_alerts(gateway, name, resolved=False) if alert.rule]
    learning = {one.rule: one for one in answer.dagger.vitals.learning_rules}
    rules = list(answer.dagger.spec.alerts)
    documents = [_build_document(rule, fires, learning.get(rule.name)) for rule in rules]
    rows = list(build_rows(rules, fires, learning))
    session.out.show(documents, lambda out: out.table(_COLUMNS, rows, empty="it has no rules"))


def _build_document(
    rule: rules_pb2.AlertRule,
    fires: Sequence[gateway_pb2.Alert],
    learning: telemetry_pb2.LearningRule | None,
) -> dict[str, Any]:
    return {
        "rule": rule.name,
        "fires_when": _describe_cause(rule),
        "for": _hold(rule),
        "severity": _name_severity(rule),
        "firing": [dict(alert.key) for alert in fires if alert.rule == rule.name],
        "learning": learning is not None,
        "learns_until": iso(learning.until) if learning is not None and learning.HasField("until") else None,
    }


def build_rows(
    rules: Sequence[rules_pb2.AlertRule],
    fires: Sequence[gateway_pb2.Alert],
    learning: Mapping[str, telemetry_pb2.LearningRule],
) -> Iterator[tuple[str, ...]]:
    """Yield a row of the table for each rule. fires: open alerts of rules. learning: by name of the rule."""
    for rule in rules:
        yield (
            rule.name,
            _describe_cause(rule),
            _hold(rule),
            _name_severity(rule),
            _state([alert for alert in fires if alert.rule == rule.name], learning.get(rule.name)),
        )


def _describe_cause(rule: rules_pb2.AlertRule) -> str:
    if rule.HasField("absent"):
        return f"no row for {duration(rule.absent)}"
    return f"{rule.when}, limits of {rule.limits.reference}" if rule.HasField("limits") else rule.when


def _name_severity(rule: rules_pb2.AlertRule) -> str:
    return rules_pb2.RuleSeverity.Name(severity(rule)).removeprefix("RULE_SEVERITY_").lower()


def _hold(rule: rules_pb2.AlertRule) -> str:
    if rule.HasField("absent"):
        return NONE
    if rule.HasField("for_time"):
        return duration(rule.for_time)
    windows = max(rule.for_windows, 1)
    return f"{windows} window{'' if windows == 1 else 's'}"


def _state(fires: Sequence[gateway_pb2.Alert], learning: telemetry_pb2.LearningRule | None) -> str:
    if fires:
        return f"fires: {'; '.join(format_key(alert.key) or 'all rows' for alert in fires)}"
    return NONE if learning is None else describe_learning(learning)
