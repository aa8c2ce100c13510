"""Inhibition: an incident that is the cause of others holds them back while it lasts. Pure.

Those are kept, and told if they outlive their cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from fleet.alerts.routing.labels import Labels
from fleet.alerts.routing.matching import Matcher, matches_all

T = TypeVar("T", bound=Hashable)
_CONDITION: Final = "condition"


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
            source=(Matcher(_CONDITION, source),), target=(Matcher(_CONDITION, condition),), equal=equal
        )
        for source, (equal, conditions) in _SOURCES.items()
        for condition in conditions
    ),
    Inhibition(source=(Matcher(_CONDITION, "kafka_away"),), target=(Matcher(_CONDITION, "host_away"),)),
)
"""Rules of what follows from what. Nothing is heard of hosts while Kafka is away."""
CAUSE_CONDITIONS: Final = frozenset(_SOURCES)
"""Labels of the conditions that are causes."""


def find_causes(incidents: Mapping[T, Labels], rules: Sequence[Inhibition]) -> dict[T, T]:
    """Return, of open incidents, those that are held back, and the cause of each: the first of several."""
    causes: dict[T, T] = {}
    by_condition = defaultdict[str, list[T]](list)
    for name, labels in incidents.items():
        by_condition[labels.get(_CONDITION, "")].append(name)
    for rule in rules:
        sources = list(_find_matching(rule.source, incidents, by_condition))
        if not sources:
            continue
        for target in _find_matching(rule.target, incidents, by_condition):
            if target in causes:
                continue
            cause = next((name for name in sources if _is_cause(name, target, incidents, rule)), None)
            if cause is not None:
                causes[target] = cause
    return causes


def _find_matching(
    matchers: Sequence[Matcher], incidents: Mapping[T, Labels], by_condition: Mapping[str, Sequence[T]]
) -> Iterator[T]:
    """Yield the incidents that all matchers match; few are looked at where one names a condition."""
    conditions = (matcher.literal for matcher in matchers if matcher.label == _CONDITION)
    condition = next((one for one in conditions if one is not None), None)
    candidates = incidents if condition is None else by_condition.get(condition, ())
    return (name for name in candidates if matches_all(matchers, incidents[name]))


def _is_cause(source: T, target: T, incidents: Mapping[T, Labels], rule: Inhibition) -> bool:
    """Tell whether one holds back the other. Two that match both sides do not hold back each other."""
    if source == target:
        return False
    one, other = incidents[source], incidents[target]
    if matches_all(rule.source, other) and matches_all(rule.target, one):
        return False
    return all(one.get(label, "") == other.get(label, "") for label in rule.equal)
