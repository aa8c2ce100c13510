"""Classify records that never became rows: can they be decoded now, do their rows need other records, are
their windows closed? Pure.
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
from runtime.replay.history import QuarantineEntry
from runtime.replay.originals import Original, Source
from runtime.replay.verdicts import Resolved
from runtime.source import watermark
from runtime.source.event_times import known_ms, latest_us
from runtime.source.plan import milliseconds

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS: Final = int(datetime(1, 1, 2, tzinfo=UTC).timestamp()) * 1000
_DETAIL_BY_REASON: Final[Mapping[str, str]] = {
    "MALFORMED": "It cannot be read as {} of today either.",
    "NO_EVENT_TIME": "Its event time is not set.",
    "FROM_THE_FUTURE": "Its event time is ahead of its Kafka time, by more than future_tolerance.",
}
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class TriedRecord:
    """A record that is tried, with its content and its edit."""

    entry: QuarantineEntry
    record: telemetry_pb2.Quarantined
    edited_value: bytes | None = None
    """Value that a person has put in place of the record's."""


@dataclass(frozen=True, slots=True)
class PassingRecord:
    """A record whose rows need no other record: they can be computed from it alone."""

    entry: QuarantineEntry
    table: str
    source: Source
    original: Original


@dataclass(frozen=True, slots=True)
class LateRecord:
    """A record that closed windows lack: they have to be computed again from all their records."""

    entry: QuarantineEntry
    table: str
    source: Source
    starts: tuple[int, ...]
    """Starts of the windows that it belongs to, in ms since 1970."""
    edited_value: bytes | None
    """Value to read in place of the record's."""


