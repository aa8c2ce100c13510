"""Index of `daggers.quarantine` in the database: records by dagger, their states, and the offsets that are
read.

The topic is the truth: rows are added and expire with its records, and are all dropped where other code wrote
them. Calls block: run them in a thread.
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
from api_gateway.quarantine.state import RecordState
from api_gateway.quarantine.topic import Message
from api_gateway.state.database import Database
from api_gateway.state.tables import OutcomeRow, PartitionRow, QuarantineRow
from daggerspec import fields, setaside
from eventlog import read_record

Row = dict[str, Any]
K = TypeVar("K", bound=Hashable)
_STEP: Final = 5_000
_IDS_PER_STATEMENT: Final = 500
"""Number of ids in one statement."""


class QuarantineIndex:
    """The tables of the index in one database, which `prepare` creates; `reads` queries them.

    Raises, from every method: sqlalchemy.exc.SQLAlchemyError when the database does not answer.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        kinds: list[Any] = [PartitionRow, QuarantineRow, OutcomeRow]
        self._tables = [kind.__table__ for kind in kinds]

    def prepare(self) -> dict[int, Position]:
        """Create the tables, anew where other code wrote them. Return the position in each partition."""
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
        """Index messages that follow the indexed ones; those that are indexed already change nothing."""
        with self.database.writing() as connection:
            next_offsets = self._next_offsets(connection)
            new = [
                message for message in messages if message.offset >= next_offsets.get(message.partition, 0)
            ]
            _Fold(connection, new).all()
            for last in {message.partition: message for message in new}.values():
                self._move(
                    connection, last.partition, last.offset + 1, digest(last), next_offsets=next_offsets
                )

    def forget(self, partition: int, position: Position) -> None:
        """Drop a partition that was recreated, unless another gateway has done so and indexes it already."""
        about = col(PartitionRow.partition) == partition
        with self.database.writing() as connection:
            self._next_offsets(connection)
            same = connection.execute(
                delete(PartitionRow).where(about, col(PartitionRow.last) == position.last)
            )
            if same.rowcount:
                for kind in (QuarantineRow, OutcomeRow):
                    connection.execute(delete(kind).where(col(kind.partition) == partition))

    def expire(self, partition: int, first: int) -> None:
        """Drop rows before the partition's first record."""
        for kind in (QuarantineRow, OutcomeRow):
            self._expire(kind, partition, first)

    def _expire(self, kind: type[QuarantineRow | OutcomeRow], partition: int, first: int) -> None:
        number, offset = col(kind.partition), col(kind.offset)
        while True:
            with self.database.writing() as connection:
                oldest = select(kind.offset).where(number == partition).order_by(offset).limit(1)
                oldest_offset = connection.execute(oldest).scalar_one_or_none()
                if oldest_offset is None or oldest_offset >= first:
                    return
                until = min(first, oldest_offset + _STEP)
                connection.execute(delete(kind).where(number == partition, offset < until))

    def _next_offsets(self, connection: Connection) -> dict[int, int]:
        rows = connection.execute(select(PartitionRow.partition, PartitionRow.next).with_for_update())
        return {row[0]: row[1] for row in rows}

    def _move(
        self, connection: Connection, partition: int, next_: int, last: bytes, *, next_offsets: dict[int, int]
    ) -> None:
        values = {"partition": partition, "next": next_, "last": last, "shape": self._shape}
        if partition in next_offsets:
            connection.execute(
                update(PartitionRow).where(col(PartitionRow.partition) == partition).values(values)
            )
        else:
            connection.execute(insert(PartitionRow).values(values))

    @cached_property
    def _shape(self) -> str:
        hasher = hashlib.sha256(telemetry_pb2.DESCRIPTOR.serialized_pb)
        for table in self._tables:
            hasher.update(str(CreateTable(table).compile(dialect=self.database.engine.dialect)).encode())
        for file in (__file__, state.__file__, choice.__file__, setaside.__file__):
            hasher.update(Path(file).read_bytes())
        return hasher.hexdigest()[:32]


