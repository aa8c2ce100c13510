"""Find the daggers that an edit of another one breaks: they read the stream that it writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from daggers.v1 import spec_pb2

from access.sensitive import Origins, RowOrigins
from api_gateway.validate.edit_plan import Revision
from api_gateway.validate.topic_ownership import written_topics
from daggersql import Plan
from fleet import Dagger, Fleet

Trace = Callable[[str, spec_pb2.DaggerSpec], Awaitable[RowOrigins | None]]
"""Traces the rows of a dagger to the fields that it reads; None where its query cannot be checked."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Columns that the rows of a stream lack after an edit of its writer."""

    stream: spec_pb2.Stream
    column: str = ""
    """The column that no row has any more; empty: there are no rows any more."""

    def sentence(self, readers: str) -> str:
        """Say what is lost, and for whom."""
        name = self.stream.name
        if not self.column:
            return f"stream {name} gets no rows from it any more, and is read by {readers}"
        if self.column == self.stream.time_field:
            return (
                f"stream {name} loses its event time, {self.column}: every record is quarantined by {readers}"
            )
        return f"stream {name} loses column {self.column}, which is NULL from then on for {readers}"


def find_losses(name: str, before: Plan | None, after: Revision, fleet: Fleet) -> Iterator[Loss]:
    """Yield what the streams lose that dagger `name` writes. Pure."""
    written = set(written_topics(after.spec, fleet).values())
    columns = {column.name for column in after.plan.columns} if after.plan else None
    gone = (
        [column.name for column in before.columns if column.name not in columns] if before and columns else []
    )
    for _, entry in sorted(fleet.streams.items()):
        stream = entry.value
        if stream.writer != name:
            continue
        if written.isdisjoint((stream.cluster, topic) for topic in stream.topics):
            yield Loss(stream)
        else:
            yield from (Loss(stream, column) for column in gone)


async def warn_of_losses(
    losses: Iterable[Loss], fleet: Fleet, trace: Trace, readable: Collection[str] | None
) -> AsyncIterator[str]:
    """Yield a sentence for each loss that a dagger notices.

    readable: the teams whose daggers the caller sees; None: all teams.
    """
    reads: dict[str, list[tuple[Dagger, Collection[str] | None]]] = {}
    for loss in losses:
        name = loss.stream.name
        if name not in reads:
            reads[name] = [(one, await _read_fields(one, name, trace)) for one in _readers(name, fleet)]
        readers = [one for one, fields in reads[name] if _needs(loss, fields)]
        if readers:
            yield loss.sentence(_list_readers(readers, readable))


def _readers(stream: str, fleet: Fleet) -> Sequence[Dagger]:
    """Return the living daggers that read a stream, by name."""
    living = (fleet.living(name) for name in sorted(fleet.daggers))
    return [
        dagger
        for dagger in living
        if dagger is not None and any(input_.stream == stream for input_ in dagger.spec.streams)
    ]


async def _read_fields(reader: Dagger, stream: str, trace: Trace) -> Collection[str] | None:
    """Return the paths of the fields of a stream that a dagger reads; None where that is not known."""
    rows = await trace(reader.name, reader.spec)
    if rows is None:
        return None
    tables = {input_.table for input_ in reader.spec.streams if input_.stream == stream}
    origins: list[Origins] = [*rows.origins, *rows.conditions.values()]
    origins += [influence.origins for influence in rows.influences]
    return {path for fields in origins for table, path in fields if table in tables or "" in tables}


def _needs(loss: Loss, fields: Collection[str] | None) -> bool:
    """Return whether a reader of these fields notices a loss. Each reads the event time."""
    if fields is None or not loss.column or loss.column == loss.stream.time_field:
        return True
    return any(path == loss.column or path.startswith(f"{loss.column}.") for path in fields)


def _list_readers(readers: Sequence[Dagger], readable: Collection[str] | None) -> str:
    """List daggers by name; those that the caller may not see are counted."""
    names = [one.name for one in readers if readable is None or one.spec.team in readable]
    hidden = len(readers) - len(names)
    if hidden:
        names.append(f"{hidden} of other teams" if names else f"{hidden} daggers of other teams")
    return ", ".join(names)
