"""Turn Kafka records into rows: they are decoded, checked and counted, or quarantined."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from daggers.v1 import telemetry_pb2
from google.protobuf.descriptor import Descriptor

from daggersql import Condition
from runtime.decode.damage import prefix
from runtime.decode.decoder import Decoder
from runtime.decode.scanning import BEYOND_RANGE, UNNAMED_ENUM, Marks
from runtime.decode.times import LAST_S
from runtime.source.event_times import known_ms, latest_us
from runtime.source.offsets import Partition
from runtime.source.reader.control_rows import (
    BAD_TIMES,
    ROWTIME,
    TIME,
    UNNAMED_ENUMS,
    RangeStatistics,
    Reason,
)
from runtime.source.records import HEADERS, HEADERS_COLUMN, NO_TIME, Ints, Records

_PREFIX = re.compile(r"^(failed to decode Protobuf message: |Error parsing message with type '[^']*': )+")
_METADATA = {
    "__topic": pa.string(),
    "__partition": pa.int32(),
    "__offset": pa.int64(),
    "__timestamp": TIME,
    "__value": pa.binary(),
    "__key": pa.binary(),
    HEADERS_COLUMN: HEADERS,
}


_COMPARE = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_COUNTED = ((BAD_TIMES, BEYOND_RANGE), (UNNAMED_ENUMS, UNNAMED_ENUM))
# Of nonsense in a Kafka time, the nearest that a column of microseconds can hold.
_LAST_MS = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class QuarantinedRecord:
    """Record that was quarantined: its index among others, why, and one sentence about it."""

    records: Records
    index: int
    reason: Reason
    detail: str

    @property
    def offset(self) -> int:
        """Offset in its partition."""
        return int(self.records.offsets[self.index])


class Rows:
    """Turns records of `message` into rows: columns of `paths`, rowtime, and the metadata in `paths`.

    Rows are counted, and then only those that meet the conditions are passed on: to carry the others to where
    WHERE drops them costs more than all else that is done with them.

    Without a time field nothing is decoded: every record is a row, whatever is in it, at its Kafka time.
    """

    def __init__(
        self,
        message: Descriptor,
        paths: Sequence[str],
        time_field: str,
        tolerance_ms: int,
        conditions: Sequence[Condition] = (),
    ) -> None:
        """`tolerance_ms` is how far an event time may be ahead; see `event_times.latest_us`."""
        self._message = message
        self._tolerance_ms = tolerance_ms
        self._conditions = tuple(conditions)
        fields = [path for path in paths if path not in _METADATA]
        self._decoder = Decoder(message, fields, time_field) if time_field else None
        self._metadata = [name for name in _METADATA if name in paths]
        metadata = [pa.field(name, _METADATA[name]) for name in self._metadata]
        decoded = self._decoder.schema if self._decoder else pa.schema([])
        self.schema = pa.schema([*decoded, pa.field(ROWTIME, TIME), *metadata])

    def rows(
        self,
        records: Records,
        partition: Partition,
        planned_ms: int,
        statistics: RangeStatistics,
    ) -> tuple[pa.RecordBatch, list[QuarantinedRecord]]:
        """Return the rows that meet the conditions, in order, and the quarantined records; count both.

        `planned_ms` is when the batch was planned; it stands for the Kafka time of records that have none.
        """
        if self._decoder is None:
            return self._without_decoding(records, partition, planned_ms, statistics), []
        quarantined: list[QuarantinedRecord] = []

        def quarantine(index: Any, reason: Reason, detail: str) -> None:
            quarantined.append(QuarantinedRecord(records, int(index), reason, detail))

        values, times_ms, indexes = (
            records.values,
            known_ms(records.times, planned_ms),
            np.arange(len(records)),
        )
        for index in np.flatnonzero(values.is_null()) if values.null_count else ():
            quarantine(index, Reason.EMPTY_VALUE, "The record has no value.")
        if values.null_count:
            indexes = np.flatnonzero(values.is_valid())
            values, times_ms = values.drop_null(), times_ms[indexes]
        decoded = self._decoder.decode(values)
        if decoded.broken:
            for row, why in decoded.broken.items():
                quarantine(indexes[row], Reason.MALFORMED, _sentence(why))
            broken = list(decoded.broken)
            indexes, times_ms = np.delete(indexes, broken), np.delete(times_ms, broken)
        columns, times = decoded.columns, decoded.rowtime
        event = times.cast(pa.int64())
        if event.null_count:
            timeless, micros = np.asarray(event.is_null()), np.asarray(event.fill_null(0))
        else:  # nearly always: nothing is copied
            timeless, micros = np.zeros(len(event), np.bool_), np.asarray(event)
        future = ~timeless & (micros > latest_us(times_ms, planned_ms, self._tolerance_ms))
        marks = decoded.marks
        if timeless.any() or future.any():
            for place in np.flatnonzero(timeless):
                quarantine(indexes[place], *_timeless(decoded.beyond.get(int(place))))
            for index, event_us, written in zip(
                indexes[future], micros[future], times_ms[future], strict=True
            ):
                quarantine(index, Reason.FROM_THE_FUTURE, _future(int(event_us), int(written), planned_ms))
            sound = ~(timeless | future)
            mask = pa.array(sound)
            columns, times = columns.filter(mask), times.filter(mask)
            micros, times_ms, indexes = micros[sound], times_ms[sound], indexes[sound]
            marks = None if marks is None else marks[sound]
        newest = statistics.add(micros)
        statistics.reach(str(partition), micros)
        if newest is not None:
            statistics.newest_record = f"{partition}, offset {records.offsets[indexes[newest]]}"
            statistics.ahead_ms = int(micros[newest]) // 1000 - min(int(times_ms[newest]), planned_ms)
        statistics.quarantined.update(record.reason for record in quarantined)
        _count(marks, statistics)
        readable = records if len(indexes) == len(records) else records.take(indexes)
        metadata = [_metadata(name, partition, readable, times_ms) for name in self._metadata]
        batch = pa.RecordBatch.from_arrays([*columns.columns, times, *metadata], schema=self.schema)
        return filter_rows(batch, self._conditions), quarantined

    def _without_decoding(
        self,
        records: Records,
        partition: Partition,
        planned_ms: int,
        statistics: RangeStatistics,
    ) -> pa.RecordBatch:
        """Make a row of every record. No clock is believed beyond the driver's: none is from the future."""
        times_ms = known_ms(records.times, planned_ms)
        micros = np.minimum(times_ms, planned_ms) * 1000
        newest = statistics.add(micros)
        statistics.reach(str(partition), micros)
        if newest is not None:
            statistics.newest_record = f"{partition}, offset {records.offsets[newest]}"
            statistics.ahead_ms = 0
        metadata = [_metadata(name, partition, records, times_ms) for name in self._metadata]
        times = pa.array(micros).cast(TIME)
        batch = pa.RecordBatch.from_arrays([times, *metadata], schema=self.schema)
        return filter_rows(batch, self._conditions)

    def quarantine_record(
        self, quarantined: QuarantinedRecord, partition: Partition
    ) -> telemetry_pb2.Quarantined:
        """Build the quarantine's record; the caller adds the job's name and generation."""
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


