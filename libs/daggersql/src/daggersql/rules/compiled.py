"""A rule as it stands in a specification, and as it can be judged. Plain values, which may be pickled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from daggers.v1 import rules_pb2

from daggerspec import alertrules
from daggerspec.columns import LIMIT
from daggersql.findings import Finding


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """Limits of a reference table that a rule reads by key, as columns of the rows."""

    reference: str
    key: tuple[str, ...]
    """Columns of the query whose values are a key of the table."""
    columns: tuple[str, ...]
    """Columns of the table, all of numbers."""

    @property
    def present(self) -> str:
        """Name of the column that says whether the table has the row's key: the same for the same key."""
        return LIMIT + alertrules.digest_texts((self.reference, *self.key))

    def column(self, name: str) -> str:
        """Name the column that has a column of the table: the same for the same number."""
        return LIMIT + alertrules.digest_texts((self.reference, *self.key, "", name))


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
    limits: RuleLimits | None = None

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
            _limits(rule) if rule.HasField("limits") else None,
        )
        for rule in rules
    )


def _limits(rule: rules_pb2.AlertRule) -> RuleLimits:
    return RuleLimits(rule.limits.reference, tuple(rule.limits.key), alertrules.limit_columns(rule.limits))


@dataclass(frozen=True, slots=True)
class LimitComparison:
    """Comparison of a column with a limit, which decides a condition."""

    column: str
    limit: float | None
    """None: each row has its own, of a reference table."""
    above: bool
    """True if the condition is true above the limit, False if below."""
    limit_column: str = ""
    """The column that has it where each row has its own."""

    def find_limit(self, values: Mapping[str, Any]) -> float | None:
        """Return the limit of a row by the values of its columns; None where it has none."""
        return values.get(self.limit_column) if self.limit is None else self.limit

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
class SeasonalBand:
    """Band around the usual numbers of a key: a call of `outside`."""

    text: str
    """The call, as it stands in the condition."""
    number_text: str
    """The number, as it stands there."""
    number: str
    """The number, in Spark SQL over the rows, a relation that is called `row`."""
    key: tuple[str, ...]
    """Columns that tell rows of a window apart: all tags."""
    columns: tuple[str, ...]
    """Columns that the number reads."""
    band: float
    """Usual distances from the median that a number may lie from it."""
    season: str
    """One of `sketch.SEASONS`."""

    @property
    def series(self) -> str:
        """Name of what is remembered for it: the same whatever the band."""
        return alertrules.digest_texts((self.number, *self.key, self.season))

    def is_same(self, other: SeasonalBand) -> bool:
        """Tell whether another call has the same answer, however it is written."""
        return (self.series, self.band) == (other.series, other.band)


class ConditionPair(NamedTuple):
    """Conditions of a rule, in Spark SQL over the rows: it is true, and its incident is over."""

    when: str
    resolve: str
    """Empty: whenever `when` is not true."""


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
    """Comparison of a column with a limit that decides the condition, or the first part of it; None without
    one.
    """
    past: tuple[PastValue, ...] = ()
    """Numbers of earlier windows that the conditions read as columns."""
    band: SeasonalBand | None = None
    """Call of `outside`, which the driver answers before it judges; then `when` and `resolve` are empty."""
    answers: tuple[ConditionPair, ...] = ()
    """The rule where the number is outside, where it is inside, and where too little is known."""
    origins: tuple[tuple[str, str], ...] = ()
    """Tables and dotted paths of the fields that the rule reads: conditions, key and summary."""


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """Finding about a part of a rule: `name`, `when`, `resolve_when`, `clear`, `key[0]`, `summary`,
    `absent`, `limits.reference`, `limits.key[0]`, `limits.columns[0]`."""

    number: int
    part: str
    finding: Finding
