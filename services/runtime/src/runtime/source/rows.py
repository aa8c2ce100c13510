"""Kafka records become rows of the stream's view, in an executor's Python worker.

A row has a kind, so that one `observe` above the watermark counts exactly, once for each committed batch:
data, late data, a tick, or a marker (nothing but the kind) for a record that was set aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum

import numpy as np
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message
from daggers.v1 import telemetry_pb2
from google.protobuf.descriptor import Descriptor
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from runtime.decode.damage import prefix
from runtime.decode.decoder import Decoder
from runtime.source.offsets import Partition

ROWTIME = "rowtime"
KIND = "__kind"
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


class Kind(IntEnum):
    """What a row is. From MALFORMED on, a marker for a record that was set aside, and why."""

    DATA = 0
    LATE = 1
    TICK = 2
    MALFORMED = 3
    FROM_THE_FUTURE = 4
    NO_EVENT_TIME = 5
    EMPTY_VALUE = 6


REASONS = (Kind.MALFORMED, Kind.FROM_THE_FUTURE, Kind.NO_EVENT_TIME, Kind.EMPTY_VALUE)


@dataclass(frozen=True, slots=True)
class Aside:
    """A record that was set aside: the message, why, and one sentence about it."""

    message: Message
    reason: Kind
    detail: str


class Rows:
    """Turns records of `message` into rows: columns of `paths`, rowtime, metadata asked for, kind."""

    def __init__(self, message: Descriptor, paths: Sequence[str], time_field: str) -> None:
        self._message = message
        self._decoder = Decoder(message, [path for path in paths if path not in _METADATA], time_field)
        self._metadata = [name for name in _METADATA if name in paths]
        self.schema = to_arrow_schema(
            from_arrow_schema(
                pa.schema(
                    [
                        *self._decoder.schema,
                        pa.field(ROWTIME, _TIME),
                        *(pa.field(name, _METADATA[name]) for name in self._metadata),
                        pa.field(KIND, pa.int8()),
                    ]
                )
            ),
            timezone="UTC",
        )

    def rows(
        self, messages: Sequence[Message], partition: Partition, planned_ms: int, late_before_ms: int | None
    ) -> tuple[pa.RecordBatch, list[Aside]]:
        """Rows of these messages without errors, in order, and the records among them that were set aside.

        `planned_ms` stands for the Kafka time of records that have none. Rows before `late_before_ms` are
        late.
        """
        raw = [message.value() for message in messages]
        if None in raw:
            kept = [message for message in messages if message.value() is not None]
            aside = [
                Aside(message, Kind.EMPTY_VALUE, "The record has no value.")
                for message in messages
                if message.value() is None
            ]
        else:
            kept, aside = list(messages), []
        decoded = self._decoder.decode([value for value in raw if value is not None])
        if decoded.broken:
            aside += [Aside(kept[i], Kind.MALFORMED, _sentence(why)) for i, why in decoded.broken.items()]
            kept = [message for index, message in enumerate(kept) if index not in decoded.broken]
        written = np.fromiter((_time_of(message, planned_ms) for message in kept), np.int64, len(kept))
        event = decoded.rowtime.cast(pa.int64())
        timeless = np.asarray(event.is_null())
        micros = np.asarray(event.fill_null(0))
        future = ~timeless & (micros > (written + TOLERANCE_MS) * 1000)
        columns, times = decoded.columns, decoded.rowtime
        if timeless.any() or future.any():
            for index in np.flatnonzero(timeless):
                aside.append(Aside(kept[index], Kind.NO_EVENT_TIME, "The record's event time is not set."))
            for index in np.flatnonzero(future):
                aside.append(Aside(kept[index], Kind.FROM_THE_FUTURE, _future(micros[index], written[index])))
            sound = ~(timeless | future)
            mask = pa.array(sound)
            columns, times, micros = columns.filter(mask), times.filter(mask), micros[sound]
            kept = [kept[index] for index in np.flatnonzero(sound)]
            written = written[sound]
        kinds = np.zeros(len(kept), np.int8)
        if late_before_ms is not None:
            kinds[micros < late_before_ms * 1000] = Kind.LATE
        metadata = [self._column(name, kept, partition, written) for name in self._metadata]
        batch = pa.RecordBatch.from_arrays(
            [*columns.columns, times, *metadata, pa.array(kinds)], schema=self.schema
        )
        return batch, aside

    def tick(self, time_ms: int) -> pa.RecordBatch:
        """One row that carries event time to `time_ms`, and nothing else."""
        return self._bare([Kind.TICK], time_ms * 1000)

    def markers(self, aside: Sequence[Aside]) -> pa.RecordBatch:
        """One row for each record that was set aside."""
        return self._bare([one.reason for one in aside], _BEFORE_EVERYTHING_US)

    def quarantined(self, aside: Aside, partition: Partition) -> telemetry_pb2.Quarantined:
        """What the quarantine keeps of a record, the job's name and generation left to the caller."""
        message = aside.message
        record = telemetry_pb2.Quarantined(
            topic=partition.topic,
            partition=partition.number,
            offset=message.offset() or 0,
            stage="decode" if aside.reason is Kind.MALFORMED else "event_time",
            reason=aside.reason.name,
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

    def _bare(self, kinds: Sequence[Kind], time_us: int) -> pa.RecordBatch:
        fixed: Mapping[str, pa.Array] = {
            ROWTIME: pa.array([time_us] * len(kinds), pa.int64()).cast(_TIME),
            KIND: pa.array([int(kind) for kind in kinds], pa.int8()),
        }
        return pa.RecordBatch.from_arrays(
            [
                fixed[field.name] if field.name in fixed else pa.nulls(len(kinds), field.type)
                for field in self.schema
            ],
            schema=self.schema,
        )

    @staticmethod
    def _column(
        name: str, messages: Sequence[Message], partition: Partition, written: np.ndarray
    ) -> pa.Array:
        match name:
            case "__topic":
                return pa.repeat(pa.scalar(partition.topic), len(messages))
            case "__partition":
                return pa.repeat(pa.scalar(partition.number, pa.int32()), len(messages))
            case "__offset":
                return pa.array([message.offset() for message in messages], pa.int64())
            case _:
                return pa.array(written * 1000).cast(_TIME)


def event_times(messages: Sequence[Message], decoder: Decoder) -> Iterator[tuple[Message, int]]:
    """Each message whose event time can be used, with that time in us: what `Rows` would let through."""
    values = [message.value() for message in messages]
    kept = [message for message, value in zip(messages, values, strict=True) if value is not None]
    decoded = decoder.decode([value for value in values if value is not None])
    sound = [message for index, message in enumerate(kept) if index not in decoded.broken]
    for message, micros in zip(sound, decoded.rowtime.cast(pa.int64()).to_pylist(), strict=True):
        if micros is not None and micros <= (_time_of(message, micros // 1000) + TOLERANCE_MS) * 1000:
            yield message, micros


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
