"""What is asked of the index of `daggers.quarantine`. Calls block: run them in a thread."""

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
from api_gateway.quarantine.state import Became
from api_gateway.state.database import Database
from api_gateway.state.tables import OutcomeRow, QuarantineRow

Quarantined = telemetry_pb2.Quarantined
NONE: Final = events_pb2.QuarantineSelection()
"""Selects all."""
_FETCHED: Final = 20
_SINK: Final = "sink"


@dataclass(frozen=True, slots=True)
class Born:
    """A dagger, and the sequence of the request that created it: launches before it are another's."""

    dagger: str
    since: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A record, and what has become of it."""

    record: Quarantined
    became: Became
    time_ms: int
    """Kafka's timestamp: retention goes by it."""
    partition: int
    """Where it stands."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Records that a replay would treat alike."""

    stage: str
    sink: str
    truncated: bool
    worn: bool
    """Whether they have failed again as often as they may without `force`."""
    records: int
    first: int
    """The first place of any of them; -1 where that is in another partition."""


class QuarantineReads:
    """Reads the tables of a `QuarantineIndex`.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when the database does not answer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self,
        of: Born,
        *,
        before: Place | None,
        limit: int,
        size: int,
        states: Collection[int] = (),
        selection: events_pb2.QuarantineSelection = NONE,
    ) -> tuple[list[Listed], Place | None]:
        """Records of a dagger, newest first; those behind `before` only, and in one of `states` if any.

        At most `limit`, and no more than `size` bytes, but one. Then where the next page begins; None at the
        end.
        """
        order = col(QuarantineRow.time_ms), col(QuarantineRow.offset), col(QuarantineRow.partition)
        chosen = select(QuarantineRow.partition, QuarantineRow.offset).where(*choice.of(of.dagger, of.since))
        if states:
            chosen = chosen.where(choice.states(states, of.since))
        chosen = chosen.where(*choice.conditions(selection))
        if before is not None:
            chosen = chosen.where(tuple_(*order) < before)
        # Chosen by the index alone: a table of large rows is not looked at for what is not shown.
        places = chosen.order_by(*(column.desc() for column in order)).limit(limit + 1).subquery()
        same = (col(QuarantineRow.partition) == places.c.partition) & (
            col(QuarantineRow.offset) == places.c.offset
        )
        query = (
            select(QuarantineRow, choice.now(of.since).label("now"))
            .join(places, same)
            .order_by(*(column.desc() for column in order))
            .execution_options(yield_per=_FETCHED)
        )
        listed: list[Listed] = []
        last: Place | None = None
        with self._database.reading() as session, closing(session.exec(query)) as rows:
            for row, now in rows:
                size -= len(row.data)
                if len(listed) == limit or (listed and size < 0):
                    return listed, last
                listed.append(_listed(row, now))
                last = row.time_ms, row.offset, row.partition
        return listed, None

    def beginning(self, of: Born, start: str) -> list[Listed]:
        """The records whose id begins so: two where it is not one."""
        query = (
            select(QuarantineRow, choice.now(of.since).label("now"))
            .where(*choice.of(of.dagger, of.since), col(QuarantineRow.id).startswith(start, autoescape=True))
            .order_by(col(QuarantineRow.id))
            .limit(2)
        )
        with self._database.reading() as session:
            records = [_listed(row, now) for row, now in session.exec(query)]
        exact = [record for record in records if record.record.id == start]
        return exact or records

    def groups(self, of: Born, *, expiring_ms: int) -> list[gateway_pb2.QuarantineGroup]:
        """Open records of a dagger by stage, reason and sink; those from before `expiring_ms` expire soon."""
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

    def meant(self, of: Born, selection: events_pb2.QuarantineSelection) -> Sequence[Kind]:
        """What a replay of a selection means, by what it would do with it."""
        worn = (choice.attempts(of.since) >= state.MOST_ATTEMPTS).label("worn")
        columns = (col(QuarantineRow.stage), col(QuarantineRow.sink), col(QuarantineRow.truncated), worn)
        query: Any = (
            select(*columns, func.count(), func.min(QuarantineRow.first))  # type: ignore[call-overload] # too many
            .where(*choice.of(of.dagger, of.since), *choice.meant(selection, of.since))
            .group_by(*(literal_column(str(number)) for number in range(1, 5)))
        )
        with self._database.reading() as session:
            return [
                Kind(stage, sink, bool(cut), bool(often), n, first)
                for stage, sink, cut, often, n, first in session.execute(query)
            ]

    def launches(self, of: Born, selection: events_pb2.QuarantineSelection) -> Launches:
        """The launches of which a replay of a selection means records."""
        query = (
            select(QuarantineRow.generation, QuarantineRow.stage)
            .where(*choice.of(of.dagger, of.since), *choice.meant(selection, of.since))
            .distinct()
        )
        with self._database.reading() as session:
            pairs = session.exec(query).all()
        refused = frozenset(generation for generation, stage in pairs if stage == _SINK)
        return Launches(frozenset(generation for generation, _ in pairs), refused)

    def starts(self, of: Born, first: int) -> Mapping[int, int]:
        """For each partition that has something of a dagger, where to begin to read it: then all is known of
        the records that stand behind that.

        `first` is the first place of those that are meant. From 0 on where several partitions have some:
        somebody has changed how many there are.
        """
        with self._database.reading() as session:
            partitions = {
                number
                for kind in (QuarantineRow, OutcomeRow)
                for number in session.exec(select(kind.partition).where(kind.dagger == of.dagger).distinct())
            }
            if len(partitions) != 1 or first < 0:
                return dict.fromkeys(partitions, 0)
            # What stands behind it, and was there before it, too: it may have been closed in between.
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

    def open_in(self, of: Born, selection: events_pb2.QuarantineSelection) -> Mapping[int, int]:
        """How many open records a selection means, by partition."""
        query: Any = (
            select(QuarantineRow.partition, func.count())
            .where(*choice.of(of.dagger, of.since), choice.states(state.NEEDED, of.since))
            .where(*choice.conditions(selection))
            .group_by(col(QuarantineRow.partition))
        )
        with self._database.reading() as session:
            return {partition: records for partition, records in session.execute(query)}  # noqa: C416 - rows

    def outcomes(self, dagger: str, replay: str) -> Mapping[str, int]:
        """How many records have each outcome of a replay."""
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


def _listed(row: QuarantineRow, now: int) -> Listed:
    record = Quarantined.FromString(row.data)
    record.id = row.id
    became = Became(
        gateway_pb2.QuarantineState.ValueType(now),
        row.attempts,
        row.why_reason,
        row.why,
        row.replay,
        row.resolved,
    )
    return Listed(record, became if now == row.state else Became(), row.time_ms, row.partition)
