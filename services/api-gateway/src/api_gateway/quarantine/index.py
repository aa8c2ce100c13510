"""The index of `daggers.quarantine`: its records by dagger, what became of them, and how far it is read.

The topic is the truth: rows come and go with its records, and all are dropped when other code made them.
Calls block: run them in a thread.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from daggers.v1 import telemetry_pb2
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable
from sqlmodel import col, delete, insert, select, update

from api_gateway.quarantine import choice, state
from api_gateway.quarantine.choice import conditions
from api_gateway.quarantine.place import Position, digest
from api_gateway.quarantine.state import Became
from api_gateway.quarantine.topic import Message
from api_gateway.state.database import Database
from api_gateway.state.tables import OutcomeRow, PartitionRow, QuarantineRow
from daggerspec import fields, setaside
from eventlog import read_record

Row = dict[str, Any]
K = TypeVar("K", bound=Hashable)
_STEP: Final = 5_000
_ASKED: Final = 500
"""So many ids are asked for in one statement."""


class QuarantineIndex:
    """The tables in one database; made ready by `prepare`. What they hold is read by `reads`.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when the database does not answer.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        kinds: list[Any] = [PartitionRow, QuarantineRow, OutcomeRow]
        self._tables = [kind.__table__ for kind in kinds]

    def prepare(self) -> dict[int, Position]:
        """Create the tables, anew when other code made them; answers how far each partition is read."""
        columns = PartitionRow.partition, PartitionRow.next, PartitionRow.last, PartitionRow.shape
        try:
            with self.database.reading() as session:
                rows = session.exec(select(*columns)).all()
        except SQLAlchemyError:
            rows = []
        anew = any(shape != self._shape for *_, shape in rows)
        self.database.create(self._tables, anew=anew)
        return {} if anew else {number: Position(next_, last) for number, next_, last, _ in rows}

    def write(self, messages: Sequence[Message]) -> None:
        """Take in messages that follow what is held; those that are held change nothing."""
        with self.database.writing() as connection:
            held = self._held(connection)
            new = [message for message in messages if message.offset >= held.get(message.partition, 0)]
            _Fold(connection, new).all()
            for last in {message.partition: message for message in new}.values():
                self._move(connection, last.partition, last.offset + 1, digest(last), known=held)

    def forget(self, partition: int, position: Position) -> None:
        """The partition was made anew: drop all of it, unless another gateway did and reads it already."""
        about = col(PartitionRow.partition) == partition
        with self.database.writing() as connection:
            self._held(connection)
            same = connection.execute(
                delete(PartitionRow).where(about, col(PartitionRow.last) == position.last)
            )
            if same.rowcount:
                for kind in (QuarantineRow, OutcomeRow):
                    connection.execute(delete(kind).where(col(kind.partition) == partition))

    def expire(self, partition: int, first: int) -> None:
        """Drop what stands before the partition's first record."""
        for kind in (QuarantineRow, OutcomeRow):
            self._expire(kind, partition, first)

    def _expire(self, kind: type[QuarantineRow | OutcomeRow], partition: int, first: int) -> None:
        number, offset = col(kind.partition), col(kind.offset)
        while True:
            with self.database.writing() as connection:
                oldest = select(kind.offset).where(number == partition).order_by(offset).limit(1)
                held = connection.execute(oldest).scalar_one_or_none()
                if held is None or held >= first:
                    return
                until = min(first, held + _STEP)
                connection.execute(delete(kind).where(number == partition, offset < until))

    def _held(self, connection: Connection) -> dict[int, int]:
        rows = connection.execute(select(PartitionRow.partition, PartitionRow.next).with_for_update())
        return {row[0]: row[1] for row in rows}

    def _move(
        self, connection: Connection, partition: int, next_: int, last: bytes, *, known: dict[int, int]
    ) -> None:
        values = {"partition": partition, "next": next_, "last": last, "shape": self._shape}
        if partition in known:
            connection.execute(
                update(PartitionRow).where(col(PartitionRow.partition) == partition).values(values)
            )
        else:
            connection.execute(insert(PartitionRow).values(values))

    @cached_property
    def _shape(self) -> str:
        digested = hashlib.sha256(telemetry_pb2.DESCRIPTOR.serialized_pb)
        for table in self._tables:
            digested.update(str(CreateTable(table).compile(dialect=self.database.engine.dialect)).encode())
        for file in (__file__, state.__file__, choice.__file__, setaside.__file__):
            digested.update(Path(file).read_bytes())
        return digested.hexdigest()[:32]


