"""Names: what a column, a dotted path, a stream stands for; did-you-mean when it stands for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from google.protobuf.empty_pb2 import Empty

from daggersql.findings import Report, Rewrite, Span, instead, quote_constant, unless
from daggersql.ir.expr import Expr, Ref, call, column, wrong
from daggersql.ir.ops import Op
from daggersql.ir.relations import GroupWindow, Relation, Stream
from daggersql.ir.types import (
    ROWTIME,
    Array,
    EnumText,
    MapOf,
    Message,
    Struct,
    Type,
    of_message,
    unwrap,
)  # fmt: skip
from daggersql.ir.walk import METADATA, RECORD
from daggersql.limits import Budget
from daggersql.operators.fields import TIME_FIELDS
from daggersql.plan import Table
from daggersql.syntax import tree
from daggersql.syntax.cursor import quote_path, span_of

# Suggestions look this deep into messages; a schema may be recursive, and large.
_DEPTH, _MOST = 3, 2_000


@dataclass(frozen=True, slots=True)
class MissingTime:
    """The event time that a sub-query could have, and has not."""

    name: str
    """Name that its column would have."""
    column: str
    """The column, with its name."""
    rewrite: Rewrite
    """The change of the text that adds it."""


@dataclass(frozen=True, slots=True)
class UnreadableName:
    """Name that SELECT gives, in a clause that cannot read it: only GROUP BY can."""

    why: str
    """Message about it."""
    text: str | None = None
    """Text to write instead; None without a suggestion."""


@dataclass(frozen=True, slots=True)
class Source:
    """Source of FROM, with the name that the query gives it."""

    alias: str
    columns: Mapping[str, Expr]
    """Every column in the order of SELECT *, as an expression over the relation; metadata last."""
    relation: Relation
    where: Expr | None = None
    """Condition on its rows."""
    table: Table | None = None
    """The stream, when it is one and nothing else."""
    window: GroupWindow | None = None
    """Of a table-valued window: what grouping by its bounds means."""
    missing: MissingTime | None = None
    """Of a sub-query without event time."""
    unknown: bool = False
    """True if it may have further columns, as its schema is not known."""


def stream_columns(table: Table) -> dict[str, Type]:
    """Map the columns of a stream to types: fields, rowtime, metadata; and whole records if allowed."""
    fields = dict(of_message(table.message).fields())
    fields.pop("rowtime", None)
    return {**fields, "rowtime": ROWTIME, **METADATA, **(RECORD if table.records else {})}


def stream(alias: str, table: Table, name: str) -> Source:
    """Build the source of a stream."""
    columns = {
        field: column(Ref(name, (field,)), kind, (0, 0), (table.name, field))
        for field, kind in stream_columns(table).items()
    }
    return Source(alias, columns, Stream(table, name), table=table)


def unknown_stream(alias: str, table: str, name: str) -> Source:
    """Build the source of a stream without a known schema: it has the columns of every stream."""
    return replace(stream(alias, Table(table, Empty.DESCRIPTOR, "rowtime"), name), unknown=True)


@dataclass(slots=True)
class Scope:
    """The names that one SELECT can see."""

    sources: Sequence[Source]
    report: Report
    tables: Sequence[Table]
    """All streams of the dagger, for suggestions."""
    budget: Budget = field(default_factory=Budget)
    given: Mapping[str, UnreadableName] = field(default_factory=dict)
    """The names that SELECT gives."""

    def column(self, parts: Sequence[tree.Identifier]) -> Expr:
        """Resolve a name with its dotted fields; return a `wrong` placeholder, with findings, on errors."""
        first, span = parts[0].name, (span_of(parts[0])[0], span_of(parts[-1])[1])
        qualified = [source for source in self.sources if source.alias == first] if len(parts) > 1 else []
        if qualified:
            sources, fields, name = qualified, parts[2:], parts[1]
        else:
            sources, fields, name = list(self.sources), parts[1:], parts[0]
        owners = [(source, column) for source in sources if (column := source.columns.get(name.name))]
        if len(owners) > 1:
            choices = ", ".join(f"{source.alias}.{name.name}" for source, _ in owners)
            self.report.error(
                "AMBIGUOUS_COLUMN",
                span_of(name),
                f"{name.name} may be any of {choices}: name the table.",
                choices,
            )
            return wrong(span)
        if not owners:
            if not any(source.unknown for source in sources):
                self._unknown(parts, name, qualified)
            return wrong(span)
        column = owners[0][1]
        self.budget.spend(column.size, span)
        value = replace(column, span=(span[0], span_of(name)[1]))
        for field_ in fields:
            value = self.field(value, field_)
        return value

    def has(self, name: tree.Identifier) -> bool:
        """Tell whether a column has this name."""
        return any(name.name in source.columns for source in self.sources)

    @property
    def may_have_more(self) -> bool:
        """True if unknown names may be columns."""
        return any(source.unknown for source in self.sources)

    def is_value(self, name: tree.Identifier, other: Expr) -> bool:
        """Report a name that is no column but a value of the enum beside it; True if it is."""
        if not isinstance(other.type, EnumText) or self.has(name):
            return False
        values = other.type.values
        right = next((value for value in values if value.upper() == name.name.upper()), None)
        if right is None:
            columns = [column for source in self.sources for column in source.columns]
            right = self.report.nearest(name.name, [*values, *columns])
        if right not in values:
            return False
        enum_name = other.read[1] if other.read else "The enum"
        text = f"There is no column {name.name}, and {enum_name} has the value {right}: text is quoted."
        self.report.error(
            "UNKNOWN_COLUMN", span_of(name), text, instead(span_of(name), quote_constant(right))
        )
        return True

    def field(self, value: Expr, name: tree.Identifier) -> Expr:
        """Check a field of a message, a Timestamp or a Duration."""
        span = (value.span[0], span_of(name)[1])
        if value.wrong:
            return wrong(span)
        kind = value.type
        if (kind, name.name) in TIME_FIELDS:
            op, result = TIME_FIELDS[kind, name.name]
            return call(op, result, span, value)
        if name.name == "value" and (inside := unwrap(kind)) is not None:
            return replace(value, type=inside, span=span)
        names = (
            list(kind.fields())
            if isinstance(kind, Message | Struct)
            else [n for t, n in TIME_FIELDS if t == kind]
        )
        if isinstance(kind, Message | Struct) and (below := kind.fields().get(name.name)) is not None:
            read = (value.read[0], f"{value.read[1]}.{name.name}") if value.read else None
            if value.ref is not None:
                return column(value.ref.below(name.name), below, span, read)
            return Expr(Op.FIELD, below, span, (value,), name=name.name, read=read)
        self._unknown_field(value, name, names)
        return wrong(span)

    def stars(self, alias: tree.Identifier | None, span: Span) -> list[tuple[str, Expr]]:
        """List the columns of *, with their names: never the metadata."""
        sources = [source for source in self.sources if alias is None or source.alias == alias.name]
        if alias is not None and not sources:
            self._unknown_table(alias)
        return [
            (name, replace(column, span=span))
            for source in sources
            for name, column in source.columns.items()
            if name not in METADATA and name not in RECORD
        ]

    def event_time(self) -> str | None:
        """Return the query's name of an event time; None without one."""
        for source in self.sources:
            times = [name for name, value in source.columns.items() if value.is_event_time]
            if times:
                name = "rowtime" if "rowtime" in times else times[0]
                alone = sum(name in source.columns for source in self.sources) == 1
                return quote_path(name) if alone else f"{source.alias}.{quote_path(name)}"
        return None

    def missing_time(self) -> MissingTime | None:
        """Find a sub-query that could select an event time; None without one."""
        return next((source.missing for source in self.sources if source.missing), None)

    # --- what is wrong ---------------------------------------------------------------------------------

    def _unknown(
        self, parts: Sequence[tree.Identifier], unknown: tree.Identifier, owners: Sequence[Source]
    ) -> None:
        """Report a name that nothing has, and suggest the nearest."""
        sources = owners or self.sources
        names = [name for source in sources for name in source.columns]
        qualified = len(parts) > 1 and any(parts[1].name in source.columns for source in self.sources)
        if qualified and not owners:
            self._unknown_table(parts[0])
            return
        if unknown.name == "rowtime" and self._say_timeless(unknown):
            return
        if unknown is parts[0] and (given := self.given.get(unknown.name)) is not None:
            self.report.error(
                "UNKNOWN_COLUMN", span_of(unknown), given.why, instead(span_of(unknown), given.text)
            )
            return
        suggestion = self.report.nearest(unknown.name, names) or self._nearest_path(unknown.name, sources)
        elsewhere = [
            table.name
            for table in self.tables
            if unknown.name in table.message.fields_by_name and table not in {s.table for s in sources}
        ]
        tables = ", ".join(dict.fromkeys(source.alias for source in sources)) or "the query"
        otherwise = f"; {elsewhere[0]} has it" if elsewhere else ""
        self.report.error(
            "UNKNOWN_COLUMN",
            span_of(unknown),
            f"There is no column {unknown.name} in {tables}{unless(suggestion, otherwise)}.",
            instead(span_of(unknown), suggestion and quote_path(suggestion)),
        )

    def _say_timeless(self, name: tree.Identifier) -> bool:
        """Say that no sub-query has an event time, and how one gets it; whether that is so."""
        missing = None if self.event_time() else self.missing_time()
        if missing is not None:
            self.report.error(
                "UNKNOWN_COLUMN",
                span_of(name),
                f"The sub-query has no event time: add {missing.column} to its columns.",
                missing.rewrite,
            )
        return missing is not None

    def _unknown_table(self, name: tree.Identifier) -> None:
        aliases = [source.alias for source in self.sources]
        suggestion = self.report.nearest(name.name, aliases) or (aliases[0] if aliases else None)
        self.report.error(
            "UNKNOWN_TABLE",
            span_of(name),
            f"No table of FROM is called {name.name}.",
            instead(span_of(name), suggestion and quote_path(suggestion)),
        )

    def _unknown_field(self, value: Expr, name: tree.Identifier, names: Sequence[str]) -> None:
        value_name = value.read[1] if value.read else "This value"
        match value.type:
            case Array():
                why = f": it is a list, take one element first, as in {value_name}[1]"
            case MapOf():
                why = f": it is a map, write {value_name}['{name.name}']"
            case Message() as message if (reason := message.unread().get(name.name)) is not None:
                why = f" that can be read: {reason}"
            case _ if not names:
                why = ": it is not a message"
            case _:
                why = ""
        suggestion = self.report.nearest(name.name, names)
        self.report.error(
            "UNKNOWN_FIELD",
            span_of(name),
            f"{value_name} has no field {name.name}{why}.",
            instead(span_of(name), suggestion),
        )

    def _nearest_path(self, name: str, sources: Sequence[Source]) -> str | None:
        """Find a dotted path whose last name is near."""
        by_leaf: dict[str, str] = {}
        for source in sources:
            message = source.table.message if source.table else None
            for count, path in enumerate(_paths(of_message(message), "", _DEPTH) if message else ()):
                if count == _MOST:
                    break
                if path.partition(".")[0] in source.columns:
                    by_leaf.setdefault(path.rpartition(".")[2], path)
        leaf = self.report.nearest(name, by_leaf)
        return by_leaf[leaf] if leaf else None


def _paths(message: Message, prefix: str, depth: int) -> Iterator[str]:
    for name, kind in message.fields().items():
        yield prefix + name
        if isinstance(kind, Message) and depth > 1:
            yield from _paths(kind, f"{prefix}{name}.", depth - 1)
