"""Rules for sensitive fields of streams: without the grant they are masked columns, and used nowhere else.

Where a sensitive field decides which rows there are, or what a group holds, whoever may choose the query can
find its values out. So such a query needs the grant, and so do its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from daggers.v1 import spec_pb2

from access.decision import Decision, is_administrator
from access.principal import Principal
from daggerspec.columns import Column
from daggerspec.violation import Violation
from fleet import Fleet
from fleet.fold.tenancy import administrators

SENSITIVE: Final = "SENSITIVE_COLUMN"
DERIVE: Final = (
    "to share counts and the like, have somebody with the grant write them to a topic and register that as a"
    " stream of its own"
)
_ALL: Final = ""
"""The path of all that a stream has, where its declaration is gone."""
Origins = Iterable[tuple[str, str]]
"""Tables of a query, each with the dotted path of a field (`daggersql.Plan.origins`)."""
Place = tuple[int, int, int, int]
"""Line and column, and those of what stands behind it."""


class QueryInfluence(Protocol):
    """A place of a query where fields decide which rows there are (`daggersql.Influence`)."""

    @property
    def clause(self) -> str:
        """Clause of the query, for a sentence."""

    @property
    def origins(self) -> Origins:
        """Fields that decide."""

    @property
    def place(self) -> Place:
        """Place of the clause in the query."""


@dataclass(frozen=True, slots=True)
class RowOrigins:
    """The fields that a dagger's rows are made of, and those by which rows and groups are chosen."""

    columns: Sequence[Column]
    origins: Sequence[Origins]
    """Of each column."""
    places: Sequence[Place]
    """Of each column."""
    influences: Sequence[QueryInfluence] = ()
    conditions: Mapping[str, Origins] = field(default_factory=dict)
    """Fields by which sinks choose rows, by the specification's field that has the condition."""
    telling: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of columns by which sinks tell rows apart, or find their place, by the field of each sink."""
    rules: Mapping[str, Origins] = field(default_factory=dict)
    """Fields that alert rules read, and tell whoever is alerted of, by the field of each rule."""


def sees(principal: Principal, stream: str, fleet: Fleet) -> bool:
    """Tell whether a principal sees the sensitive fields of a stream; of one that is gone any may be."""
    entry, grant = fleet.streams.get(stream), fleet.catalogue.grants.get(stream)
    if entry is not None and not entry.value.sensitive:
        return True
    granted = grant is not None and not principal.names.isdisjoint(grant.value.read_sensitive)
    return granted or is_administrator(principal, fleet)


def unseen(principal: Principal, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> dict[str, spec_pb2.Stream]:
    """Return, by table, the streams of a specification whose sensitive fields a principal does not see."""
    return {
        stream.table: _find_stream(stream.stream, fleet)
        for stream in spec.streams
        if not sees(principal, stream.stream, fleet)
    }


def _find_stream(name: str, fleet: Fleet) -> spec_pb2.Stream:
    entry = fleet.streams.get(name)
    return spec_pb2.Stream(name=name, sensitive=[_ALL]) if entry is None else entry.value


def sensitive_paths(
    origins: Origins, streams: Mapping[str, spec_pb2.Stream]
) -> Iterator[tuple[spec_pb2.Stream, str]]:
    """Yield the sensitive paths that values of these origins are made of, whole or in part."""
    for table, path in origins:
        stream = streams.get(table)
        if stream is not None:
            read = stream.time_field if path == "rowtime" else path
            yield from ((stream, path) for path in stream.sensitive if _within(path, read))


def masked_columns(rows: RowOrigins, streams: Mapping[str, spec_pb2.Stream]) -> tuple[Column, ...]:
    """Find the columns that are masked for a principal who does not see these streams."""
    of_columns = zip(rows.columns, rows.origins, strict=True)
    return tuple(column for column, origins in of_columns if any(sensitive_paths(origins, streams)))


def check_written(
    principal: Principal, rows: RowOrigins, streams: Mapping[str, spec_pb2.Stream], fleet: Fleet
) -> Iterator[Violation]:
    """Check that no column made of sensitive fields of these streams is written to a sink."""
    for column, origins, place in zip(rows.columns, rows.origins, rows.places, strict=True):
        use = f"column {column.name} would be written to a sink: it is made of"
        yield from _violations(principal, use, "", place, sensitive_paths(origins, streams), fleet)


def check_late_records(
    principal: Principal, streams: Mapping[str, spec_pb2.Stream], fleet: Fleet
) -> Iterator[Violation]:
    """Check that no sensitive field of these streams is in late records that are kept as they were read.

    Fields of violations are below the specification.
    """
    pairs = ((stream, path) for stream in streams.values() for path in stream.sensitive)
    use = "late records would be written to a sink as they were read, with"
    yield from _violations(principal, use, "late.keep", None, pairs, fleet)


def check_deciding(
    principal: Principal, rows: RowOrigins, streams: Mapping[str, spec_pb2.Stream], fleet: Fleet
) -> Iterator[Violation]:
    """Check that no sensitive field of these streams decides which rows there are, or what groups hold.

    Fields of violations are empty for what stands in the query, and else below the specification.
    """
    for influence in rows.influences:
        use = f"{influence.clause} goes by"
        pairs = sensitive_paths(influence.origins, streams)
        yield from _violations(principal, use, "", influence.place, pairs, fleet)
    for path, origins in rows.conditions.items():
        use = "rows of a sink are chosen by"
        yield from _violations(principal, use, path, None, sensitive_paths(origins, streams), fleet)
    for path, origins in rows.rules.items():
        use = "an alert goes by, and tells of,"
        yield from _violations(principal, use, path, None, sensitive_paths(origins, streams), fleet)
    by_column = dict(zip((column.name for column in rows.columns), rows.origins, strict=True))
    for path, names in rows.telling.items():
        for name in names:
            use = f"column {name} decides which rows of a sink are one, or where they lie: it is made of"
            pairs = sensitive_paths(by_column.get(name, ()), streams)
            yield from _violations(principal, use, path, None, pairs, fleet)
    for table in streams:
        use = f"rows of table {table} come in the order of"
        pairs = sensitive_paths([(table, "rowtime")], streams)
        yield from _violations(principal, use, "streams", None, pairs, fleet)


def check_dropped(
    principal: Principal,
    before: RowOrigins | None,
    streams: Mapping[str, spec_pb2.Stream],
    remaining: Sequence[Violation],
    fleet: Fleet,
) -> Iterator[Violation]:
    """Check that an edit drops no sensitive path of these streams that the query read before.

    What was written of a dropped path would be shown by the rules of a query that has none.

    before: of the query before the edit; None: not known, so that it may have read any.
    remaining: violations by the sensitive paths that the new query reads.
    """
    paths = {(stream.name, _ALL) for stream in streams.values()}
    if before is not None:
        origins = (*before.origins, *(influence.origins for influence in before.influences))
        pairs = (pair for some in origins for pair in sensitive_paths(some, streams))
        paths = {(stream.name, path) for stream, path in pairs}
    read = {(violation.metadata["stream"], violation.metadata["path"]) for violation in remaining}
    for name, path in sorted(paths - read):
        stream = spec_pb2.Stream(name=name)
        yield from _violations(principal, "the edit no longer reads", "", None, [(stream, path)], fleet)


def _violations(
    principal: Principal,
    use: str,
    field: str,
    place: Place | None,
    pairs: Iterable[tuple[spec_pb2.Stream, str]],
    fleet: Fleet,
) -> Iterator[Violation]:
    """Yield a violation for each sensitive path; `use` begins its sentence."""
    for stream, path in pairs:
        of = f"{path} of stream {stream.name}, which is sensitive"
        if path == _ALL:
            of = f"something of stream {stream.name}, of which nobody knows any more what is sensitive"
        granted = f"{administrators(fleet.catalogue)} can grant that"
        message = f"{use} {of} and not granted to {principal.name}: {granted}"
        line, column, end_line, end_column = place or (None, None, None, None)
        metadata = {"principal": principal.name, "stream": stream.name, "path": path}
        yield Violation(
            field, message, SENSITIVE, line, column, end_line, end_column, DERIVE, metadata=metadata
        )


def refusal(violations: Sequence[Violation]) -> Decision:
    """Make the decision that violations are, for who keeps decisions; there is one at least."""
    first = violations[0]
    return Decision(False, first.reason, first.message, first.metadata)


def _within(sensitive: str, read: str) -> bool:
    if sensitive == _ALL:
        return True
    return f"{read}.".startswith(f"{sensitive}.") or f"{sensitive}.".startswith(f"{read}.")
