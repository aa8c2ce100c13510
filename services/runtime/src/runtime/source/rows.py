"""Kafka records become rows of the stream's view, in an executor's Python worker.

A row is data, or it is a note: a row without data whose tally says what a range held, or a tick. Notes pass
the watermark as data does, so one `observe` above it counts exactly, once for each committed batch, and looks
at little more than a NULL in each row of data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message
from daggers.v1 import telemetry_pb2
from google.protobuf.descriptor import Descriptor
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from runtime.decode.damage import prefix
from runtime.decode.decoder import Decoder
from runtime.source.offsets import Partition

ROWTIME = "rowtime"
TALLY = "__tally"
TOLERANCE_MS = 5 * 60 * 1000
_TIME = pa.timestamp("us", tz="UTC")
# Of rows that have no event time: moves no watermark, whatever the age of the data.
_BEFORE_EVERYTHING_US = int(datetime(1, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
_METADATA = {
    "__topic": pa.string(),
    "__partition": pa.int32(),
    "__offset": pa.int64(),
    "__timestamp": _TIME,
}


class Reason(StrEnum):
    """Why a record was set aside."""

    MALFORMED = "MALFORMED"
    FROM_THE_FUTURE = "FROM_THE_FUTURE"
    NO_EVENT_TIME = "NO_EVENT_TIME"
    EMPTY_VALUE = "EMPTY_VALUE"


@dataclass(slots=True)
class Tally:
    """What a range held. Event times are microseconds after the epoch."""

    first_ms: int | None = None
    """Kafka time of the first record, in milliseconds; None before it."""
    rows: int = 0
    """Records that became rows, those `late` among them."""
    late: int = 0
    """Rows that came after their last window was closed: Spark drops them."""
    ticks: int = 0
    data: int | None = None
    """The greatest event time of a record; None without one."""
    reached: int | None = None
    """The greatest event time of a record or a tick."""
    aside: Counter[Reason] = field(default_factory=Counter)

    def add(self, micros: np.ndarray, late: int) -> None:
        """Count rows with these event times."""
        if len(micros):
            self.rows += len(micros)
            self.late += late
            self.data = self.reached = max(int(micros.max()), self.data or int(micros.max()))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.rows or self.ticks or self.aside)


TALLY_TYPE = pa.struct(
    [pa.field(name, pa.int64()) for name in ("rows", "late", "ticks", "data", "reached", *Reason)]
)


@dataclass(frozen=True, slots=True)
class Aside:
    """A record that was set aside: the message, why, and one sentence about it."""

    message: Message
    reason: Reason
    detail: str


class Rows:
    """Turns records of `message` into rows: columns of `paths`, rowtime, metadata asked for, tally.

    Rows are counted, and then only those are kept whose text columns `equal` what they must: to carry the
    others to where WHERE drops them costs more than all else that is done with them.
    """

    def __init__(
        self,
        message: Descriptor,
        paths: Sequence[str],
        time_field: str,
        equal: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._message = message
        self._equal = tuple(equal)
        self._decoder = Decoder(message, [path for path in paths if path not in _METADATA], time_field)
        self._metadata = [name for name in _METADATA if name in paths]
        self.schema = to_arrow_schema(
            from_arrow_schema(
                pa.schema(
                    [
                        *self._decoder.schema,
                        pa.field(ROWTIME, _TIME),
                        *(pa.field(name, _METADATA[name]) for name in self._metadata),
                        pa.field(TALLY, TALLY_TYPE),
                    ]
                )
            ),
            timezone="UTC",
        )

    def rows(
        self,
        messages: Sequence[Message],
        partition: Partition,
        planned_ms: int,
        late_before_ms: int | None,
        tally: Tally,
    ) -> tuple[pa.RecordBatch, list[Aside]]:
        """The wanted rows of these messages without errors, in order, and the records that were set aside.

        `planned_ms` stands for the Kafka time of records that have none. Rows before `late_before_ms` are
        late. Both are counted in `tally`.
        """
        kept, aside, values = list(messages), [], [message.value() for message in messages]
        if None in values:
            gone = {index for index, value in enumerate(values) if value is None}
            aside += [Aside(kept[index], Reason.EMPTY_VALUE, "The record has no value.") for index in gone]
            kept = _without(kept, gone)
        decoded = self._decoder.decode([value for value in values if value is not None])
        if decoded.broken:
            aside += [Aside(kept[i], Reason.MALFORMED, _sentence(why)) for i, why in decoded.broken.items()]
            kept = _without(kept, decoded.broken)
        event = decoded.rowtime.cast(pa.int64())
        timeless = np.asarray(event.is_null())
        micros = np.asarray(event.fill_null(0))
        if tally.first_ms is None and kept:
            tally.first_ms = _time_of(kept[0], planned_ms)
        future = ~timeless & _ahead(micros, kept, tally.first_ms or 0, planned_ms)
        columns, times = decoded.columns, decoded.rowtime
        if timeless.any() or future.any():
            for index in np.flatnonzero(timeless):
                aside.append(Aside(kept[index], Reason.NO_EVENT_TIME, "The record's event time is not set."))
            for index in np.flatnonzero(future):
                written_ms = _time_of(kept[index], planned_ms)
                aside.append(Aside(kept[index], Reason.FROM_THE_FUTURE, _future(micros[index], written_ms)))
            sound = ~(timeless | future)
            mask = pa.array(sound)
            columns, times, micros = columns.filter(mask), times.filter(mask), micros[sound]
            kept = [kept[index] for index in np.flatnonzero(sound)]
        tally.add(micros, 0 if late_before_ms is None else int((micros < late_before_ms * 1000).sum()))
        tally.aside.update(one.reason for one in aside)
        metadata = [self._column(name, kept, partition, planned_ms) for name in self._metadata]
        batch = pa.RecordBatch.from_arrays(
            [*columns.columns, times, *metadata, pa.nulls(len(kept), TALLY_TYPE)], schema=self.schema
        )
        for column, value in self._equal:
            batch = batch.filter(pc.equal(batch.column(column), value))
        return batch, aside

    def tick(self, time_ms: int) -> pa.RecordBatch:
        """One row that carries event time to `time_ms`, and nothing else."""
        return self.note(Tally(ticks=1, reached=time_ms * 1000))

    def note(self, tally: Tally) -> pa.RecordBatch:
        """One row that says what a range held."""
        told = {name: getattr(tally, name) for name in ("rows", "late", "ticks", "data", "reached")}
        fixed: Mapping[str, pa.Array] = {
            ROWTIME: pa.array([_BEFORE_EVERYTHING_US if tally.reached is None else tally.reached]).cast(
                _TIME
            ),
            TALLY: pa.array([told | {reason: tally.aside[reason] for reason in Reason}], TALLY_TYPE),
        }
        arrays = [
            fixed[field.name] if field.name in fixed else pa.nulls(1, field.type) for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def quarantined(self, aside: Aside, partition: Partition) -> telemetry_pb2.Quarantined:
        """What the quarantine keeps of a record, the job's name and generation left to the caller."""
        message = aside.message
        record = telemetry_pb2.Quarantined(
            topic=partition.topic,
            partition=partition.number,
            offset=message.offset() or 0,
            stage="decode" if aside.reason is Reason.MALFORMED else "event_time",
            reason=aside.reason.value,
            detail=aside.detail,
            value=message.value() or b"",
            key=_bytes(message.key()),
            message=self._message.full_name,
            decoded_prefix=prefix(message.value() or b"", self._message),
        )
        kind, written = message.timestamp()
        if kind != TIMESTAMP_NOT_AVAILABLE:
            record.record_time.FromMilliseconds(written)
        return record

    @staticmethod
    def _column(name: str, messages: Sequence[Message], partition: Partition, planned_ms: int) -> pa.Array:
        match name:
            case "__topic":
                return pa.repeat(pa.scalar(partition.topic), len(messages))
            case "__partition":
                return pa.repeat(pa.scalar(partition.number, pa.int32()), len(messages))
            case "__offset":
                return pa.array([message.offset() for message in messages], pa.int64())
            case _:
                written = [_time_of(message, planned_ms) * 1000 for message in messages]
                return pa.array(written, pa.int64()).cast(_TIME)