class RecordClassifier:
    """Decides, by the present spec of a dagger, what a replay does with each record."""

    def __init__(
        self,
        spec: spec_pb2.JobSpec,
        plan: daggersql.Plan,
        closed_until: datetime | None,
        *,
        computes: bool,
        recomputes: bool,
        now_ms: int | None = None,
    ) -> None:
        """Take the job, its plan and what this replay may do.

        closed_until: event time up to which the dagger's driver has closed windows; None: none is known to be
        closed. computes: the query can be computed. recomputes: closed windows are computed again, too.
        now_ms: the present in ms since 1970; None: the clock's.
        """
        self._plan, self._closed_until = plan, closed_until
        self._computes, self._recomputes = computes, recomputes
        self._now_ms = int(time.time() * 1000) if now_ms is None else now_ms
        self._streams = {topic: stream for stream in spec.streams for topic in stream.stream.topics}
        self._paths = {read.table: read.fields for read in plan.reads}
        self._catalogue = LaunchCatalogue(spec)
        self._decoders: dict[str, Decoder] = {}

    def classify(
        self, tried: TriedRecord, original: Original | None
    ) -> Resolved | PassingRecord | LateRecord:
        """Return the outcome of a record that is not written, or the record in the class that says how it is.

        original: the record as Kafka still has it; None if it was deleted.
        """
        record, entry = tried.record, tried.entry
        stream = self._streams.get(record.topic)
        if stream is None or stream.input.table not in self._paths:
            return verdicts.resolve_not_replayable(
                "STREAM_GONE", f"The dagger reads {record.topic} no longer."
            )
        content = original or originals.original_in_quarantine(record)
        if tried.edited_value is not None:
            base = content or Original(b"", record.key or None, record.record_time.ToMilliseconds())
            content = replace(base, value=tried.edited_value)
        if content is None:
            return verdicts.resolve_not_replayable(
                "TRUNCATED", "The record was too large to be kept whole, and Kafka has it no more."
            )
        reason, event_ms = self._decode(stream, content)
        if reason:
            return verdicts.resolve_failed_again(
                entry, reason, _DETAIL_BY_REASON[reason].format(stream.stream.message)
            )
        return self._classify_by_windows(
            tried, stream.input.table, content, event_ms, is_deleted=original is None
        )

    def _classify_by_windows(
        self, tried: TriedRecord, table: str, content: Original, event_ms: int, *, is_deleted: bool
    ) -> Resolved | PassingRecord | LateRecord:
        entry, source = tried.entry, originals.source_of(tried.record)
        windows = self._plan.closing.get(table, ())
        if not windows:
            return PassingRecord(entry, table, source, content) if self._computes else _needs_query()
        time = _EPOCH + timedelta(milliseconds=event_ms)
        late = self._find_closed_windows(windows, event_ms)
        windows_text = _describe_windows((late or windows)[0], time)
        if not late:
            return verdicts.resolve_not_replayable(
                "WINDOWS_OPEN",
                f"It can be read now, and {windows_text} is not closed: replay it with recompute once that"
                " is, or produce it to the topic again before.",
            )
        if not self._recomputes:
            return verdicts.resolve_late(
                f"Closed before it could count: {windows_text}; with recompute that is computed again."
            )
        if not self._computes:
            return _needs_query()
        window = self._plan.window
        if window is None or window.kind not in ("TUMBLE", "HOP"):
            return verdicts.resolve_not_replayable(
                "NEEDS_RESTART",
                "Of sessions, joins and windows in windows none can be computed alone: have another dagger"
                " read the topic from before it.",
            )
        if is_deleted:
            return verdicts.resolve_not_replayable(
                "RECORDS_GONE", f"Kafka has deleted records of {windows_text}."
            )
        return LateRecord(entry, table, source, _window_starts(window, event_ms), tried.edited_value)

    def _find_closed_windows(
        self, windows: Sequence[daggersql.Window], event_ms: int
    ) -> list[daggersql.Window]:
        """Return the windows whose last instance with this event time is closed."""
        if self._closed_until is None:
            return []
        closed_ms = _milliseconds(self._closed_until)
        return [one for one in windows if watermark.windows(one).first_open(closed_ms) > event_ms]

    def _decode(self, stream: spec_pb2.ResolvedStream, content: Original) -> tuple[str, int]:
        """Decode the content; return the reason of a failure, else an empty one, and the event time in ms."""
        table = stream.input.table
        if table not in self._decoders:
            message = self._catalogue.message(stream.stream.message)
            self._decoders[table] = Decoder(message, self._paths[table], stream.stream.time_field)
        decoded = self._decoders[table].decode(pa.array([content.value], pa.binary()))
        if list(decoded.broken):
            return "MALFORMED", 0
        micros = decoded.rowtime.cast(pa.int64())[0].as_py()
        if micros is None:
            return "NO_EVENT_TIME", 0
        time_ms = known_ms(np.array([content.time_ms], np.int64), self._now_ms)
        if micros > latest_us(time_ms, self._now_ms, milliseconds(stream.input.future_tolerance))[0]:
            return "FROM_THE_FUTURE", 0
        return "", max(micros // 1000, _FIRST_MS)


def _needs_query() -> Resolved:
    return verdicts.resolve_not_replayable(
        "NEEDS_QUERY", "It can be read now; this replay was asked for without its query: ask for it again."
    )


def _window_starts(window: daggersql.Window, event_ms: int) -> tuple[int, ...]:
    """Return the starts, in ms, of all windows that an event of this time belongs to."""
    bounds = watermark.windows(window)
    last = bounds.last_end(event_ms) - bounds.size
    return tuple(range(last, event_ms - bounds.size, -bounds.slide))


def _describe_windows(window: daggersql.Window, time: datetime) -> str:
    """Describe the windows that an event of this time belongs to; at most the last `_MOST_NAMED` of them."""
    if window.kind not in ("TUMBLE", "HOP"):
        return (
            f"what {'a join' if window.kind == 'JOIN' else 'its session'} waits for at {_format_time(time)}"
        )
    last = watermark.windows(window).last_end(_milliseconds(time))
    ends = [_EPOCH + timedelta(milliseconds=last) - number * window.slide for number in range(_MOST_NAMED)]
    containing = [end for end in ends if end - window.size <= time < end]
    return ", ".join(
        f"the window from {_format_time(end - window.size)} to {_format_time(end)}"
        for end in containing[::-1]
    )


def _milliseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(milliseconds=1)


def _format_time(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
