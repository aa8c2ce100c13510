"""Plan of a query, for the gateway, the runtime and the sinks: emitted SQL, reads, state and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeAlias

from google.protobuf.descriptor import Descriptor

from daggerspec.columns import Column, Role
from daggerspec.violation import Violation
from daggersql.environment import Reference
from daggersql.findings import Finding, Severity
from daggersql.rules.compiled import CompiledRule, RuleFinding

RECORD_COLUMNS: Final = frozenset({"__value", "__key", "__headers"})
"""Columns of a whole record, which a stream has with `Table.records`."""
LATE: Final = "__late"
"""Prefix of the columns that count the windows for which a row is too late."""
WINDOW: Final = "__window"
"""Column of a stream whose windows have gates: a window of the row."""
GATE: Final = "__gate"
"""Column of such a stream, and of the rows of its groups: the time at which the window's row is written."""
CLOSED: Final = "__closed"
"""Column of such a stream: the time (ms) up to which windows were closed when the record was read; of the
rows of its groups: the latest of those."""
PSEUDO_COLUMNS: Final = RECORD_COLUMNS | {"__topic", "__partition", "__offset", "__timestamp"}
"""All columns beside the fields of the message."""


@dataclass(frozen=True, slots=True)
class Table:
    """Stream that a query may read."""

    name: str
    message: Descriptor
    time_field: str
    """The message's field of type google.protobuf.Timestamp that becomes `rowtime`."""
    records: bool = False
    """True if a query may select whole records: value, key and headers."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition of WHERE on a column of texts or whole numbers. NULL never meets it."""

    column: str
    op: str
    """One of = <> < <= > >= IN."""
    values: tuple[str | int, ...]
    """Constants of the column's type: one, or several for IN."""


@dataclass(frozen=True, slots=True)
class Read:
    """Columns of a stream that must be decoded: dotted Protobuf field paths, sorted, and pseudo columns."""

    table: str
    paths: tuple[str, ...]
    equal: tuple[tuple[str, str], ...] = ()
    """Text columns and the value that each must have. The reader drops other rows, which only advance event
    time. `Plan.spark_sql` repeats the condition, `Plan.partial_aggregation` does not."""
    conditions: tuple[Condition, ...] = ()
    """Further conditions by which the reader may drop rows; the SQL repeats all of them."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Paths of fields of the message."""
        return tuple(path for path in self.paths if path not in PSEUDO_COLUMNS and path != "rowtime")

    @property
    def undecoded(self) -> bool:
        """True if records are not decoded, only passed on: then their Kafka time is their event time."""
        return not RECORD_COLUMNS.isdisjoint(self.paths) and PSEUDO_COLUMNS.issuperset(self.paths)

    @property
    def wanted(self) -> tuple[Condition, ...]:
        """All conditions on the rows that the reader passes on."""
        return (*(Condition(column, "=", (value,)) for column, value in self.equal), *self.conditions)


@dataclass(frozen=True, slots=True)
class Window:
    """Window of an aggregation, aligned to the epoch in UTC."""

    kind: str
    """TUMBLE, HOP or SESSION; size and slide of a session are its gap."""
    size: timedelta
    slide: timedelta
    gates: tuple[timedelta, ...] = ()
    """Times behind its end at which its row is written: 0 first, then again if late records have come. Empty:
    its row is written once, at its end."""

    @property
    def allowed_lateness(self) -> timedelta:
        """Time behind its end for which it takes records."""
        return self.gates[-1] if self.gates else timedelta()


def fixed_size(window: Window | None) -> Window | None:
    """Return a window of fixed size, TUMBLE or HOP; None for a session or no window."""
    return None if window is None or window.kind == "SESSION" else window


@dataclass(frozen=True, slots=True)
class Field:
    """Field of a record, by its dotted Protobuf path."""

    path: str


@dataclass(frozen=True, slots=True)
class Constant:
    """Constant number of the query."""

    value: float


