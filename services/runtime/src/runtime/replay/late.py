"""What a replay says of a record that never became a row: whether it can be read now, and whether its windows
are closed. Pure.

What a query makes of a record is computed by Spark, which a replay does not have: so no such record is
written by it yet. It stays open, and what is said tells what to do.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
from daggers.v1 import spec_pb2, telemetry_pb2

import daggersql
from daggerspec.launch import LaunchCatalogue
from runtime.decode.decoder import Decoder
from runtime.replay import verdicts
from runtime.replay.history import Kept
from runtime.replay.verdicts import Resolved
from runtime.source import watermark

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_NAMED: Final = 3


class Records:
    """The records of one dagger, seen with its spec of today."""

    def __init__(self, spec: spec_pb2.JobSpec, plan: daggersql.Plan, closed: datetime | None) -> None:
        """`closed`: up to which event time its driver has closed windows; None: that is not known."""
        self._plan, self._closed = plan, closed
        self._streams = {topic: stream for stream in spec.streams for topic in stream.stream.topics}
        self._paths = {read.table: read.fields for read in plan.reads}
        self._catalogue = LaunchCatalogue(spec)
        self._decoders: dict[str, Decoder] = {}

    def outcome(self, kept: Kept, record: telemetry_pb2.Quarantined, edited: bytes | None) -> Resolved:
        """What is said of a record; `edited` is what is to be taken in place of its value."""
        stream = self._streams.get(record.topic)
        if stream is None or stream.input.table not in self._paths:
            return verdicts.not_replayable("STREAM_GONE", f"The dagger reads {record.topic} no longer.")
        if record.truncated and edited is None:
            return verdicts.not_replayable("TRUNCATED", "The record was too large to be kept whole.")
        time = self._event_time(stream, record.value if edited is None else edited)
        if time is None:
            return verdicts.failed_again(
                kept, record.reason, f"It cannot be read as {stream.stream.message} of today either."
            )
        return self._of_windows(stream.input.table, time)

    def _of_windows(self, table: str, time: datetime) -> Resolved:
        windows = self._plan.closing.get(table, ())
        if not windows:
            return verdicts.not_replayable(
                "NEEDS_QUERY",
                "It can be read now; a replay computes no query yet: produce it to the topic again, or have"
                " another dagger forward the topic from before it.",
            )
        if self._closed is None:
            return verdicts.not_replayable(
                "NEEDS_QUERY", "It can be read now; which windows are closed cannot be told without a driver."
            )
        closed_ms, time_ms = (_milliseconds(time_) for time_ in (self._closed, time))
        late = [window for window in windows if watermark.windows(window).first_on_time(closed_ms) > time_ms]
        if late:
            return verdicts.late(f"Closed before it could count: {_named(late[0], time)}.")
        return verdicts.not_replayable(
            "WINDOWS_OPEN",
            f"It can be read now, and {_named(windows[0], time)} is open; a replay feeds no running"
            " query yet: produce it to the topic again before that closes.",
        )

    def _event_time(self, stream: spec_pb2.ResolvedStream, value: bytes) -> datetime | None:
        """Its event time; None where it cannot be read."""
        table = stream.input.table
        if table not in self._decoders:
            message = self._catalogue.message(stream.stream.message)
            self._decoders[table] = Decoder(message, self._paths[table], stream.stream.time_field)
        decoded = self._decoders[table].decode(pa.array([value], pa.binary()))
        if list(decoded.broken):
            return None
        micros = decoded.rowtime.cast(pa.int64())[0].as_py()
        with suppress(OverflowError):  # beyond the years that there are
            return None if micros is None else _EPOCH + timedelta(microseconds=micros)
        return None


def _named(window: daggersql.Window, time: datetime) -> str:
    """The windows that a record of this time belongs to, in words; of many the last ones."""
    if window.kind not in ("TUMBLE", "HOP"):
        return f"what {'a join' if window.kind == 'JOIN' else 'its session'} waits for at {_told(time)}"
    last = watermark.windows(window).last_end(_milliseconds(time))
    ends = [_EPOCH + timedelta(milliseconds=last) - number * window.slide for number in range(_MOST_NAMED)]
    holding = [end for end in ends if end - window.size <= time < end]
    return ", ".join(f"the window from {_told(end - window.size)} to {_told(end)}" for end in holding[::-1])


def _milliseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _told(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
