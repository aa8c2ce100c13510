"""Memory of rules between windows: the keys that a rule was true of, and since when. Plain
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from daggerspec.alertrules import Key


@dataclass(frozen=True, slots=True)
class KeyMemory:
    """A key that a rule was true of in its last window, or that fires. Times are ends of windows, in us."""

    since: int
    """The first of the windows in a row in which it was true."""
    last: int
    """The last window that had a row of it."""
    count: int
    """Windows in a row in which it was true, before it fired."""
    fires: bool = False
    has_incident: bool = False
    """True if it has an incident of its own."""
    value: float | None = None
    """Number that was compared with the limit in the last window."""


@dataclass(frozen=True, slots=True)
class RuleMemory:
    """A rule, and its keys."""

    digest: str
    """Digest of the rule."""
    keys: Mapping[Key, KeyMemory] = field(default_factory=dict)
    others: int = 0
    """Keys that fire without an incident of their own, as was last observed."""
    others_since: int = 0
    """Window in which there began to be some."""
    columns: tuple[str, ...] = ()
    """Columns of the keys."""

    @property
    def is_empty(self) -> bool:
        """True if nothing fires, and nothing may soon."""
        return not self.keys and not self.others


@dataclass(frozen=True, slots=True)
class Memory:
    """All rules of a dagger."""

    rules: Mapping[str, RuleMemory] = field(default_factory=dict)
    """Those of which something fires, or may soon, by name."""
    end: int = 0
    """Event time up to which windows were judged, in us since 1970."""

    @property
    def size(self) -> int:
        """Number of keys."""
        return sum(len(rule.keys) for rule in self.rules.values())

    def active(self, rule: str, digest: str) -> frozenset[Key]:
        """Return the keys of a rule of which every row is judged: those that fire or may soon."""
        memory = self.rules.get(rule)
        return frozenset(memory.keys) if memory is not None and memory.digest == digest else frozenset()

    def to_json(self) -> dict[str, Any]:
        """Convert it for a file."""
        rules = {
            name: {
                "digest": rule.digest,
                "others": [rule.others, rule.others_since],
                "columns": list(rule.columns),
                "keys": [
                    [list(key), one.since, one.last, one.count, one.fires, one.has_incident, one.value]
                    for key, one in rule.keys.items()
                ],
            }
            for name, rule in self.rules.items()
        }
        return {"end": self.end, "rules": rules}

    @classmethod
    def from_json(cls, memory: Mapping[str, Any]) -> Memory:
        """Convert it back. Raises: ValueError, KeyError, TypeError."""
        return cls(
            {
                name: RuleMemory(
                    rule["digest"],
                    {tuple(key): KeyMemory(*rest) for key, *rest in rule["keys"]},
                    others=rule["others"][0],
                    others_since=rule["others"][1],
                    columns=tuple(rule["columns"]),
                )
                for name, rule in memory["rules"].items()
            },
            memory["end"],
        )
