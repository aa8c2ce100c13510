"""Conditions of queries that select quarantined records by a selection and by their state."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from daggers.v1 import events_pb2
from sqlalchemy import ColumnElement, and_, case
from sqlmodel import col

from api_gateway.quarantine import state
from api_gateway.state.tables import QuarantineRow


def conditions(selection: events_pb2.QuarantineSelection) -> Iterator[ColumnElement[bool]]:
    """Yield conditions for a selection; none of them asks whether a record is open."""
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
    """Yield conditions for the launches of a dagger that was created at sequence `since`."""
    yield col(QuarantineRow.dagger) == dagger
    yield col(QuarantineRow.generation) > since


def now(since: int) -> Any:
    """Return a column with a record's state: OPEN where an earlier dagger of the name resolved it."""
    return case((_before(since), state.OPEN), else_=col(QuarantineRow.state))


def attempts(since: int) -> Any:
    """Return a column with the number of failed replays since the dagger was created."""
    return case((_before(since), 0), else_=col(QuarantineRow.attempts))


def replay(since: int) -> Any:
    """Return a column with the id of the last replay since the dagger was created; else an empty text."""
    return case((_before(since), ""), else_=col(QuarantineRow.replay))


def _before(since: int) -> ColumnElement[bool]:
    """Return a condition for records that were resolved before the dagger was created."""
    return and_(col(QuarantineRow.resolved) > 0, col(QuarantineRow.resolved) <= since)


def states(wanted: Collection[int], since: int) -> ColumnElement[bool]:
    """Return a condition for records in one of these states."""
    return now(since).in_([*wanted])  # type: ignore[no-any-return]


def replay_conditions(selection: events_pb2.QuarantineSelection, since: int) -> Iterator[ColumnElement[bool]]:
    """Yield conditions for the records that a replay takes: those that are open, or those that are named."""
    if not selection.ids:
        yield states(state.NEEDED, since)
    yield from conditions(selection)


def one_if(condition: ColumnElement[bool]) -> Any:
    """Return a column that is 1 where a condition is true, and else 0, to be summed."""
    return case((condition, 1), else_=0)
