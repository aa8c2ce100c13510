"""Kafka records become rows, or are quarantined: they are decoded, checked and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from daggers.v1 import telemetry_pb2
from google.protobuf.descriptor import Descriptor

from runtime.decode.damage import prefix
from runtime.decode.decoder import Decoder
from runtime.source.event_times import known_ms, latest_us, reference_ms
from runtime.source.offsets import Partition
from runtime.source.reader.control_rows import ROWTIME, TIME, RangeStatistics, Reason
from runtime.source.records import NO_TIME, Ints, Records

_METADATA = {
    "__topic": pa.string(),
    "__partition": pa.int32(),
    "__offset": pa.int64(),
    "__timestamp": TIME,
}


# Of nonsense in a Kafka time, the nearest that a column of microseconds can hold.
_LAST_MS = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class Quarantined:
    """The record with this index among others that was quarantined, why, and one sentence about it."""

    records: Records
    index: int
    reason: Reason
    detail: str

    @property
    def offset(self) -> int:
        """Where it stands in its partition."""
        return int(self.records.offsets[self.index])


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
        records: Records,
        partition: Partition,
        planned_ms: int,
        late_before_ms: int | None,
        statistics: RangeStatistics,
    ) -> tuple[pa.RecordBatch, list[Quarantined]]:
        """The wanted rows of these records, in order, and what was quarantined of them.

        `planned_ms` is when the batch was planned; it stands for the Kafka time of records that have none.
        Rows before `late_before_ms` are late. Both are counted in `statistics`.
        """
        quarantined: list[Quarantined] = []

        def quarantine(index: Any, reason: Reason, detail: str) -> None:
            quarantined.append(Quarantined(records, int(index), reason, detail))

        values, places = records.values, np.arange(len(records))  # which record each row is of
        if values.null_count:
            for index in np.flatnonzero(values.is_null()):
                quarantine(index, Reason.EMPTY_VALUE, "The record has no value.")
            values, places = values.drop_null(), np.flatnonzero(values.is_valid())
        decoded = self._decoder.decode(values)
        if decoded.broken:
            for row, why in decoded.broken.items():
                quarantine(places[row], Reason.MALFORMED, _sentence(why))
            places = np.delete(places, list(decoded.broken))
        columns, times = decoded.columns, decoded.rowtime
        event = times.cast(pa.int64())
        timeless, micros = np.asarray(event.is_null()), np.asarray(event.fill_null(0))
        future = ~timeless & (micros > latest_us(records.times[places], planned_ms, self._tolerance_ms))
        if timeless.any() or future.any():
            for index in places[timeless]:
                quarantine(index, Reason.NO_EVENT_TIME, "The record's event time is not set.")
            for index, event_us in zip(places[future], micros[future], strict=True):
                detail = _future(int(event_us), int(records.times[index]), planned_ms)
                quarantine(index, Reason.FROM_THE_FUTURE, detail)
            sound = ~(timeless | future)
            mask = pa.array(sound)
            columns, times = columns.filter(mask), times.filter(mask)
            micros, places = micros[sound], places[sound]
        offsets, written_ms = records.offsets[places], records.times[places]
        newest = statistics.add(micros, late_before_ms)
        if newest is not None:
            statistics.newest_record = f"{partition}, offset {offsets[newest]}"
            compared_ms = int(reference_ms(written_ms[newest], planned_ms))
            statistics.ahead_ms = int(micros[newest]) // 1000 - compared_ms
        statistics.quarantined.update(each.reason for each in quarantined)
        written_ms = known_ms(written_ms, planned_ms)
        metadata = [_metadata(name, partition, offsets, written_ms) for name in self._metadata]
        batch = pa.RecordBatch.from_arrays([*columns.columns, times, *metadata], schema=self.schema)
        return wanted(batch, self._equal), quarantined

    def quarantine_record(self, quarantined: Quarantined, partition: Partition) -> telemetry_pb2.Quarantined:
        """What the quarantine keeps of a record, the job's name and generation left to the caller."""
        records, index = quarantined.records, quarantined.index
        value = records.values[index].as_py() or b""
        record = telemetry_pb2.Quarantined(
            topic=partition.topic,
            partition=partition.number,
            offset=quarantined.offset,
            stage="decode" if quarantined.reason is Reason.MALFORMED else "event_time",
            reason=quarantined.reason.value,
            detail=quarantined.detail,
            value=value,
            key=records.keys[index].as_py() or b"",
            message=self._message.full_name,
            decoded_prefix=prefix(value, self._message),
        )
        if (written_ms := int(records.times[index])) != NO_TIME:
            record.record_time.FromMilliseconds(written_ms)
        return record


def wanted(rows: pa.RecordBatch, equal: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """The rows whose text columns are what they must be."""
    for column, value in equal:
        rows = rows.filter(pc.equal(rows.column(column), value))
    return rows


def _metadata(name: str, partition: Partition, offsets: Ints, written_ms: Ints) -> pa.Array:
    match name:
        case "__topic":
            return pa.repeat(pa.scalar(partition.topic), len(offsets))
        case "__partition":
            return pa.repeat(pa.scalar(partition.number, pa.int32()), len(offsets))
        case "__offset":
            return pa.array(offsets)
        case _:
            return pa.array(np.minimum(written_ms, _LAST_MS) * 1000).cast(TIME)


def _sentence(why: str) -> str:
    return f"The record does not decode: {why.removeprefix('failed to decode Protobuf message: ')}."


def _future(event_us: int, written_ms: int, planned_ms: int) -> str:
    compared_ms = written_ms if 0 < written_ms < planned_ms else planned_ms
    clock = "its Kafka time" if compared_ms < planned_ms else "the driver's clock when it was read"
    return f"The record's event time is {event_us / 1e6 - compared_ms / 1e3:.0f} s ahead of {clock}."
