"""The key `conditions` of dagger and team files: when conditions of the platform are alerts, by condition.

conditions:
  no_progress: {limit: 10m, hold: 1m}
  late_rows: {limit: 5 %, clear: 2 %, after_start: 15m}
  no_input: off
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml
from daggers.v1 import rules_pb2
from google.protobuf.duration_pb2 import Duration

from daggerclient.daggerfile.reader import Reader
from daggerclient.times import duration
from daggerspec.conditionlimits import CONDITIONS, TIMES, LimitKind, write

_KEYS: Final = ("limit", "clear", *TIMES)
_WORDS: Final = {"off": True, "on": False}
_PERCENT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def read(reader: Reader, node: yaml.Node, path: str) -> dict[str, rules_pb2.ConditionLimits]:
    """Read the limits of each condition; notes a finding of what cannot be read."""
    return {
        label: _read_one(reader, value, f"{path}.{label}", CONDITIONS[label])
        for label, value in reader.mapping(node, path, tuple(CONDITIONS)).items()
    }


def _read_one(reader: Reader, node: yaml.Node, path: str, kind: LimitKind) -> rules_pb2.ConditionLimits:
    entry = rules_pb2.ConditionLimits()
    if isinstance(node, yaml.ScalarNode):
        entry.off = _WORDS[reader.choice(node, path, tuple(_WORDS))]
        return entry
    for key, value in reader.mapping(node, path, _KEYS).items():
        if key in TIMES:
            time = Duration()
            time.FromTimedelta(reader.duration(value, f"{path}.{key}"))
            getattr(entry, key).CopyFrom(time)
        else:
            setattr(entry, key, _read_limit(reader, value, f"{path}.{key}", kind))
    return entry


def _read_limit(reader: Reader, node: yaml.Node, path: str, kind: LimitKind) -> float:
    if kind.unit == "s":
        return reader.duration(node, path).total_seconds()
    if kind.unit == "count":
        return reader.integer(node, path, least=0, most=2**31)
    match = _PERCENT.fullmatch(node.value.strip()) if isinstance(node, yaml.ScalarNode) else None
    if match is None and kind.unit:
        reader.fail(node, path, "BAD_SHARE", f"{path} must be a share like 5 %")
    return float(match[1]) / 100 if match else 0.0  # a condition without limits refuses it


def show(conditions: Mapping[str, rules_pb2.ConditionLimits]) -> dict[str, Any]:
    """Make the value of the key: the inverse of `read`."""
    return {label: _show_one(conditions[label], CONDITIONS.get(label)) for label in sorted(conditions)}


def _show_one(entry: rules_pb2.ConditionLimits, kind: LimitKind | None) -> Any:
    if entry.HasField("off"):
        return "off" if entry.off else "on"
    unit = kind.unit if kind else ""
    values: dict[str, Any] = {
        name: write(unit, getattr(entry, name)) for name in ("limit", "clear") if entry.HasField(name)
    }
    return values | {name: duration(getattr(entry, name)) for name in TIMES if entry.HasField(name)}