class _Fold:
    """Messages, in their order, into the tables: many in few statements."""

    def __init__(self, connection: Connection, messages: Sequence[Message]) -> None:
        self._connection = connection
        self._said = [(message, said) for message in messages if (said := _said(message)) is not None]
        self._known: dict[tuple[str, str], Row | None] = {}
        """Rows as they are in the database, or shall be, by dagger and id; None where there is none."""
        self._changed: dict[tuple[str, str], tuple[Row | None, Row]] = {}
        """What was in the database before, and what shall be."""
        self._outcomes: dict[tuple[str, str, str], Row] = {}

    def all(self) -> None:
        """Fold them in."""
        self._ask()
        for message, said in self._said:
            name = message.key.decode()
            match said:
                case telemetry_pb2.Quarantined():
                    self._set_aside(name, message, said)
                case telemetry_pb2.QuarantineResolved():
                    self._resolved(name, message, said)
                case telemetry_pb2.QuarantineDiscarded():
                    self._flush()
                    self._discarded(name, message, said)
        self._flush()

    def _ask(self) -> None:
        """What is known of those that the messages are about."""
        wanted = {
            (message.key.decode(), _id(message, said))
            for message, said in self._said
            if not isinstance(said, telemetry_pb2.QuarantineDiscarded)
        }
        self._known = dict.fromkeys(wanted)
        columns = [column for column in QuarantineRow.__table__.columns if column.name != "data"]  # type: ignore[attr-defined]
        # By one dagger at a time: SQLite looks all rows through for a list of pairs.
        for name, ids in _grouped(wanted):
            about = select(*columns).where(col(QuarantineRow.dagger) == name, col(QuarantineRow.id).in_(ids))
            for row in self._connection.execute(about).mappings():
                self._known[name, row["id"]] = dict(row)

    def _set_aside(self, name: str, message: Message, said: telemetry_pb2.Quarantined) -> None:
        id_ = _id(message, said)
        before = self._known[name, id_]
        row = {
            "partition": message.partition,
            "offset": message.offset,
            "first": _first(before, message),
            "dagger": name,
            "id": id_,
            "generation": said.generation,
            "time_ms": message.time_ms,
            "set_ms": setaside.set_ms(said, message.time_ms),
            "stage": said.stage,
            "reason": said.reason,
            "sink": said.sink,
            "truncated": said.truncated,
            "data": message.value,
        }
        self._put(row | (_became_columns(Became()) if before is None else _kept(before)))

    def _resolved(self, name: str, message: Message, said: telemetry_pb2.QuarantineResolved) -> None:
        self._outcomes[name, said.replay_id, said.id] = {
            "dagger": name,
            "replay": said.replay_id,
            "id": said.id,
            "outcome": said.outcome,
            "partition": message.partition,
            "offset": message.offset,
        }
        before = self._known[name, said.id]
        if before is not None and before["generation"] > said.created:
            after = state.resolved(_became(before), said)
            self._put(before | _became_columns(after))

    def _discarded(self, name: str, message: Message, said: telemetry_pb2.QuarantineDiscarded) -> None:
        number, offset = col(QuarantineRow.partition), col(QuarantineRow.offset)
        up_to = min(said.up_to.get(message.partition, 0), message.offset)
        after = state.discarded(Became(), said)
        self._connection.execute(
            update(QuarantineRow)
            .where(
                *choice.of(name, said.created),
                number == message.partition,
                offset < up_to,
                choice.states(state.NEEDED, said.created),
                *conditions(said.selection),
            )
            .values(
                state=after.state,
                attempts=choice.attempts(said.created),
                replay=choice.replay(said.created),
                why_reason=after.reason,
                why=after.why,
                resolved=after.resolved,
            )
        )
        self._ask()

    def _put(self, row: Row) -> None:
        key = row["dagger"], row["id"]
        if key in self._changed:
            in_database, changed = self._changed[key]
        else:
            in_database, changed = self._known[key], {}
        self._changed[key] = in_database, changed | row
        self._known[key] = row

    def _flush(self) -> None:
        new = [row for before, row in self._changed.values() if before is None]
        if new:
            self._connection.execute(insert(QuarantineRow), new)
        for before, row in self._changed.values():
            if before is not None:
                place = (
                    col(QuarantineRow.partition) == before["partition"],
                    col(QuarantineRow.offset) == before["offset"],
                )
                self._connection.execute(update(QuarantineRow).where(*place).values(row))
        self._changed = {}
        self._write_outcomes()

    def _write_outcomes(self) -> None:
        for (name, replay), ids in _grouped(((name, replay), id_) for name, replay, id_ in self._outcomes):
            about = col(OutcomeRow.dagger) == name, col(OutcomeRow.replay) == replay
            self._connection.execute(delete(OutcomeRow).where(*about, col(OutcomeRow.id).in_(ids)))
        if self._outcomes:
            self._connection.execute(insert(OutcomeRow), [*self._outcomes.values()])
        self._outcomes = {}


_Said = (telemetry_pb2.Quarantined, telemetry_pb2.QuarantineResolved, telemetry_pb2.QuarantineDiscarded)


def _said(message: Message) -> Any:
    """What a message says; None for one that says nothing of a dagger's records."""
    said = read_record(message.offset, message.headers, message.value).message
    name = message.key.decode(errors="replace")
    return said if isinstance(said, _Said) and not list(fields.name("", name)) else None


def _grouped(pairs: Iterable[tuple[K, str]]) -> Iterator[tuple[K, Sequence[str]]]:
    """Ids by what they are of, not more than one statement takes."""
    of: dict[K, list[str]] = {}
    for key, id_ in pairs:
        of.setdefault(key, []).append(id_)
    for key, ids in of.items():
        for start in range(0, len(ids), _ASKED):
            yield key, ids[start : start + _ASKED]


def _id(message: Message, said: Any) -> str:
    if isinstance(said, telemetry_pb2.Quarantined):
        return setaside.id_of(said, dict(message.headers).get("ce_id", b"").decode(errors="replace"))
    return str(said.id)


def _first(before: Row | None, message: Message) -> int:
    if before is None:
        return message.offset
    return int(before["first"]) if before["partition"] == message.partition else -1


def _became(row: Row) -> Became:
    return Became(
        row["state"], row["attempts"], row["why_reason"], row["why"], row["replay"], row["resolved"]
    )


def _became_columns(became: Became) -> Row:
    return {
        "state": became.state,
        "attempts": became.attempts,
        "why_reason": became.reason,
        "why": became.why,
        "replay": became.replay,
        "resolved": became.resolved,
    }


def _kept(row: Row) -> Row:
    return _became_columns(_became(row))
