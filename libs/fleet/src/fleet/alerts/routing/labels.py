"""Labels of an incident: what routes, silences and inhibition match, and what Alertmanager gets. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from fleet.alerts.alert import Alert, condition_label, domain_name, severity_name

Labels: TypeAlias = Mapping[str, str]
"""Label -> value. One that an incident lacks is the same as an empty one."""
NAMES: Final = ("dagger", "condition", "severity", "team", "domain", "host", "cluster", "store", "rule")
"""Labels of incidents; those of a rule on rows have the values of its key, too: `key_COLUMN`."""
KEY: Final = "key_"
"""Prefix of those labels."""
_NOT_OF_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")


def list_labels(alert: Alert) -> Labels:
    """Return the labels of the newest incident of an alert; empty before its first."""
    if alert.fired is None:
        return {}
    labels = {
        "dagger": alert.dagger,
        "condition": condition_label(alert.condition),
        "severity": severity_name(alert.fired.severity),
        "team": alert.fired.team,
        "domain": domain_name(alert.fired.domain).lower(),
        "host": alert.fired.host,
        "cluster": alert.fired.cluster,
        "store": alert.fired.store,
        "rule": alert.rule,
        **{name_key_label(column): value for column, value in alert.key.items()},
    }
    return {name: value for name, value in labels.items() if value}


def name_key_label(column: str) -> str:
    """Return the label of a column of a key, a valid name: what may stand in none is `_` and its code point
    in hexadecimal and `_`, so that two columns have two labels.
    """
    return KEY + _NOT_OF_A_NAME.sub(lambda match: f"_{ord(match[0]):x}_", column)
