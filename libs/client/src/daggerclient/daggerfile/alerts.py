"""The key `alerts` of a dagger file: rules on the rows of the query."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from daggers.v1 import rules_pb2

from daggerclient.daggerfile.reader import Reader
from daggerclient.times import duration
from daggerspec.limits import RULE_WINDOWS

KEYS: Final = (
    "name", "when", "for", "absent", "resolve_when", "clear", "key", "limits", "severity", "summary",
    "runbook",
)  # fmt: skip
LIMITS_KEYS: Final = ("reference", "key", "columns")
SEVERITIES: Final = {
    "warning": rules_pb2.RULE_SEVERITY_WARNING,
    "error": rules_pb2.RULE_SEVERITY_ERROR,
    "critical": rules_pb2.RULE_SEVERITY_CRITICAL,
}
_TEXTS: Final = ("name", "when", "resolve_when", "summary", "runbook")
_WINDOWS: Final = re.compile(r"(\d{1,9})\s+windows?")
_PERCENT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_LATER: Final = {
    "on": "a rule is judged on final rows alone",
}


def read(reader: Reader, node: yaml.Node, path: str) -> rules_pb2.AlertRule:
    """Read one rule; notes a finding of what cannot be read."""
    rule = rules_pb2.AlertRule()
    values = reader.mapping(node, path, (*KEYS, *_LATER), ("name",))
    if values and not values.keys() & {"when", "absent"}:
        reader.fail(node, f"{path}.when", "MISSING_KEY", "when is missing, or absent in its place")
    for name, why in _LATER.items():
        if name in values:
            reader.fail(values[name], f"{path}.{name}", "NOT_SUPPORTED_YET", f"{path}.{name}: {why}")
    for name in _TEXTS:
        if name in values:
            setattr(rule, name, reader.text(values[name], f"{path}.{name}"))
    if "for" in values:
        _read_for(reader, values["for"], f"{path}.for", rule)
    if "absent" in values:
        rule.absent.FromTimedelta(reader.duration(values["absent"], f"{path}.absent", positive=True))
    if "clear" in values:
        rule.clear = _read_share(reader, values["clear"], f"{path}.clear")
    if "limits" in values:
        _read_limits(reader, values["limits"], f"{path}.limits", rule.limits)
    if "severity" in values:
        rule.severity = SEVERITIES[reader.choice(values["severity"], f"{path}.severity", tuple(SEVERITIES))]
    if "key" in values:
        rule.key.extend(_read_columns(reader, values["key"], f"{path}.key"))
    return rule


def _read_columns(reader: Reader, node: yaml.Node, path: str) -> list[str]:
    return [reader.text(item, inner) for inner, item in reader.items(node, path, of="columns")]


def _read_limits(reader: Reader, node: yaml.Node, path: str, limits: rules_pb2.RuleLimits) -> None:
    values = reader.mapping(node, path, LIMITS_KEYS, ("reference", "key"))
    limits.SetInParent()
    if "reference" in values:
        limits.reference = reader.text(values["reference"], f"{path}.reference")
    for name in ("key", "columns"):
        if name in values:
            getattr(limits, name).extend(_read_columns(reader, values[name], f"{path}.{name}"))


def _read_for(reader: Reader, node: yaml.Node, path: str, rule: rules_pb2.AlertRule) -> None:
    value = node.value.strip() if isinstance(node, yaml.ScalarNode) else ""
    if (match := _WINDOWS.fullmatch(value)) is None:
        rule.for_time.FromTimedelta(reader.duration(node, path, positive=True))
        return
    rule.for_windows = int(match[1])
    if not 1 <= rule.for_windows <= RULE_WINDOWS:
        reader.fail(node, path, "BAD_DURATION", f"{path} must be from 1 to {RULE_WINDOWS:,} windows")


def _read_share(reader: Reader, node: yaml.Node, path: str) -> float:
    match = _PERCENT.fullmatch(node.value.strip()) if isinstance(node, yaml.ScalarNode) else None
    share = float(match[1]) / 100 if match else 0.0
    if not 0 < share <= 1:
        reader.fail(node, path, "BAD_SHARE", f"{path} must be a share of the limit like 20 %")
    return share


def show(rule: rules_pb2.AlertRule) -> dict[str, Any]:
    """Make the value of the key for one rule: the inverse of `read`."""
    words = {number: word for word, number in SEVERITIES.items()}
    values: dict[str, Any] = {"name": rule.name}
    if rule.when:
        values["when"] = rule.when
    if rule.HasField("absent"):
        values["absent"] = duration(rule.absent)
    if rule.for_windows:
        values["for"] = f"{rule.for_windows} window{'s' if rule.for_windows > 1 else ''}"
    elif rule.HasField("for_time"):
        values["for"] = duration(rule.for_time)
    if rule.resolve_when:
        values["resolve_when"] = rule.resolve_when
    if rule.clear:
        values["clear"] = f"{rule.clear * 100:.12g} %"
    if rule.key:
        values["key"] = list(rule.key)
    if rule.HasField("limits"):
        parts = {"key": rule.limits.key, "columns": rule.limits.columns}
        lists = {name: list(columns) for name, columns in parts.items() if columns}
        values["limits"] = {"reference": rule.limits.reference, **lists}
    if rule.severity in words:
        values["severity"] = words[rule.severity]
    return values | {name: text for name in ("summary", "runbook") if (text := getattr(rule, name))}
