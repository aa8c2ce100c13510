"""Matchers of labels: `severity=critical`, `dagger!=trial_*`. Pure.

A `*` in the value stands for any characters, also none. There are no regular expressions: a pattern of a team
costs every monitor, at each look, and a glob costs no more than the length of the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fleet.alerts.routing.labels import Labels

_MATCHER: Final = re.compile(r"\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(!?=)\s*(.*?)\s*", re.DOTALL)
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Matcher:
    """Condition on one label."""

    label: str
    pattern: str
    is_negated: bool = False

    def matches(self, labels: Labels) -> bool:
        """Tell whether the label has such a value; a label that is missing is empty."""
        return _fits(self.pattern, labels.get(self.label, "")) != self.is_negated

    @property
    def literal(self) -> str | None:
        """The only value that it matches; None where it matches others."""
        return None if self.is_negated or "*" in self.pattern else self.pattern

    def __str__(self) -> str:
        """Write it as `parse_matcher` reads it."""
        return f"{self.label}{'!=' if self.is_negated else '='}{self.pattern}"


def parse_matcher(text: str) -> Matcher:
    """Parse LABEL=VALUE or LABEL!=VALUE. Raises: ValueError that says what it must be."""
    match = _MATCHER.fullmatch(text)
    if match is None or len(text) > _LONGEST:
        raise ValueError(f"must be LABEL=VALUE or LABEL!=VALUE, and {text[:80]!r} is neither")
    return Matcher(match[1], match[3], is_negated=match[2] == "!=")


def matches_all(matchers: Iterable[Matcher], labels: Labels) -> bool:
    """Tell whether all matchers match; no matcher matches everything."""
    return all(matcher.matches(labels) for matcher in matchers)


def _fits(pattern: str, value: str) -> bool:
    head, *rest = pattern.split("*")
    if not rest:
        return pattern == value
    *middle, tail = rest
    position, end = len(head), len(value) - len(tail)
    if position > end or not value.startswith(head) or not value.endswith(tail):
        return False
    for part in middle:  # the leftmost place of each part leaves most for those behind it
        start = value.find(part, position, end)
        if start < 0:
            return False
        position = start + len(part)
    return True