def _count(marks: Marks | None, statistics: RangeStatistics) -> None:
    """Count records by their marks."""
    if marks is not None:
        for name, mark in _COUNTED:
            statistics.invalid_inputs[name] += int(np.count_nonzero(marks & mark))


def filter_rows(rows: pa.RecordBatch, conditions: Sequence[Condition]) -> pa.RecordBatch:
    """Return the rows that meet all conditions."""
    for condition in conditions:
        rows = rows.filter(_matches(rows.column(condition.column), condition))
    return rows


def _matches(column: pa.Array, condition: Condition) -> pa.BooleanArray:
    if condition.op == "IN":
        return pc.is_in(column, value_set=pa.array(condition.values))
    (value,) = condition.values
    return _COMPARE[condition.op](column, value)


def _metadata(name: str, partition: Partition, records: Records, written_ms: Ints) -> pa.Array:
    match name:
        case "__topic":
            return pa.repeat(pa.scalar(partition.topic), len(records))
        case "__partition":
            return pa.repeat(pa.scalar(partition.number, pa.int32()), len(records))
        case "__offset":
            return pa.array(records.offsets)
        case "__value":
            return records.values
        case "__key":
            return records.keys
        case "__headers":
            return pa.nulls(len(records), HEADERS) if records.headers is None else records.headers
        case _:
            return pa.array(np.minimum(written_ms, _LAST_MS) * 1000).cast(TIME)


def _sentence(why: str) -> str:
    """Say why, without the name of our part of the message, which nobody knows."""
    return f"The record does not decode: {_PREFIX.sub('', why)}."


def _timeless(time: tuple[int, int] | None) -> tuple[Reason, str]:
    """Explain the quarantine of a record without an event time; `time`: seconds and nanos, if invalid."""
    if time is None:
        return Reason.NO_EVENT_TIME, "The record's event time is not set."
    seconds, nanos = time
    why = f"The record's event time is no Timestamp: seconds {seconds}, nanos {nanos}"
    if seconds <= LAST_S:
        return Reason.NO_EVENT_TIME, f"{why}."
    return Reason.FROM_THE_FUTURE, f"{why}. Are they milliseconds, or less?"


def _future(event_us: int, written_ms: int, planned_ms: int) -> str:
    compared_ms = min(written_ms, planned_ms)
    clock = "its Kafka time" if written_ms < planned_ms else "the driver's clock when it was read"
    return f"The record's event time is {event_us / 1e6 - compared_ms / 1e3:.0f} s ahead of {clock}."
