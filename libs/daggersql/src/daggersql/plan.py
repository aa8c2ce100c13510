"""What a query needs and gives, for those who run it: the gateway, the runtime, the sinks."""

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

RECORD_COLUMNS: Final = frozenset({"__value", "__key", "__headers"})
"""What a stream has beside the fields of its message where `Table.records` says so."""
LATE: Final = "__late"
"""How the columns begin that say how many windows a row is too late for."""
PSEUDO_COLUMNS: Final = RECORD_COLUMNS | {"__topic", "__partition", "__offset", "__timestamp"}
"""And what it always has."""


@dataclass(frozen=True, slots=True)
class Table:
    """A stream that a query may read."""

    name: str
    message: Descriptor
    time_field: str
    """The message's field of type google.protobuf.Timestamp that becomes `rowtime`."""
    records: bool = False
    """Whether a query may have its records as they are: value, key and headers."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What WHERE asks of a column of text or whole numbers. NULL never meets it."""

    column: str
    op: str
    """One of = <> < <= > >= IN."""
    values: tuple[str | int, ...]
    """One, but for IN; of the column's kind."""


@dataclass(frozen=True, slots=True)
class Read:
    """What must be decoded of a stream: dotted Protobuf field paths, sorted, and pseudo columns."""

    table: str
    paths: tuple[str, ...]
    equal: tuple[tuple[str, str], ...] = ()
    """Text columns and the value each must have: whoever reads leaves other rows out, which only move event
    time. `Plan.spark_sql` asks for it again, `Plan.partial_aggregation` does not."""
    conditions: tuple[Condition, ...] = ()
    """What else rows must meet that are not left out; the SQL asks for all of it again."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The paths that lead into the message."""
        return tuple(path for path in self.paths if path not in PSEUDO_COLUMNS and path != "rowtime")

    @property
    def undecoded(self) -> bool:
        """Whether nothing of a record is looked at but its bytes: its Kafka time is its event time."""
        return not RECORD_COLUMNS.isdisjoint(self.paths) and PSEUDO_COLUMNS.issuperset(self.paths)

    @property
    def wanted(self) -> tuple[Condition, ...]:
        """All that rows must meet which are not left out."""
        return (*(Condition(column, "=", (value,)) for column, value in self.equal), *self.conditions)


@dataclass(frozen=True, slots=True)
class Window:
    """The window of an aggregation, aligned to the epoch in UTC."""

    kind: str
    """TUMBLE, HOP or SESSION, whose size and slide are its gap."""
    size: timedelta
    slide: timedelta


def sized(window: Window | None) -> Window | None:
    """The window where it has a size of its own, TUMBLE or HOP; else None."""
    return None if window is None or window.kind == "SESSION" else window


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record, by its dotted Protobuf path."""

    path: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that the query writes out."""

    value: float


@dataclass(frozen=True, slots=True)
class Call:
    """A function of our own over Arrow arrays: `compute` in a file of runtime/functions/."""

    function: str
    arguments: tuple[Value, ...]
    takes: tuple[str, ...]
    """Spark SQL types that the arguments are made first."""
    type: str
    """Spark SQL type of what it gives."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the parts of a DOUBLE whose sums are exact; see `daggersql.exact`."""

    of: Value
    number: int


Value: TypeAlias = Field | Constant | Call | Part


@dataclass(frozen=True, slots=True)
class Partial:
    """An aggregate of the records that a row stands for."""

    function: str
    """count (of what is not NULL), sum, min or max."""
    value: Value
    type: str
    """Spark SQL type of the aggregate."""


@dataclass(frozen=True, slots=True)
class PartialAggregation:
    """The same query for whoever reads the stream and adds up what it has read.

    A row of the view then stands for all records of a pane that agree in `keys`, and has these columns:
    `rowtime`, the first instant of the pane; `c0` … the keys; `p0` … the partials; `n`, how many records.
    Records whose text columns are not `equal` to what they must be are not among them.
    """

    spark_sql: str
    pane: timedelta
    """Windows begin and end between panes; panes are aligned to the epoch."""
    keys: tuple[Value, ...]
    partials: tuple[Partial, ...]
    functions: tuple[str, ...]
    """Names of our own functions that `spark_sql` calls."""
    staged: Staged | None = None
    """As in `Plan`."""

    @property
    def computed(self) -> tuple[str, ...]:
        """Names of our own functions that whoever reads computes, each once."""
        values = [*self.keys, *(partial.value for partial in self.partials)]
        return tuple(sorted({name for value in values for name in _called(value)}))


def _called(value: Value) -> list[str]:
    match value:
        case Call(function=function, arguments=arguments):
            return [function, *(name for argument in arguments for name in _called(argument))]
        case Part(of=of):
            return _called(of)
    return []


@dataclass(frozen=True, slots=True)
class Stage:
    """Rows as they come to the first thing above streams that keeps state, which drops what is too late."""

    name: str
    """Of the view by which what follows reads them."""
    spark_sql: str
    """Reads the tables, and columns of theirs beside those of `Plan.reads`: `__late0` says how many of the
    windows of the first of `Plan.closing` a row is too late for, NULL where none is; and so on."""
    late: tuple[tuple[str, str], ...]
    """Its columns that say the same of a row, and the table that each is about."""
    weight: str = ""
    """Its column that says how many records a row stands for; empty where it is one."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A query in stages, so that rows can be counted between them: the same rows as of the whole."""

    spark_sql: str
    """Reads the stages."""
    stages: tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """How many values of a group aggregates of one kind have an answer for."""

    kind: str
    """`list` of what came, or count of what is `distinct`."""
    functions: tuple[str, ...]
    most: int
    beyond: str
    """What becomes of a group that has more, in a sentence."""


