"""Who sees sensitive fields of streams; by all others they are read as masked columns and nowhere else.

What a sensitive field decides beside its columns, that is which rows there are and what a group holds, tells
its values to anybody who may choose the query. So nobody chooses it without the grant, and nobody without it
sees rows that were chosen so.
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


class Influence(Protocol):
    """A place of a query where fields decide which rows there are (`daggersql.Influence`)."""

    @property
    def clause(self) -> str:
        """Where they decide, for a sentence."""

    @property
    def origins(self) -> Origins:
        """Which fields."""

    @property
    def place(self) -> Place:
        """Where that stands."""


@dataclass(frozen=True, slots=True)
class Made:
    """What the rows of a dagger are made of, and by what there are just these."""

    columns: Sequence[Column]
    origins: Sequence[Origins]
    """Of each column."""
    places: Sequence[Place]
    """Of each column."""
    influences: Sequence[Influence] = ()
    conditions: Mapping[str, Origins] = field(default_factory=dict)
    """What sinks choose rows by, by the field of the specification that says it."""
    telling: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of columns by which sinks tell rows apart, or find their place, by the field of each sink."""


def sees(principal: Principal, stream: str, fleet: Fleet) -> bool:
    """Whether a principal sees the sensitive fields of a stream; nobody knows which one had that is gone."""
    entry, grant = fleet.streams.get(stream), fleet.catalogue.grants.get(stream)
    if entry is not None and not entry.value.sensitive:
        return True
    granted = grant is not None and not principal.names.isdisjoint(grant.value.read_sensitive)
    return granted or is_administrator(principal, fleet)


def unseen(principal: Principal, spec: spec_pb2.DaggerSpec, fleet: Fleet) -> dict[str, spec_pb2.Stream]:
    """By table: the streams of a specification whose sensitive fields a principal does not see."""
    return {
        stream.table: _declared(stream.stream, fleet)
        for stream in spec.streams
        if not sees(principal, stream.stream, fleet)
    }


def _declared(name: str, fleet: Fleet) -> spec_pb2.Stream:
    entry = fleet.streams.get(name)
    return spec_pb2.Stream(name=name, sensitive=[_ALL]) if entry is None else entry.value


def touched(
    origins: Origins, streams: Mapping[str, spec_pb2.Stream]
) -> Iterator[tuple[spec_pb2.Stream, str]]:
    """The sensitive paths that values of these origins are made of, whole or in part."""
    for table, path in origins:
        stream = streams.get(table)
        if stream is not None:
            read = stream.time_field if path == "rowtime" else path
            yield from ((stream, path) for path in stream.sensitive if _within(path, read))


def hidden(made: Made, streams: Mapping[str, spec_pb2.Stream]) -> tuple[Column, ...]:
    """The columns that are masked for who does not see these streams."""
    of_columns = zip(made.columns, made.origins, strict=True)
    return tuple(column for column, origins in of_columns if any(touched(origins, streams)))


def written(
    principal: Principal, made: Made, streams: Mapping[str, spec_pb2.Stream], fleet: Fleet
) -> Iterator[Violation]:
    """The columns that a principal who does not see these streams may not have written to a sink."""
    for column, origins, place in zip(made.columns, made.origins, made.places, strict=True):
        what = f"column {column.name} would be written to a sink: it is made of"
        yield from _violations(principal, what, "", place, touched(origins, streams), fleet)


def deciding(
    principal: Principal, made: Made, streams: Mapping[str, spec_pb2.Stream], fleet: Fleet
) -> Iterator[Violation]:
    """Where sensitive fields of these streams decide which rows there are, or what groups hold.

    Fields of violations are empty for what stands in the query, and else below the specification.
    """
    for influence in made.influences:
        what = f"{influence.clause} goes by"
        pairs = touched(influence.origins, streams)
        yield from _violations(principal, what, "", influence.place, pairs, fleet)
    for path, origins in made.conditions.items():
        what = "rows of a sink are chosen by"
        yield from _violations(principal, what, path, None, touched(origins, streams), fleet)
    named = dict(zip((column.name for column in made.columns), made.origins, strict=True))
    for path, names in made.telling.items():
        for name in names:
            what = f"column {name} decides which rows of a sink are one, or where they lie: it is made of"
            yield from _violations(principal, what, path, None, touched(named.get(name, ()), streams), fleet)
    for table in streams:
        what = f"rows of table {table} come in the order of"
        pairs = touched([(table, "rowtime")], streams)
        yield from _violations(principal, what, "streams", None, pairs, fleet)


def dropped(
    principal: Principal,
    before: Made | None,
    streams: Mapping[str, spec_pb2.Stream],
    remaining: Sequence[Violation],
    fleet: Fleet,
) -> Iterator[Violation]:
    """The sensitive paths of these streams that an edit no longer reads: what was written of them would be
    judged by a query that has none. `before` None: nobody knows what it read; `remaining`: what
    the new one reads.
    """
    paths = {(stream.name, _ALL) for stream in streams.values()}
    if before is not None:
        origins = (*before.origins, *(influence.origins for influence in before.influences))
        pairs = (pair for some in origins for pair in touched(some, streams))
        paths = {(stream.name, path) for stream, path in pairs}
    read = {(violation.metadata["stream"], violation.metadata["path"]) for violation in remaining}
    for name, path in sorted(paths - read):
        stream = spec_pb2.Stream(name=name)
        yield from _violations(principal, "the edit no longer reads", "", None, [(stream, path)], fleet)


def _violations(
    principal: Principal,
    what: str,
    field: str,
    place: Place | None,
    pairs: Iterable[tuple[spec_pb2.Stream, str]],
    fleet: Fleet,
) -> Iterator[Violation]:
    """One for each sensitive path at a place."""
    for stream, path in pairs:
        of = f"{path} of stream {stream.name}, which is sensitive"
        if path == _ALL:
            of = f"something of stream {stream.name}, of which nobody knows any more what is sensitive"
        granted = f"{administrators(fleet.catalogue)} can grant that"
        message = f"{what} {of} and not granted to {principal.name}: {granted}"
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
