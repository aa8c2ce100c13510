"""A rule that is ready to be judged, and the rows that it is judged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from daggers.v1 import rules_pb2

from daggerspec import alertrules
from daggerspec.alertrules import Key
from daggersql.rules import summary
from daggersql.rules.compiled import CompiledRule
from daggersql.rules.memory import KeyMemory


class JudgedRow(NamedTuple):
    """Verdict of a rule on one row."""

    rule: str
    window: int
    """End of the row's window, in us since 1970."""
    key: Key
    is_true: bool
    is_over: bool
    values: Mapping[str, Any]
    """Columns that the rule reads: numbers, texts, truth values, or None."""


@dataclass(frozen=True, slots=True)
class JudgedRule:
    """A rule that is judged."""

    rule: rules_pb2.AlertRule
    compiled: CompiledRule
    slide: int
    """From the end of a window to that of the next, in us."""
    parts: tuple[summary.Part, ...]
    """Its summary."""
    digest: str

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self.rule.name

    def measure(self, values: Mapping[str, Any]) -> float | None:
        """Return the number that is compared with the limit; None where there is none."""
        compared = self.compiled.comparison
        value = values.get(compared.column) if compared else None
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def label(self, column: str) -> str:
        """Name what a column has for a person: a number of an earlier window by the call that reads it."""
        calls = (value.text for value in self.compiled.past if value.column == column)
        return next(calls, column)

    def is_long_enough(self, key: KeyMemory) -> bool:
        """Tell whether the rule was true of a key for as long as it says."""
        if self.rule.HasField("for_time"):
            return timedelta(microseconds=key.last - key.since) >= self.rule.for_time.ToTimedelta()
        return key.count >= max(self.rule.for_windows, 1)


def prepare(
    rules: Sequence[rules_pb2.AlertRule], compiled: Sequence[CompiledRule], slide: timedelta
) -> tuple[JudgedRule, ...]:
    """Prepare rules for judging. slide: of the query's windows."""
    step = slide // timedelta(microseconds=1)
    return tuple(
        JudgedRule(rule, one, step, summary.parse(rule.summary), alertrules.digest(rule))
        for rule, one in zip(rules, compiled, strict=True)
    )
