"""Labels of an incident: what routes, silences and inhibition match. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from daggers.v1 import alerts_pb2, events_pb2

from fleet.alerts.alert import Alert, condition_name, severity_name

Labels: TypeAlias = Mapping[str, str]
"""Label -> value. One that an incident lacks is the same as an empty one."""
NAMES: Final = ("dagger", "condition", "severity", "team", "domain")
"""Labels of every incident."""


def list_labels(alert: Alert) -> Labels:
    """Return the labels of the newest incident of an alert; empty before its first."""
    if alert.fired is None:
        return {}
    labels = {
        "dagger": alert.dagger,
        "condition": condition_name(alert.condition).replace(" ", "_"),
        "severity": severity_name(alert.fired.severity),
        "team": alert.fired.team,
        "domain": _name_domain(alert.fired),
    }
    return {name: value for name, value in labels.items() if value}


def _name_domain(fired: alerts_pb2.AlertFired) -> str:
    if not fired.domain:
        return ""
    return events_pb2.ErrorDomain.Name(fired.domain).removeprefix("ERROR_DOMAIN_").lower()
