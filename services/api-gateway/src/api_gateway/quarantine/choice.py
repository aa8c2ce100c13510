"""Which records are meant: a selection, and what has become of them, as conditions of a query."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from daggers.v1 import events_pb2
from sqlalchemy import ColumnElement, and_, case
from sqlmodel import col

from api_gateway.quarantine import state
from api_gateway.state.tables import QuarantineRow


def conditions(selection: events_pb2.QuarantineSelection) -> Iterator[ColumnElement[bool]]:
    """What a selection says of a record; nothing of whether it is open."""
    columns = (
        (selection.ids, QuarantineRow.id),
        (selection.reasons, QuarantineRow.reason),
        (selection.sinks, QuarantineRow.sink),
        ((selection.stage,) if selection.stage else (), QuarantineRow.stage),
    )
    for values, column in columns:
        if values:
            yield col(column).in_([*values])
    if selection.HasField("since"):
        yield col(QuarantineRow.set_ms) >= selection.since.ToMilliseconds()
    if selection.HasField("until"):
        yield col(QuarantineRow.set_ms) < selection.until.ToMilliseconds()


def of(dagger: str, since: int) -> Iterator[ColumnElement[bool]]:
    """The records of a dagger's launches behind `since`, the sequence of the request that created it."""
    yield col(QuarantineRow.dagger) == dagger
    yield col(QuarantineRow.generation) > since


def now(since: int) -> Any:
    """What has become of a record: of an earlier dagger of the name nothing counts."""
    return case((_before(since), state.OPEN), else_=col(QuarantineRow.state))


def attempts(since: int) -> Any:
    """How often it has failed again, likewise."""
    return case((_before(since), 0), else_=col(QuarantineRow.attempts))


def replay(since: int) -> Any:
    """The last replay that meant it, likewise."""
    return case((_before(since), ""), else_=col(QuarantineRow.replay))


def _before(since: int) -> ColumnElement[bool]:
    """It became what it is before then."""
    return and_(col(QuarantineRow.resolved) > 0, col(QuarantineRow.resolved) <= since)


def states(wanted: Collection[int], since: int) -> ColumnElement[bool]:
    """It is in one of these states."""
    return now(since).in_([*wanted])  # type: ignore[no-any-return]


def meant(selection: events_pb2.QuarantineSelection, since: int) -> Iterator[ColumnElement[bool]]:
    """What a replay means: what is open, and what is named."""
    if not selection.ids:
        yield states(state.NEEDED, since)
    yield from conditions(selection)


def one_if(condition: ColumnElement[bool]) -> Any:
    """1 where it holds, to be summed."""
    return case((condition, 1), else_=0)
