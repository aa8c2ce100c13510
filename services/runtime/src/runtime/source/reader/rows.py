"""Kafka records are decoded, counted, and looked at: which of them can be used, in an executor's worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message
from daggers.v1 import telemetry_pb2
from google.protobuf.descriptor import Descriptor

from runtime.decode.damage import prefix
from runtime.decode.decoder import Decoder
from runtime.source.offsets import Partition
from runtime.source.reader.control_rows import ROWTIME, TIME, Reason, Tally

_METADATA = {
    "__topic": pa.string(),
    "__partition": pa.int32(),
    "__offset": pa.int64(),
    "__timestamp": TIME,
}


@dataclass(frozen=True, slots=True)
class Aside:
    """A record that was set aside: the message, why, and one sentence about it."""

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
        """`tolerance_ms` is how far an event time may be ahead; see `_latest`."""
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
        tally: Tally,
    ) -> tuple[pa.RecordBatch, list[Aside]]:
        """The wanted rows of these messages without errors, in order, and the records that were set aside.

        `planned_ms` is when the batch was planned; it stands for the Kafka time of records that have none.
        Rows before `late_before_ms` are late. Both are counted in `tally`.
        """
        kept, values = _valued(messages)
        aside = []
        if len(kept) < len(messages):
            empty = [message for message in messages if message.value() is None]
            aside += [Aside(message, Reason.EMPTY_VALUE, "The record has no value.") for message in empty]
        decoded = self._decoder.decode(values)
        if decoded.broken:
            aside += [Aside(kept[i], Reason.MALFORMED, _sentence(why)) for i, why in decoded.broken.items()]
            kept = [message for index, message in enumerate(kept) if index not in decoded.broken]
        event = decoded.rowtime.cast(pa.int64())
        timeless = np.asarray(event.is_null())
        micros = np.asarray(event.fill_null(0))
        future = ~timeless & _ahead(micros, kept, planned_ms, self._tolerance_ms)
        columns, times = decoded.columns, decoded.rowtime
        if timeless.any() or future.any():
            for index in np.flatnonzero(timeless).tolist():
                aside.append(Aside(kept[index], Reason.NO_EVENT_TIME, "The record's event time is not set."))
            for index in np.flatnonzero(future).tolist():
                detail = _future(int(micros[index]), kept[index], planned_ms)
                aside.append(Aside(kept[index], Reason.FROM_THE_FUTURE, detail))
            sound = ~(timeless | future)
            mask = pa.array(sound)
            columns, times, micros = columns.filter(mask), times.filter(mask), micros[sound]
            kept = [kept[index] for index in np.flatnonzero(sound).tolist()]
        newest = tally.add(micros, late_before_ms)
        if newest is not None:
            tally.place = f"{partition}, offset {kept[newest].offset()}"
            tally.ahead_ms = int(micros[newest]) // 1000 - _clock(kept[newest], planned_ms)
        tally.aside.update(one.reason for one in aside)
        metadata = [self._column(name, kept, partition, planned_ms) for name in self._metadata]
        batch = pa.RecordBatch.from_arrays([*columns.columns, times, *metadata], schema=self.schema)
        return wanted(batch, self._equal), aside

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
                return pa.array(written, pa.int64()).cast(TIME)


def wanted(rows: pa.RecordBatch, equal: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    """The rows whose text columns are what they must be."""
    for column, value in equal:
        rows = rows.filter(pc.equal(rows.column(column), value))
    return rows


def event_times(
    messages: Sequence[Message], decoder: Decoder, planned_ms: int, tolerance_ms: int
) -> Iterator[tuple[Message, int]]:
    """Each message whose event time can be used, with that time in us: what `Rows` would let through."""
    kept, values = _valued(messages)
    decoded = decoder.decode(values)
    sound = [message for index, message in enumerate(kept) if index not in decoded.broken]
    for message, micros in zip(sound, decoded.rowtime.cast(pa.int64()).to_pylist(), strict=True):
        if micros is not None and micros <= _latest(message, planned_ms, tolerance_ms):
            yield message, micros


def _valued(messages: Sequence[Message]) -> tuple[Sequence[Message], list[bytes]]:
    """The messages that have a value, and these values."""
    values = list(map(Message.value, messages))
    if all(values):  # the quickest look at many; an empty value is none of those that are looked for
        return messages, cast("list[bytes]", values)
    kept = [message for message, value in zip(messages, values, strict=True) if value is not None]
    return kept, [value for value in values if value is not None]


def _latest(message: Message, planned_ms: int, tolerance_ms: int) -> int:
    """The latest event time (us) of a record that is not from the future.

    That is `tolerance_ms` after the earlier of its Kafka time, which its producer may have written by the
    same wrong clock, and the time when its batch was planned, which a replay knows too.
    """
    return (_clock(message, planned_ms) + tolerance_ms) * 1000


def _clock(message: Message, planned_ms: int) -> int:
    return min(_time_of(message, planned_ms), planned_ms)


def _ahead(micros: np.ndarray, messages: Sequence[Message], planned_ms: int, tolerance_ms: int) -> np.ndarray:
    """Which records, by their event times, are from the future.

    To ask a message for its time is dear, so of millions each is asked once, for the earliest of all; only
    what is ahead of that is looked at for itself.
    """
    earliest_ms = min([message.timestamp()[1] for message in messages], default=planned_ms)
    ahead = micros > (min(earliest_ms, planned_ms) + tolerance_ms) * 1000
    for index in np.flatnonzero(ahead).tolist():
        ahead[index] = micros[index] > _latest(messages[index], planned_ms, tolerance_ms)
    return ahead


def _time_of(message: Message, otherwise_ms: int) -> int:
    """The Kafka time (ms) of a record; some producers write none, or nonsense from before Kafka."""
    written = message.timestamp()[1]
    return written if written > 0 else otherwise_ms


def _sentence(why: str) -> str:
    return f"The record does not decode: {why.removeprefix('failed to decode Protobuf message: ')}."


def _future(event_us: int, message: Message, planned_ms: int) -> str:
    written_ms = _time_of(message, planned_ms)
    clock = "its Kafka time" if written_ms < planned_ms else "the driver's clock when it was read"
    ahead_s = event_us / 1e6 - min(written_ms, planned_ms) / 1e3
    return f"The record's event time is {ahead_s:.0f} s ahead of {clock}."


def _bytes(key: str | bytes | None) -> bytes:
    return key.encode() if isinstance(key, str) else key or b""
