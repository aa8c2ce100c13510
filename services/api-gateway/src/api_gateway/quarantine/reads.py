"""Queries of the index of `daggers.quarantine`. Calls block: run them in a thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from daggers.v1 import events_pb2, gateway_pb2, telemetry_pb2
from sqlalchemy import func, literal_column, tuple_
from sqlmodel import col, select

from api_gateway.auth.masking import Launches
from api_gateway.quarantine import choice, state
from api_gateway.quarantine.place import Place
from api_gateway.quarantine.state import RecordState
from api_gateway.state.database import Database
from api_gateway.state.tables import OutcomeRow, QuarantineRow

Quarantined = telemetry_pb2.Quarantined
NONE: Final = events_pb2.QuarantineSelection()
"""Selects all records."""
_ROWS_PER_FETCH: Final = 20
_SINK: Final = "sink"


@dataclass(frozen=True, slots=True)
class DaggerLife:
    """A dagger, and the sequence of the request that created it: earlier launches are another dagger's."""

    dagger: str
    since: int


@dataclass(frozen=True, slots=True)
class ListedRecord:
    """A record, and its state."""

    record: Quarantined
    state: RecordState
    time_ms: int
    """Kafka's timestamp in ms, which decides its retention."""
    partition: int
    """Partition that the record is in."""


@dataclass(frozen=True, slots=True)
class ReplayGroup:
    """Records that a replay treats alike."""

    stage: str
    sink: str
    truncated: bool
    needs_force: bool
    """True where they failed so often that a replay needs `force`."""
    records: int
    first: int
    """Smallest first offset of any of them; -1 where that is in another partition."""


