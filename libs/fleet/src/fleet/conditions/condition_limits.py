"""Limits of conditions: what a dagger says counts before what its team says, that before what the platform
says, that before what the settings of health monitors have. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from daggers.v1 import alerts_pb2, rules_pb2, spec_pb2

from daggerspec.conditionlimits import CONDITIONS, TIMES
from daggerspec.limits import SHARE_ENDS
from fleet.alerts.alert import PLATFORM, Condition, condition_label
from fleet.conditions.finding import Finding
from fleet.fold.catalogue import Catalogue
from fleet.health.degradation import Limits

_FIELDS: Final[Mapping[str, str]] = {
    "unreachable": "silence",
    "no_progress": "progress",
    "restart_loop": "restarts",
    "lag_growing": "lag_share",
    "no_input": "input_gap",
    "no_output": "overdue",
    "late_rows": "late_share",
    "quarantine_rate": "quarantine_share",
    "partition_behind": "behind",
    "sink_behind": "sink",
}
"""Field of `Limits` of each condition that has a limit."""


class Layer(NamedTuple):
    """Conditions of which somebody says something."""

    whose: str
    """`dagger`, `team NAME`, `platform`, or `health monitor` of what its settings say."""
    conditions: Mapping[str, rules_pb2.ConditionLimits]
    """By label."""


Layers: TypeAlias = Sequence[Layer]
"""Layers of those who say anything: the dagger before its team before the platform."""


class Setting(NamedTuple):
    """Value of a limit, and whose word it is."""

    value: float
    """In the unit of the condition; of times in seconds."""
    whose: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionSettings:
    """All that is said of one condition of a dagger; None: the default."""

    off: Setting | None = None
    limit: Setting | None = None
    clear: Setting | None = None
    hold: Setting | None = None
    after_start: Setting | None = None

    def tune(
        self, finding: Finding | None, *, firing: bool, launched: datetime | None, now: datetime
    ) -> Finding | None:
        """Apply what is said beside the limit. `launched`: time since when the driver could be heard."""
        if self.off is not None and self.off.value:
            text = f"alerts of it are off ({self.off.whose})"
            return Finding(False, text, now, final=True)
        if finding is None or firing or self.after_start is None or launched is None:
            return finding
        if now < launched + timedelta(seconds=self.after_start.value):
            return replace(finding, active=False)
        return finding


def find_layers(spec: spec_pb2.DaggerSpec, catalogue: Catalogue) -> Layers:
    """List who says anything of the conditions of a dagger."""
    layers = [Layer("dagger", spec.conditions)] if spec.conditions else []
    for team in dict.fromkeys((spec.team, PLATFORM)):
        entry = catalogue.teams.get(team)
        if entry is not None and entry.value.conditions:
            layers.append(Layer(PLATFORM if team == PLATFORM else f"team {team}", entry.value.conditions))
    return layers


def find_settings(label: str, layers: Layers) -> ConditionSettings:
    """Return what is said of one condition."""
    settings: dict[str, Any] = {}
    for whose, conditions in layers:
        entry = conditions[label] if label in conditions else None  # noqa: SIM401 - a map has no such `get`
        if entry is None:
            continue
        for name in ("off", "limit", *TIMES):
            if name not in settings and entry.HasField(name):
                value = getattr(entry, name)
                seconds = value.ToTimedelta().total_seconds() if name in TIMES else value
                settings[name] = Setting(float(seconds), whose)
                if name == "limit" and entry.HasField("clear"):  # it belongs to that limit
                    settings["clear"] = Setting(entry.clear, whose)
    return ConditionSettings(**settings)


def list_settings(layers: Layers) -> dict[Condition, ConditionSettings]:
    """Return what is said of each condition of which anything is."""
    labels = dict.fromkeys(label for layer in layers for label in layer.conditions if label in CONDITIONS)
    return {condition_of(label): find_settings(label, layers) for label in labels}


def apply_limits(limits: Limits, settings: Mapping[Condition, ConditionSettings]) -> Limits:
    """Return the limits by which a dagger is judged; the very same where nobody says any."""
    changes: dict[str, Any] = {}
    for condition, own in settings.items():
        name = _FIELDS.get(condition_label(condition))
        if name is not None and own.limit is not None:
            before = getattr(limits, name)
            is_time = isinstance(before, timedelta)
            changes[name] = timedelta(seconds=own.limit.value) if is_time else type(before)(own.limit.value)
    return replace(limits, **changes) if changes else limits


def describe_limits(limits: Limits, hold: timedelta) -> dict[str, rules_pb2.ConditionLimits]:
    """Return what holds of each condition where nobody says anything, by label."""
    described = {}
    for label in CONDITIONS:
        entry = rules_pb2.ConditionLimits()
        entry.hold.FromTimedelta(hold)
        if label in _FIELDS:
            value = getattr(limits, _FIELDS[label])
            entry.limit = value.total_seconds() if isinstance(value, timedelta) else value
        described[label] = entry
    return described


def default_clear(condition: Condition, limit: float) -> float | None:
    """Return the value at which a condition is over unless anybody says another; None where it has none."""
    kind = CONDITIONS.get(condition_label(condition))
    if kind is None or not kind.clears:
        return None
    return SHARE_ENDS * limit if kind.unit == "share" else limit - 1


def condition_of(label: str) -> Condition:
    """Return the condition of a label of the table."""
    return alerts_pb2.AlertCondition.Value(f"ALERT_CONDITION_{label.upper()}")
