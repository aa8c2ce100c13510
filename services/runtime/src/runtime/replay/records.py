"""What is to be done with a record that never became a row: whether it can be read now, whether its rows only
pass, and whether its windows are closed. Pure.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
from daggers.v1 import spec_pb2, telemetry_pb2

import daggersql
from daggerspec.launch import LaunchCatalogue
from runtime.decode.decoder import Decoder
from runtime.replay import originals, verdicts
from runtime.replay.history import Kept
from runtime.replay.originals import Original, Source
from runtime.replay.verdicts import Resolved
from runtime.source import watermark
from runtime.source.event_times import known_ms, latest_us
from runtime.source.plan import milliseconds

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = int(datetime(1, 1, 2, tzinfo=UTC).timestamp()) * 1000
_STILL: Final[Mapping[str, str]] = {
    "MALFORMED": "It cannot be read as {} of today either.",
    "NO_EVENT_TIME": "Its event time is not set.",
    "FROM_THE_FUTURE": "Its event time is ahead of its Kafka time, by more than future_tolerance.",
}
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Tried:
    """A record that is tried."""

    kept: Kept
    record: telemetry_pb2.Quarantined
    edited: bytes | None = None
    """What is to be taken in place of its value."""


@dataclass(frozen=True, slots=True)
class Passes:
    """A record whose rows need no other record."""

    kept: Kept
    table: str
    source: Source
    original: Original


@dataclass(frozen=True, slots=True)
class Counts:
    """A record that windows lack which are closed."""

    kept: Kept
    table: str
    source: Source
    starts: tuple[int, ...]
    """When they begin, in ms."""
    mended: bytes | None
    """What is to be read in place of its value."""


class Records:
    """The records of one dagger, seen with its spec of today."""

    def __init__(
        self,
        spec: spec_pb2.JobSpec,
        plan: daggersql.Plan,
        closed: datetime | None,
        *,
        computes: bool,
        recomputes: bool,
        now_ms: int | None = None,
    ) -> None:
        """`closed`: up to which event time its driver has closed windows; None: none, as far as is known.
        `computes`: whether the query can be computed, `recomputes`: also for windows that are closed.
        """
        self._plan, self._closed = plan, closed
        self._computes, self._recomputes = computes, recomputes
        self._now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        self._streams = {topic: stream for stream in spec.streams for topic in stream.stream.topics}
        self._paths = {read.table: read.fields for read in plan.reads}
        self._catalogue = LaunchCatalogue(spec)
        self._decoders: dict[str, Decoder] = {}

    def outcome(self, tried: Tried, original: Original | None) -> Resolved | Passes | Counts:
        """What is said of a record, or to be done with it. `original` is what Kafka still has of it."""
        record, kept = tried.record, tried.kept
        stream = self._streams.get(record.topic)
        if stream is None or stream.input.table not in self._paths:
            return verdicts.not_replayable("STREAM_GONE", f"The dagger reads {record.topic} no longer.")
        held = original or originals.kept(record)
        if tried.edited is not None:
            before = held or Original(b"", record.key or None, record.record_time.ToMilliseconds())
            held = replace(before, value=tried.edited)
        if held is None:
            return verdicts.not_replayable(
                "TRUNCATED", "The record was too large to be kept whole, and Kafka has it no more."
            )
        wrong, event_ms = self._read(stream, held)
        if wrong:
            return verdicts.failed_again(kept, wrong, _STILL[wrong].format(stream.stream.message))
        return self._of_windows(tried, stream.input.table, held, event_ms, is_gone=original is None)

    def _of_windows(
        self, tried: Tried, table: str, held: Original, event_ms: int, *, is_gone: bool
    ) -> Resolved | Passes | Counts:
        kept, source = tried.kept, originals.source(tried.record)
        windows = self._plan.closing.get(table, ())
        if not windows:
            return Passes(kept, table, source, held) if self._computes else _needs_query()
        time = _EPOCH + timedelta(milliseconds=event_ms)
        late = self._late(windows, event_ms)
        named = _named((late or windows)[0], time)
        if not late:
            return verdicts.not_replayable(
                "WINDOWS_OPEN",
                f"It can be read now, and {named} is not closed: replay it with recompute once that is, or"
                " produce it to the topic again before.",
            )
        if not self._recomputes:
            return verdicts.late(
                f"Closed before it could count: {named}; with recompute that is computed again."
            )
        if not self._computes:
            return _needs_query()
        window = self._plan.window
        if window is None or window.kind not in ("TUMBLE", "HOP"):
            return verdicts.not_replayable(
                "NEEDS_RESTART",
                "Of sessions, joins and windows in windows none can be computed alone: have another dagger"
                " read the topic from before it.",
            )
        if is_gone:
            return verdicts.not_replayable("RECORDS_GONE", f"Kafka has deleted records of {named}.")
        return Counts(kept, table, source, _starts(window, event_ms), tried.edited)

    def _late(self, windows: Sequence[daggersql.Window], event_ms: int) -> list[daggersql.Window]:
        """Those of which the last one is closed that a record of this time belongs to."""
        if self._closed is None:
            return []
        closed_ms = _milliseconds(self._closed)
        return [one for one in windows if watermark.windows(one).first_open(closed_ms) > event_ms]

    def _read(self, stream: spec_pb2.ResolvedStream, held: Original) -> tuple[str, int]:
        """Why it cannot be read, as a reason; else empty, and its event time in ms."""
        table = stream.input.table
        if table not in self._decoders:
            message = self._catalogue.message(stream.stream.message)
            self._decoders[table] = Decoder(message, self._paths[table], stream.stream.time_field)
        decoded = self._decoders[table].decode(pa.array([held.value], pa.binary()))
        if list(decoded.broken):
            return "MALFORMED", 0
        micros = decoded.rowtime.cast(pa.int64())[0].as_py()
        if micros is None:
            return "NO_EVENT_TIME", 0
        written = known_ms(np.array([held.time_ms], np.int64), self._now_ms)
        if micros > latest_us(written, self._now_ms, milliseconds(stream.input.future_tolerance))[0]:
            return "FROM_THE_FUTURE", 0
        return "", max(micros // 1000, _FIRST_MS)


def _needs_query() -> Resolved:
    return verdicts.not_replayable(
        "NEEDS_QUERY", "It can be read now; this replay was asked for without its query: ask for it again."
    )


def _starts(window: daggersql.Window, event_ms: int) -> tuple[int, ...]:
    """When the windows begin that a record of this time belongs to."""
    known = watermark.windows(window)
    last = known.last_end(event_ms) - known.size
    return tuple(range(last, event_ms - known.size, -known.slide))


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