@dataclass(frozen=True, slots=True)
class Call:
    """Call of our own function over Arrow arrays: `compute` in a file of runtime/functions/."""

    function: str
    arguments: tuple[Value, ...]
    takes: tuple[str, ...]
    """Spark SQL types to which the arguments are cast first."""
    type: str
    """Spark SQL type of the result."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a DOUBLE whose sums are exact; see `daggersql.exact`."""

    of: Value
    number: int


Value: TypeAlias = Field | Constant | Call | Part


@dataclass(frozen=True, slots=True)
class Partial:
    """Aggregate of the records that a row stands for."""

    function: str
    """count (of values that are not NULL), sum, min or max."""
    value: Value
    type: str
    """Spark SQL type of the aggregate."""


@dataclass(frozen=True, slots=True)
class PartialAggregation:
    """Query over rows that the reader of the stream has aggregated.

    A row of the view stands for all records of a pane with equal `keys`, and has these columns: `rowtime`,
    the first instant of the pane; `c0` … the keys; `p0` … the partials; `n`, the number of records. Records
    that do not meet `Read.equal` are left out.
    """

    spark_sql: str
    pane: timedelta
    """Length of a pane. Windows begin and end at bounds of panes, which are aligned to the epoch."""
    keys: tuple[Value, ...]
    partials: tuple[Partial, ...]
    functions: tuple[str, ...]
    """Names of our own functions that `spark_sql` calls."""
    staged: StagedQuery | None = None
    """The query in stages; see `Plan.staged`."""

    @property
    def computed(self) -> tuple[str, ...]:
        """Names of our own functions that the reader computes, each once."""
        values = [*self.keys, *(partial.value for partial in self.partials)]
        return tuple(sorted({name for value in values for name in _function_names(value)}))