class QuarantineReads:
    """Queries the tables of a `QuarantineIndex`.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when the database does not answer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self,
        of: DaggerLife,
        *,
        before: Place | None,
        limit: int,
        size: int,
        states: Collection[int] = (),
        selection: events_pb2.QuarantineSelection = NONE,
    ) -> tuple[list[ListedRecord], Place | None]:
        """Return records of a dagger, newest first: those behind `before`, and in one of `states` where there
        are any.

        Returns at most `limit` records, and at most `size` bytes unless the first record is larger; then the
        place where the next page begins, None at the end.
        """
        order = col(QuarantineRow.time_ms), col(QuarantineRow.offset), col(QuarantineRow.partition)
        chosen = select(QuarantineRow.partition, QuarantineRow.offset).where(*choice.of(of.dagger, of.since))
        if states:
            chosen = chosen.where(choice.states(states, of.since))
        chosen = chosen.where(*choice.conditions(selection))
        if before is not None:
            chosen = chosen.where(tuple_(*order) < before)
        # selected by the index alone: rows are large, and only those of the page are read
        places = chosen.order_by(*(column.desc() for column in order)).limit(limit + 1).subquery()
        same = (col(QuarantineRow.partition) == places.c.partition) & (
            col(QuarantineRow.offset) == places.c.offset
        )
        query = (
            select(QuarantineRow, choice.now(of.since).label("now"))
            .join(places, same)
            .order_by(*(column.desc() for column in order))
            .execution_options(yield_per=_ROWS_PER_FETCH)
        )
        listed: list[ListedRecord] = []
        last: Place | None = None
        with self._database.reading() as session, closing(session.exec(query)) as rows:
            for row, now in rows:
                size -= len(row.data)
                if len(listed) == limit or (listed and size < 0):
                    return listed, last
                listed.append(_build_listed(row, now))
                last = row.time_ms, row.offset, row.partition
        return listed, None

    def beginning(self, of: DaggerLife, start: str) -> list[ListedRecord]:
        """Return the records whose id begins so; two where several do."""
        query = (
            select(QuarantineRow, choice.now(of.since).label("now"))
            .where(*choice.of(of.dagger, of.since), col(QuarantineRow.id).startswith(start, autoescape=True))
            .order_by(col(QuarantineRow.id))
            .limit(2)
        )
        with self._database.reading() as session:
            records = [_build_listed(row, now) for row, now in session.exec(query)]
        exact = [record for record in records if record.record.id == start]
        return exact or records

    def groups(self, of: DaggerLife, *, expiring_ms: int) -> list[gateway_pb2.QuarantineGroup]:
        """Count open records of a dagger by stage, reason and sink; those from before `expiring_ms` expire
        soon.
        """
        columns = (QuarantineRow.stage, QuarantineRow.reason, QuarantineRow.sink)
        soon = func.sum(choice.one_if(col(QuarantineRow.time_ms) < expiring_ms))
        query: Any = (
            select(*columns, func.count(), func.min(QuarantineRow.set_ms), soon)  # type: ignore[call-overload] # too many
            .where(*choice.of(of.dagger, of.since), choice.states(state.NEEDED, of.since))
            .group_by(*(col(column) for column in columns))
            .order_by(*(col(column) for column in columns))
        )
        with self._database.reading() as session:
            rows = session.execute(query).all()
        groups = []
        for stage, reason, sink, records, oldest, expiring in rows:
            group = gateway_pb2.QuarantineGroup(
                dagger=of.dagger, stage=stage, reason=reason, sink=sink, records=records, expiring=expiring
            )
            group.oldest.FromMilliseconds(oldest)
            groups.append(group)
        return groups

    def replay_groups(
        self, of: DaggerLife, selection: events_pb2.QuarantineSelection
    ) -> Sequence[ReplayGroup]:
        """Group the records that a replay of a selection takes by what it does with them."""
        needs_force = (choice.attempts(of.since) >= state.MOST_ATTEMPTS).label("worn")
        columns = (
            col(QuarantineRow.stage),
            col(QuarantineRow.sink),
            col(QuarantineRow.truncated),
            needs_force,
        )
        query: Any = (
            select(*columns, func.count(), func.min(QuarantineRow.first))  # type: ignore[call-overload] # too many
            .where(*choice.of(of.dagger, of.since), *choice.replay_conditions(selection, of.since))
            .group_by(*(literal_column(str(number)) for number in range(1, 5)))
        )
        with self._database.reading() as session:
            return [
                ReplayGroup(stage, sink, bool(cut), bool(often), n, first)
                for stage, sink, cut, often, n, first in session.execute(query)
            ]

    def launches(self, of: DaggerLife, selection: events_pb2.QuarantineSelection) -> Launches:
        """Return the launches whose records a replay of a selection takes."""
        query = (
            select(QuarantineRow.generation, QuarantineRow.stage)
            .where(*choice.of(of.dagger, of.since), *choice.replay_conditions(selection, of.since))
            .distinct()
        )
        with self._database.reading() as session:
            pairs = session.exec(query).all()
        refused = frozenset(generation for generation, stage in pairs if stage == _SINK)
        return Launches(frozenset(generation for generation, _ in pairs), refused)

    def starts(self, of: DaggerLife, first: int) -> Mapping[int, int]:
        """Return, by partition with records of a dagger, the offset from which a replay must read to know
        their states.

        `first` is the smallest first offset of the records to replay. All partitions start at 0 where several
        have records: their number was changed since.
        """
        with self._database.reading() as session:
            partitions = {
                number
                for kind in (QuarantineRow, OutcomeRow)
                for number in session.exec(select(kind.partition).where(kind.dagger == of.dagger).distinct())
            }
            if len(partitions) != 1 or first < 0:
                return dict.fromkeys(partitions, 0)
            # a record after `first` may have been quarantined before it, and resolved in between: start there
            while first > 0:
                before = session.exec(
                    select(func.min(QuarantineRow.first)).where(
                        col(QuarantineRow.dagger) == of.dagger,
                        col(QuarantineRow.first) < col(QuarantineRow.offset),
                        col(QuarantineRow.first) < first,
                        col(QuarantineRow.offset) >= first,
                    )
                ).one()
                if before is None:
                    break
                first = max(before, 0)
        return dict.fromkeys(partitions, first)

    def open_in(self, of: DaggerLife, selection: events_pb2.QuarantineSelection) -> Mapping[int, int]:
        """Count the open records of a selection by partition."""
        query: Any = (
            select(QuarantineRow.partition, func.count())
            .where(*choice.of(of.dagger, of.since), choice.states(state.NEEDED, of.since))
            .where(*choice.conditions(selection))
            .group_by(col(QuarantineRow.partition))
        )
        with self._database.reading() as session:
            return {partition: records for partition, records in session.execute(query)}  # noqa: C416 - rows

    def outcomes(self, dagger: str, replay: str) -> Mapping[str, int]:
        """Count records by outcome of a replay."""
        query: Any = (
            select(OutcomeRow.outcome, func.count())
            .where(OutcomeRow.dagger == dagger, OutcomeRow.replay == replay)
            .group_by(col(OutcomeRow.outcome))
        )
        names = telemetry_pb2.QuarantineOutcome
        with self._database.reading() as session:
            return {
                names.Name(outcome).removeprefix("QUARANTINE_OUTCOME_"): records
                for outcome, records in session.execute(query)
                if outcome in names.values()
            }


def _build_listed(row: QuarantineRow, now: int) -> ListedRecord:
    record = Quarantined.FromString(row.data)
    record.id = row.id
    record_state = RecordState(
        gateway_pb2.QuarantineState.ValueType(now),
        row.attempts,
        row.why_reason,
        row.why,
        row.replay,
        row.resolved,
    )
    return ListedRecord(
        record, record_state if now == row.state else RecordState(), row.time_ms, row.partition
    )
