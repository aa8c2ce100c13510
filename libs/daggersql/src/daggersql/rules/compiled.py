"""A rule as it stands in a specification, and as it can be judged. Plain values, which may be pickled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from daggers.v1 import rules_pb2

from daggerspec import alertrules
from daggersql.findings import Finding


@dataclass(frozen=True, slots=True)
class RuleText:
    """Parts of a rule that are judged by the columns of the query."""

    name: str
    when: str
    """Empty for a rule on absent rows."""
    resolve_when: str = ""
    clear: float = 0.0
    """Share of the limit by which the column must be better than it; 0: not used."""
    key: tuple[str, ...] = ()
    """Columns; empty: all tags and labels."""
    summary: str = ""
    absent: timedelta | None = None
    """For how long a key has no row; None: the rule is not on absent rows."""

    @property
    def is_of_absence(self) -> bool:
        """True if the rule is on absent rows, and has no condition."""
        return self.absent is not None


def rule_texts(rules: Iterable[rules_pb2.AlertRule]) -> tuple[RuleText, ...]:
    """Take out of rules what is judged by the columns of a query."""
    return tuple(
        RuleText(
            rule.name,
            rule.when,
            rule.resolve_when,
            rule.clear,
            tuple(rule.key),
            rule.summary,
            alertrules.absence(rule),
        )
        for rule in rules
    )


@dataclass(frozen=True, slots=True)
class LimitComparison:
    """Comparison of a column with a number, which decides a condition."""

    column: str
    limit: float
    above: bool
    """True if the condition is true above the limit, False if below."""

    def is_worse(self, value: float, other: float) -> bool:
        """Tell whether a value is further beyond the limit than another."""
        return value > other if self.above else value < other


@dataclass(frozen=True, slots=True)
class PastValue:
    """A number of an earlier window, which conditions read as a column."""

    column: str
    """Name of the column: the same for the same number and time."""
    text: str
    """The call, as it stands in the condition."""
    lag: timedelta
    number: str
    """The number, in Spark SQL over the rows, a relation that is called `row`."""
    key: tuple[str, ...]
    """Columns that tell rows of a window apart: all tags."""
    columns: tuple[str, ...]
    """Columns that the number reads."""

    @property
    def series(self) -> str:
        """Name of the series that has the number window by window: the same whatever the lag."""
        return alertrules.digest_texts((self.number, *self.key))


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """Rule that can be judged on rows."""

    text: RuleText
    when: str
    """Condition in Spark SQL over the rows, a relation that is called `row`; of a rule on absent rows it is
    true of every row.
    """
    resolve: str
    """Condition in Spark SQL under which an incident is over; empty: whenever `when` is not true."""
    key: tuple[str, ...]
    """Columns whose values have an incident each."""
    read: tuple[str, ...]
    """Columns that the condition and the summary read."""
    comparison: LimitComparison | None
    """Comparison of a column with a number that decides the condition, or the first part of it; None without
    one.
    """
    past: tuple[PastValue, ...] = ()
    """Numbers of earlier windows that the conditions read as columns."""
    origins: tuple[tuple[str, str], ...] = ()
    """Tables and dotted paths of the fields that the rule reads: conditions, key and summary."""


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """Finding about a part of a rule: `name`, `when`, `resolve_when`, `clear`, `key[0]`, `summary`,
    `absent`."""

    number: int
    part: str
    finding: Finding