def event_times(messages: Sequence[Message], decoder: Decoder) -> Iterator[tuple[Message, int]]:
    """Each message whose event time can be used, with that time in us: what `Rows` would let through."""
    values = [message.value() for message in messages]
    kept = [message for message, value in zip(messages, values, strict=True) if value is not None]
    decoded = decoder.decode([value for value in values if value is not None])
    sound = [message for index, message in enumerate(kept) if index not in decoded.broken]
    for message, micros in zip(sound, decoded.rowtime.cast(pa.int64()).to_pylist(), strict=True):
        if micros is not None and micros <= (_time_of(message, micros // 1000) + TOLERANCE_MS) * 1000:
            yield message, micros


def _ahead(micros: np.ndarray, messages: Sequence[Message], first_ms: int, planned_ms: int) -> np.ndarray:
    """Which records are ahead of their Kafka time by more than the tolerance.

    To ask each of millions of messages for its time costs as much as to decode it. So those are taken as
    sound that are not ahead of the range's first record's time either: they move event time no further than
    a sound record could.
    """
    ahead = np.zeros(len(micros), bool)
    for index in np.flatnonzero(micros > (first_ms + TOLERANCE_MS) * 1000).tolist():
        ahead[index] = micros[index] > (_time_of(messages[index], planned_ms) + TOLERANCE_MS) * 1000
    return ahead


def _without(messages: Sequence[Message], gone: Container[int]) -> list[Message]:
    return [message for index, message in enumerate(messages) if index not in gone]


def _time_of(message: Message, otherwise_ms: int) -> int:
    """The Kafka time (ms) of a record; some producers write none, or nonsense from before Kafka."""
    written = message.timestamp()[1]
    return written if written > 0 else otherwise_ms


def _sentence(why: str) -> str:
    return f"The record does not decode: {why.removeprefix('failed to decode Protobuf message: ')}."


def _future(event_us: int, written_ms: int) -> str:
    ahead_s = event_us / 1e6 - written_ms / 1e3
    return f"The record's event time is {ahead_s:.0f} s ahead of its Kafka time."


def _bytes(key: str | bytes | None) -> bytes:
    return key.encode() if isinstance(key, str) else key or b""