def _function_names(value: Value) -> list[str]:
    match value:
        case Call(function=function, arguments=arguments):
            return [function, *(name for argument in arguments for name in _function_names(argument))]
        case Part(of=of):
            return _function_names(of)
    return []


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows that reach the first operator with state above streams, which drops late ones."""

    name: str
    """Name of the view by which the next operators read them."""
    spark_sql: str
    """Reads the tables, with more columns than `Plan.reads`: `__late0` counts the windows of the first of
    `Plan.closing` for which a row is too late, NULL for none; and so on."""
    late: tuple[tuple[str, str], ...]
    """Columns of the stage that count the same, and the table of each."""
    weight: str = ""
    """Column with the number of records that a row stands for; empty where it is one."""


@dataclass(frozen=True, slots=True)
class StagedQuery:
    """Query in stages, so that rows can be counted between them. Its rows are those of the whole query."""

    spark_sql: str
    """Reads the stages."""
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class GroupBound:
    """Limit of the values of a group for aggregates of one kind."""

    kind: str
    """`list` for lists of values, or `distinct` for counts of distinct ones."""
    functions: tuple[str, ...]
    most: int
    beyond: str
    """Sentence about groups with more values."""


@dataclass(frozen=True, slots=True)
class RowCondition:
    """Condition that selects rows of a query for one receiver."""

    text: str
    """Condition in the dialect, unchanged."""
    spark_sql: str
    """Condition in Spark SQL over the rows, a relation that is called `row`."""
    functions: tuple[str, ...]
    """Names of our own functions that it calls."""
    origins: tuple[tuple[str, str], ...] = ()
    """Tables and dotted paths of the fields that it reads."""


Place: TypeAlias = tuple[int, int, int, int]
"""Line and column of a part of a text, and those just behind it, counted as in a `Finding`."""


@dataclass(frozen=True, slots=True)
class Influence:
    """Place of the query where fields decide which rows there are, or what a group contains."""

    clause: str
    """Clause, for a sentence: WHERE, ON, HAVING, GROUP BY, PARTITION BY, ORDER BY, UNNEST, a window, an
    aggregate, an ORDER BY whose first rows are equal."""
    origins: tuple[tuple[str, str], ...]
    """Tables and dotted paths of the fields."""
    place: Place
    """Place of the clause."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Query that may run."""

    spark_sql: str
    """Reads temporary views named as the tables; always generated, never the user's text."""
    reads: tuple[Read, ...]
    window: Window | None
    """None: a forwarding query, or one with more than one window or with joins."""
    horizon: timedelta
    """Time behind the newest record within which it still needs records, for windows and joins; 0: none."""
    lookback: timedelta
    """Maximum by which a record that a row needs is older than the row's window or time; the begins of
    sessions are not included."""
    columns: tuple[Column, ...]
    hidden: tuple[str, ...]
    """Further output columns, in order after the visible ones; docs/contracts.md says which."""
    functions: tuple[str, ...]
    """Names of our own functions that it calls, in lower case: files of runtime/functions/."""
    fingerprint: str
    """Identity of the state in a checkpoint: equal fingerprints may share one."""
    warnings: tuple[Finding, ...]
    references: tuple[Reference, ...] = ()
    """Reference tables that it reads; one may appear more than once, with other needs."""
    partial_aggregation: PartialAggregation | None = None
    """Query over rows that the reader has aggregated, with equal groups; None where that is not possible."""
    closing: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    """By table: the windows whose closing makes a record late. A join is a window of kind JOIN, as long as it
    waits for joins on its sides. None where rows only pass."""
    staged: StagedQuery | None = None
    """The query in stages, where Spark must count late rows: WHERE has conditions that the reader cannot
    evaluate, or rows are not records. None: the reader counts late rows, or there are none."""
    finds_late_where_read: bool = False
    """True if rows may be late, and the reader knows which: it counts them."""
    lookahead: timedelta = timedelta()
    """Maximum by which a record that a row needs is newer than the end of the row's window, or its time."""
    key: tuple[str, ...] = ()
    """Visible columns that identify a row: a bound of its window, and its keys. Empty where one of these is
    not visible."""
    bounds: tuple[GroupBound, ...] = ()
    """Bounds of its groups: one for each kind of aggregates."""
    origins: tuple[tuple[tuple[str, str], ...], ...] = ()
    """For each of `columns`: tables and dotted paths of the fields that its values are made of."""
    copies: tuple[tuple[str, str] | None, ...] = ()
    """For each of `columns`: table and dotted path of the field that it copies unchanged; None where it is
    computed."""
    places: tuple[Place, ...] = field(default=(), compare=False)
    """For each of `columns`: place of its name, or of its expression if it has none."""
    influences: tuple[Influence, ...] = ()
    """Fields that decide which rows there are, in the order of the text. A field that no influence and no
    column reads changes no byte of the rows."""
    conditions: tuple[RowCondition, ...] = ()
    """Conditions on its rows that were passed to the check and have no errors; no part of the query."""
    rules: tuple[CompiledRule, ...] = ()
    """Alert rules on its rows that were passed to the check and have no errors; no part of the query."""

    @property
    def condition_functions(self) -> tuple[str, ...]:
        """Names of our own functions that its conditions call."""
        return tuple(sorted({name for condition in self.conditions for name in condition.functions}))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check: `plan` is None exactly when a finding is an error."""

    plan: Plan | None
    findings: tuple[Finding, ...]
    conditions: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """Findings about each condition on its rows that has errors; only with a plan."""
    rules: tuple[RuleFinding, ...] = ()
    """Findings about alert rules that have errors; only with a plan."""

    def wrong_conditions(self, path: str, conditions: Sequence[str]) -> Iterator[Violation]:
        """Yield the errors of conditions; `path`: the list whose items have one each, as `when`."""
        for number, condition in enumerate(conditions):
            for finding in self.conditions.get(condition, ()):
                if finding.severity is Severity.ERROR:
                    yield finding.violation(f"{path}[{number}].when")

    def wrong_rules(self, path: str) -> Iterator[Violation]:
        """Yield the errors of rules; `path`: the list that has the rules."""
        for wrong in self.rules:
            if wrong.finding.severity is Severity.ERROR:
                yield wrong.finding.violation(f"{path}[{wrong.number}].{wrong.part}")


__all__ = [
    "Call",
    "CheckResult",
    "Column",
    "Condition",
    "Constant",
    "Field",
    "GroupBound",
    "Influence",
    "Part",
    "Partial",
    "PartialAggregation",
    "Plan",
    "Read",
    "Role",
    "RowCondition",
    "Stage",
    "StagedQuery",
    "Table",
    "Value",
    "Window",
]