@dataclass(frozen=True, slots=True)
class RowCondition:
    """Which of a query's rows somebody wants."""

    text: str
    """As it was asked."""
    spark_sql: str
    """Over the rows, as a relation that is called `row`."""
    functions: tuple[str, ...]
    """Names of our own functions that it calls."""
    origins: tuple[tuple[str, str], ...] = ()
    """Tables and dotted paths of the fields that it goes by."""


Place: TypeAlias = tuple[int, int, int, int]
"""Line and column of a part of a text, and those of what stands behind it, as in a `Finding`."""


@dataclass(frozen=True, slots=True)
class Influence:
    """A place of the query where fields decide which rows there are, or what a group holds."""

    clause: str
    """Where they decide, for a sentence: WHERE, ON, HAVING, GROUP BY, PARTITION BY, ORDER BY, UNNEST, a
    window, an aggregate, an ORDER BY whose first rows are equal."""
    origins: tuple[tuple[str, str], ...]
    """Tables and dotted paths of the fields."""
    place: Place
    """Where that stands."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A query that may run."""

    spark_sql: str
    """Reads temporary views named as the tables; always generated, never the user's text."""
    reads: tuple[Read, ...]
    window: Window | None
    """None: a forwarding query, or one with more than one window or with joins."""
    horizon: timedelta
    """How far behind the newest record it still needs records: windows and bounds of joins. 0: not at all."""
    lookback: timedelta
    """How long before its window, or its own time, the oldest record may lie that a row needs; where its
    sessions began is not in it."""
    columns: tuple[Column, ...]
    hidden: tuple[str, ...]
    """Further output columns, in order after the visible ones; docs/contracts.md says which."""
    functions: tuple[str, ...]
    """Names of our own functions it calls, in lower case: files of runtime/functions/."""
    fingerprint: str
    """Identity of the state in a checkpoint: equal fingerprints may share one."""
    warnings: tuple[Finding, ...]
    references: tuple[Reference, ...] = ()
    """Reference tables it reads; one may stand here more than once, with other needs."""
    partial_aggregation: PartialAggregation | None = None
    """Where it can be: the same groups, from rows that whoever reads has added up."""
    closing: Mapping[str, tuple[Window, ...]] = field(default_factory=dict)
    """By table: the windows that a record comes too late for once they are closed. A join is one of kind
    JOIN, as long as it waits for joins on its sides; none where rows only pass."""
    staged: Staged | None = None
    """The query in stages, where Spark has to count what comes too late: WHERE asks for what whoever reads
    cannot judge, or rows are not records. None: whoever reads counts them, or none comes too late."""
    lookahead: timedelta = timedelta()
    """How long after its window's end, or its own time, the newest record may lie that a row needs."""
    key: tuple[str, ...] = ()
    """The visible columns that tell a row from all others: a bound of its window, and what it is grouped by.
    None where some of that is not seen."""
    bounds: tuple[Bound, ...] = ()
    """Bounds of its groups: one for each kind that its aggregates have."""
    origins: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Of each of `columns`: tables and dotted paths of the fields that its values are made of."""
    copies: tuple[tuple[str, str] | None, ...] = ()
    """Of each of `columns`: the table and the dotted path of the field that its values are, as they stand in
    the records; None where they are computed."""
    places: tuple[Place, ...] = field(default=(), compare=False)
    """Of each of `columns`: where its name stands, or what it is when it has none of its own."""
    influences: tuple[Influence, ...] = ()
    """All that decides which rows there are beside the records themselves, in the order of the text. What no
    influence and no column reads can change without a byte of the rows changing."""
    conditions: tuple[RowCondition, ...] = ()
    """Those that were asked for its rows, and with which nothing is wrong: no part of the query."""

    @property
    def condition_functions(self) -> tuple[str, ...]:
        """Names of our own functions that its conditions call."""
        return tuple(sorted({name for condition in self.conditions for name in condition.functions}))


@dataclass(frozen=True, slots=True)
class Checked:
    """The answer about a text: `plan` is None exactly when a finding is an error."""

    plan: Plan | None
    findings: tuple[Finding, ...]
    conditions: Mapping[str, tuple[Finding, ...]] = field(default_factory=dict)
    """What was found about each condition on its rows that is wrong, where there is a plan."""

    def wrong_conditions(self, path: str, conditions: Sequence[str]) -> Iterator[Violation]:
        """What is wrong with conditions, those of a list whose items have one each, as `when`."""
        for number, condition in enumerate(conditions):
            for finding in self.conditions.get(condition, ()):
                if finding.severity is Severity.ERROR:
                    yield finding.violation(f"{path}[{number}].when")


__all__ = [
    "Bound",
    "Call",
    "Checked",
    "Column",
    "Condition",
    "Constant",
    "Field",
    "Influence",
    "Part",
    "Partial",
    "PartialAggregation",
    "Plan",
    "Read",
    "Role",
    "RowCondition",
    "Stage",
    "Staged",
    "Table",
    "Value",
    "Window",
]
