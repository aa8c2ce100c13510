"""Inhibition: an incident that is the cause of others holds them back while it lasts. Pure.

Those are kept, and told if they outlive their cause.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from fleet.alerts.routing.labels import Labels
from fleet.alerts.routing.matching import Matcher, matches_all

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inhibition:
    """Rule: an incident of `source` holds back those of `target` that share its labels of `equal`."""

    source: tuple[Matcher, ...]
    target: tuple[Matcher, ...]
    equal: tuple[str, ...] = ()


_FOLLOW: Final = (
    "unreachable",
    "no_progress",
    "no_output",
    "no_input",
    "lag_growing",
    "restart_loop",
    "partition_behind",
    "freshness_missed",
)
"""Conditions that nobody has to be told of while Kafka, or the host of the dagger, is away."""
_BEHIND: Final = ("no_progress", "no_output", "lag_growing", "freshness_missed", "sink_behind")
"""Conditions of a dagger that cannot go on with its work."""
_SOURCES: Final[Mapping[str, tuple[tuple[str, ...], Sequence[str]]]] = {
    "kafka_away": ((), _FOLLOW),
    "host_away": (("host",), _FOLLOW),
    "spark_away": (("cluster",), (*_BEHIND, "waiting_for_executors")),
    "store_away": (("store",), _BEHIND),
}
"""Conditions that are causes: labels that what follows from one shares with it, and what does."""
CAUSES: Final = (
    *(
        Inhibition(
            source=(Matcher("condition", source),), target=(Matcher("condition", condition),), equal=equal
        )
        for source, (equal, conditions) in _SOURCES.items()
        for condition in conditions
    ),
    Inhibition(source=(Matcher("condition", "kafka_away"),), target=(Matcher("condition", "host_away"),)),
)
"""Rules of what follows from what. Nothing is heard of hosts while Kafka is away."""
CAUSE_CONDITIONS: Final = frozenset(_SOURCES)
"""Labels of the conditions that are causes."""


def find_causes(incidents: Mapping[T, Labels], rules: Sequence[Inhibition]) -> dict[T, T]:
    """Return, of open incidents, those that are held back, and the cause of each: the first of several."""
    causes: dict[T, T] = {}
    for rule in rules:
        sources = [name for name, labels in incidents.items() if matches_all(rule.source, labels)]
        if not sources:
            continue
        for target, labels in incidents.items():
            if target in causes or not matches_all(rule.target, labels):
                continue
            cause = next((name for name in sources if _is_cause(name, target, incidents, rule)), None)
            if cause is not None:
                causes[target] = cause
    return causes


def _is_cause(source: T, target: T, incidents: Mapping[T, Labels], rule: Inhibition) -> bool:
    """Tell whether one holds back the other. Two that match both sides do not hold back each other."""
    if source == target:
        return False
    one, other = incidents[source], incidents[target]
    if matches_all(rule.source, other) and matches_all(rule.target, one):
        return False
    return all(one.get(label, "") == other.get(label, "") for label in rule.equal)
