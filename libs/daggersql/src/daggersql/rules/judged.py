"""A rule that is ready to be judged, and the rows that it is judged on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from daggers.v1 import rules_pb2

from daggerspec import alertrules
from daggerspec.alertrules import Key
from daggersql.rules import summary
from daggersql.rules.compiled import CompiledRule, LimitComparison
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
        return measure(self.compiled.comparison, values)

    def label(self, column: str) -> str:
        """Name what a column has for a person: a number of an earlier window by the call that reads it, a
        limit as its table does.
        """
        calls = {value.column: value.text for value in self.compiled.past}
        limits = self.compiled.text.limits
        own = {} if limits is None else {limits.column(name): name for name in limits.columns}
        return {**calls, **own}.get(column, column)

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


def measure(compared: LimitComparison | None, values: Mapping[str, Any]) -> float | None:
    """Return the number of a row that is compared with the limit; None where there is none."""
    value = values.get(compared.column) if compared else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def combine(rows: Sequence[JudgedRow], compared: LimitComparison | None) -> JudgedRow:
    """Combine rows of one rule, window and key, in any order, or what was combined of some of them.

    The rule is true if it is true of one of them, and over if it is over for all. The values are those of the
    worst among the rows that it is true of, or of all where it is true of none.
    """
    is_true = any(row.is_true for row in rows)
    sign = -1 if compared is None or compared.above else 1

    def rank(row: JudgedRow) -> tuple[bool, float, str]:
        value = measure(compared, row.values)
        return value is None, sign * (value or 0.0), json.dumps(row.values, sort_keys=True)

    worst = min((row for row in rows if row.is_true or not is_true), key=rank)
    return worst._replace(is_over=all(row.is_over for row in rows))