class _Fold:
    """Folds messages, in their order, into the tables: many messages by few statements."""

    def __init__(self, connection: Connection, messages: Sequence[Message]) -> None:
        self._connection = connection
        self._events = [
            (message, event) for message in messages if (event := _read_event(message)) is not None
        ]
        self._rows: dict[tuple[str, str], Row | None] = {}
        """Rows as they are in the database, or will be, by dagger and id; None where there is none."""
        self._changed: dict[tuple[str, str], tuple[Row | None, Row]] = {}
        """Rows before in the database, and rows to write."""
        self._outcomes: dict[tuple[str, str, str], Row] = {}

    def all(self) -> None:
        """Fold all messages."""
        self._read_rows()
        for message, event in self._events:
            name = message.key.decode()
            match event:
                case telemetry_pb2.Quarantined():
                    self._fold_quarantined(name, message, event)
                case telemetry_pb2.QuarantineResolved():
                    self._fold_resolved(name, message, event)
                case telemetry_pb2.QuarantineDiscarded():
                    self._flush()
                    self._fold_discarded(name, message, event)
        self._flush()

    def _read_rows(self) -> None:
        """Read the rows of the records that the messages are about."""
        wanted = {
            (message.key.decode(), _id(message, event))
            for message, event in self._events
            if not isinstance(event, telemetry_pb2.QuarantineDiscarded)
        }
        self._rows = dict.fromkeys(wanted)
        columns = [column for column in QuarantineRow.__table__.columns if column.name != "data"]  # type: ignore[attr-defined]
        # one dagger at a time: for a list of pairs SQLite scans all rows
        for name, ids in _chunk_ids(wanted):
            about = select(*columns).where(col(QuarantineRow.dagger) == name, col(QuarantineRow.id).in_(ids))
            for row in self._connection.execute(about).mappings():
                self._rows[name, row["id"]] = dict(row)

    def _fold_quarantined(self, name: str, message: Message, event: telemetry_pb2.Quarantined) -> None:
        id_ = _id(message, event)
        before = self._rows[name, id_]
        row = {
            "partition": message.partition,
            "offset": message.offset,
            "first": _first(before, message),
            "dagger": name,
            "id": id_,
            "generation": event.generation,
            "time_ms": message.time_ms,
            "set_ms": setaside.set_ms(event, message.time_ms),
            "stage": event.stage,
            "reason": event.reason,
            "sink": event.sink,
            "truncated": event.truncated,
            "data": message.value,
        }
        self._store(row | (_state_columns(RecordState()) if before is None else _copy_state(before)))

    def _fold_resolved(self, name: str, message: Message, event: telemetry_pb2.QuarantineResolved) -> None:
        self._outcomes[name, event.replay_id, event.id] = {
            "dagger": name,
            "replay": event.replay_id,
            "id": event.id,
            "outcome": event.outcome,
            "partition": message.partition,
            "offset": message.offset,
        }
        before = self._rows[name, event.id]
        if before is not None and before["generation"] > event.created:
            after = state.after_outcome(_record_state(before), event)
            self._store(before | _state_columns(after))

    def _fold_discarded(self, name: str, message: Message, event: telemetry_pb2.QuarantineDiscarded) -> None:
        number, offset = col(QuarantineRow.partition), col(QuarantineRow.offset)
        up_to = min(event.up_to.get(message.partition, 0), message.offset)
        after = state.after_discard(RecordState(), event)
        self._connection.execute(
            update(QuarantineRow)
            .where(
                *choice.of(name, event.created),
                number == message.partition,
                offset < up_to,
                choice.states(state.NEEDED, event.created),
                *conditions(event.selection),
            )
            .values(
                state=after.state,
                attempts=choice.attempts(event.created),
                replay=choice.replay(event.created),
                why_reason=after.reason,
                why=after.why,
                resolved=after.resolved,
            )
        )
        self._read_rows()

    def _store(self, row: Row) -> None:
        key = row["dagger"], row["id"]
        if key in self._changed:
            in_database, changed = self._changed[key]
        else:
            in_database, changed = self._rows[key], {}
        self._changed[key] = in_database, changed | row
        self._rows[key] = row

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
        for (name, replay), ids in _chunk_ids(((name, replay), id_) for name, replay, id_ in self._outcomes):
            about = col(OutcomeRow.dagger) == name, col(OutcomeRow.replay) == replay
            self._connection.execute(delete(OutcomeRow).where(*about, col(OutcomeRow.id).in_(ids)))
        if self._outcomes:
            self._connection.execute(insert(OutcomeRow), [*self._outcomes.values()])
        self._outcomes = {}


_EVENTS = (telemetry_pb2.Quarantined, telemetry_pb2.QuarantineResolved, telemetry_pb2.QuarantineDiscarded)


def _read_event(message: Message) -> Any:
    """Return the event of a message; None for one that is about no dagger's records."""
    event = read_record(message.offset, message.headers, message.value).message
    name = message.key.decode(errors="replace")
    return event if isinstance(event, _EVENTS) and not list(fields.name("", name)) else None


def _chunk_ids(pairs: Iterable[tuple[K, str]]) -> Iterator[tuple[K, Sequence[str]]]:
    """Yield ids by their key, at most `_IDS_PER_STATEMENT` at once."""
    ids_by_key: dict[K, list[str]] = {}
    for key, id_ in pairs:
        ids_by_key.setdefault(key, []).append(id_)
    for key, ids in ids_by_key.items():
        for start in range(0, len(ids), _IDS_PER_STATEMENT):
            yield key, ids[start : start + _IDS_PER_STATEMENT]


def _id(message: Message, event: Any) -> str:
    if isinstance(event, telemetry_pb2.Quarantined):
        return setaside.id_of(event, dict(message.headers).get("ce_id", b"").decode(errors="replace"))
    return str(event.id)


def _first(before: Row | None, message: Message) -> int:
    if before is None:
        return message.offset
    return int(before["first"]) if before["partition"] == message.partition else -1


def _record_state(row: Row) -> RecordState:
    return RecordState(
        row["state"], row["attempts"], row["why_reason"], row["why"], row["replay"], row["resolved"]
    )


def _state_columns(record_state: RecordState) -> Row:
    return {
        "state": record_state.state,
        "attempts": record_state.attempts,
        "why_reason": record_state.reason,
        "why": record_state.why,
        "replay": record_state.replay,
        "resolved": record_state.resolved,
    }


def _copy_state(row: Row) -> Row:
    return _state_columns(_record_state(row))
