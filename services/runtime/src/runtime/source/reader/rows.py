"""Kafka records become rows, or are quarantined: they are decoded, checked and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message
from daggers.v1 import telemetry_pb2
from google.protobuf.descriptor import Descriptor

from runtime.decode.damage import prefix
from runtime.decode.decoder import Decoder
from runtime.source.event_times import kafka_time, latest, reference_ms, valued
from runtime.source.offsets import Partition
from runtime.source.reader.control_rows import ROWTIME, TIME, RangeStatistics, Reason

_METADATA = {
    "__topic": pa.string(),
    "__partition": pa.int32(),
    "__offset": pa.int64(),
    "__timestamp": TIME,
}


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A message that was quarantined, why, and one sentence about it."""

    message: Message
    reason: Reason
    detail: str


class Rows:
    """Turns records of `message` into rows: columns of `paths`, rowtime, metadata asked for.

    Rows are counted, and then only those are kept whose text columns `equal` what they must: to carry the
    others to where WHERE drops them costs more than all else that is done with them.
    """

    def __init__(
        self,
        message: Descriptor,
        paths: Sequence[str],
        time_field: str,
        tolerance_ms: int,
        equal: Sequence[tuple[str, str]] = (),
    ) -> None:
        """`tolerance_ms` is how far an event time may be ahead; see `event_times.latest`."""
        self._message = message
        self._tolerance_ms = tolerance_ms
        self._equal = tuple(equal)
        self._decoder = Decoder(message, [path for path in paths if path not in _METADATA], time_field)
        self._metadata = [name for name in _METADATA if name in paths]
        metadata = [pa.field(name, _METADATA[name]) for name in self._metadata]
        self.schema = pa.schema([*self._decoder.schema, pa.field(ROWTIME, TIME), *metadata])

    def rows(
        self,
        messages: Sequence[Message],
        partition: Partition,
        planned_ms: int,
        late_before_ms: int | None,
        statistics: RangeStatistics,
    ) -> tuple[pa.RecordBatch, list[Quarantined]]:
        """The wanted rows of these messages without errors, in order, and what was quarantined of them.

        `planned_ms` is when the batch was planned; it stands for the Kafka time of records that have none.
        Rows before `late_before_ms` are late. Both are counted in `statistics`.
        """
        kept, values = valued(messages)
        quarantined = []
        if len(kept) < len(messages):
            empty = [message for message in messages if message.value() is None]
            quarantined += [
                Quarantined(message, Reason.EMPTY_VALUE, "The record has no value.") for message in empty
            ]
        decoded = self._decoder.decode(values)
        if decoded.broken:
            quarantined += [
                Quarantined(kept[i], Reason.MALFORMED, _sentence(why)) for i, why in decoded.broken.items()
            ]
            kept = [message for index, message in enumerate(kept) if index not in decoded.broken]
        event = decoded.rowtime.cast(pa.int64())
        timeless = np.asarray(event.is_null())
        micros = np.asarray(event.fill_null(0))
        future = ~timeless & _ahead(micros, kept, planned_ms, self._tolerance_ms)
        columns, times = decoded.columns, decoded.rowtime
        if timeless.any() or future.any():
            for index in np.flatnonzero(timeless).tolist():
                quarantined.append(
                    Quarantined(kept[index], Reason.NO_EVENT_TIME, "The record's event time is not set.")
                )
            for index in np.flatnonzero(future).tolist():
                detail = _future(int(micros[index]), kept[index], planned_ms)
                quarantined.append(Quarantined(kept[index], Reason.FROM_THE_FUTURE, detail))
            sound = ~(timeless | future)
            mask = pa.array(sound)
            columns, times, micros = columns.filter(mask), times.filter(mask), micros[sound]
            kept = [kept[index] for index in np.flatnonzero(sound).tolist()]
        newest = statistics.add(micros, late_before_ms)
        if newest is not None:
            statistics.newest_record = f"{partition}, offset {kept[newest].offset()}"
            statistics.ahead_ms = int(micros[newest]) // 1000 - reference_ms(kept[newest], planned_ms)
        statistics.quarantined.update(each.reason for each in quarantined)
        metadata = [self._column(name, kept, partition, planned_ms) for name in self._metadata]
        batch = pa.RecordBatch.from_arrays([*columns.columns, times, *metadata], schema=self.schema)
        return wanted(batch, self._equal), quarantined

    def quarantine_record(self, quarantined: Quarantined, partition: Partition) -> telemetry_pb2.Quarantined:
        """What the quarantine keeps of a record, the job's name and generation left to the caller."""
        message = quarantined.message
        record = telemetry_pb2.Quarantined(
            topic=partition.topic,
            partition=partition.number,
            offset=message.offset() or 0,
            stage="decode" if quarantined.reason is Reason.MALFORMED else "event_time",
            reason=quarantined.reason.value,
            detail=quarantined.detail,
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
                written = [kafka_time(message, planned_ms) * 1000 for message in messages]
                return pa.array(written, pa.int64()).cast(TIME)


def wanted(rows: pa.RecordBatch, equal: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """The rows whose text columns are what they must be."""
    for column, value in equal:
        rows = rows.filter(pc.equal(rows.column(column), value))
    return rows


def _ahead(micros: np.ndarray, messages: Sequence[Message], planned_ms: int, tolerance_ms: int) -> np.ndarray:
    """Which records, by their event times, are from the future.

    To ask a message for its time is dear, so of millions each is asked once, for the earliest of all; only
    what is ahead of that is looked at for itself.
    """
    earliest_ms = min([message.timestamp()[1] for message in messages], default=planned_ms)
    ahead = micros > (min(earliest_ms, planned_ms) + tolerance_ms) * 1000
    for index in np.flatnonzero(ahead).tolist():
        ahead[index] = micros[index] > latest(messages[index], planned_ms, tolerance_ms)
    return ahead


def _sentence(why: str) -> str:
    return f"The record does not decode: {why.removeprefix('failed to decode Protobuf message: ')}."


def _future(event_us: int, message: Message, planned_ms: int) -> str:
    written_ms = kafka_time(message, planned_ms)
    clock = "its Kafka time" if written_ms < planned_ms else "the driver's clock when it was read"
    ahead_s = event_us / 1e6 - min(written_ms, planned_ms) / 1e3
    return f"The record's event time is {ahead_s:.0f} s ahead of {clock}."


def _bytes(key: str | bytes | None) -> bytes:
    return key.encode() if isinstance(key, str) else key or b""
