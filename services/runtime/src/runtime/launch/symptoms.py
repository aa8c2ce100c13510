"""What a driver finds wrong with its own work: rows that come late, input without output. Pure.

A value and functions from it to the next one, and from it to warnings. LATE_ROWS and NO_OUTPUT make a dagger
DEGRADED (`fleet.health.degradation`) and an alert (`health_monitor.condition`), which tells the number that
is measured here and its limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1.telemetry_pb2 import Measure

from chassis.durations import spoken
from daggerspec import limits
from runtime.source.metrics import NewestRecord, ReaderMetrics
from runtime.source.watermark import WatermarkState

SPAN: Final = timedelta(seconds=limits.RECENT_S)
"""Late rows are told for so long, and their share is taken over it."""
OVERDUE: Final = timedelta(seconds=limits.OVERDUE_S)
"""Input without output is too long when it lasts so much longer than windows, delays and silences may."""
NO_OUTPUT: Final = "NO_OUTPUT"
"""The code of what is said of input without output."""
# Batches are added up for so long: a few dozen values, however short the trigger.
_GRAIN: Final = timedelta(seconds=5)
_SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Rows:
    """What was read from `since` on, for a moment."""

    since: datetime
    read: int
    late: Mapping[str, int] = field(default_factory=dict)
    """Rows, by table."""
    late_windows: int = 0
    """The same, each as often as there are windows that it is missing from."""

    def and_of(self, batch: Batch) -> Rows:
        """And those of a batch."""
        late = Counter(self.late) + Counter(batch.late_by_table)
        return Rows(self.since, self.read + batch.read, late, self.late_windows + batch.late_windows)


@dataclass(frozen=True, slots=True)
class Late:
    """Why rows of a reader were late, by what was known when the last of them came; times in ms."""

    time: datetime
    newest: int
    """The greatest event time of the late rows."""
    mover: NewestRecord | None
    """The record that closed their windows; None when none of this launch did."""
    moved: bool
    """Whether this launch did at all: without a record, by a tick."""


@dataclass(frozen=True, slots=True)
class Symptoms:
    """What is known of the batches of one launch.

    `patience` is how long windows may take to close: their size, the watermark's delay and the time that a
    topic may be silent; None where nothing waits for event time.
    """

    patience: timedelta | None = None
    rows: tuple[Rows, ...] = ()
    """The last minutes, oldest first."""
    newest: Mapping[str, NewestRecord] = field(default_factory=dict)
    """By reader: the record that has moved event time furthest."""
    late: Mapping[str, Late] = field(default_factory=dict)
    """By reader, where it had late rows lately."""
    waiting: Rows | None = None
    """What was read since a window was closed, or rows were written, while windows were open."""
    watermark: datetime | None = None
    too_late: bool = False
    """Whether too many rows were late by the last batch: they are until it is well below the limit."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One committed batch; `watermarks` are those of its readers after it."""

    time: datetime
    read: int
    late_by_table: Mapping[str, int]
    """Late rows."""
    late_windows: int
    open: bool
    """Whether windows hold rows."""
    gave: bool
    """Whether windows were closed, or rows written."""
    watermark: datetime | None
    readers: Mapping[str, ReaderMetrics]
    watermarks: Mapping[str, WatermarkState]


def committed(known: Symptoms, batch: Batch) -> Symptoms:
    """What is known after a batch."""
    known = replace(known, too_late=_too_late(known, batch.time))  # it may have ended since the last one
    rows = [row for row in known.rows if batch.time - row.since < SPAN]
    if rows and batch.time - rows[-1].since < _GRAIN:
        rows.append(rows.pop().and_of(batch))
    elif batch.read:
        rows.append(Rows(batch.time, 0).and_of(batch))
    newest = dict(known.newest)
    late = dict(known.late)
    for key, reader in batch.readers.items():
        if reader.late_newest is not None and any(batch.late_by_table.values()):
            late[key] = _late(key, reader.late_newest, newest.get(key), batch)
        if reader.newest is not None and (key not in newest or reader.newest.time > newest[key].time):
            newest[key] = reader.newest
    waiting = known.waiting
    if batch.gave or not batch.open:
        waiting = None
    elif batch.read:
        waiting = (waiting or Rows(batch.time, 0)).and_of(batch)
    watermark = batch.watermark or known.watermark
    after = replace(known, rows=tuple(rows), newest=newest, late=late, waiting=waiting, watermark=watermark)
    return replace(after, too_late=_too_late(after, batch.time))


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that a person should know."""

    code: str
    """UPPER_SNAKE."""
    text: str
    measure: Measure | None = None
    """The number that passed its limit, where one did."""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def warnings(known: Symptoms, now: datetime) -> Sequence[Warned]:
    """What a person should know at `now`."""
    warned = []
    rows = [row for row in known.rows if now - row.since < SPAN]
    lately = _sum(rows, now)
    read, late = lately.read, sum(lately.late.values())
    if late:
        text = _late_rows(known, lately, now)
        warned.append(Warned("LATE_RECORDS", text))
        if _too_late(known, now):
            share = Measure(value=late / max(read, late), limit=limits.LATE_SHARE, unit="share")
            warned.append(Warned("LATE_ROWS", text, share))
    waiting = known.waiting
    if waiting and known.patience is not None and now - waiting.since >= known.patience + OVERDUE:
        stands = f"event time stands at {_instant(known.watermark)}" if known.watermark else "no event time"
        lasted, longest = now - waiting.since, known.patience + OVERDUE
        late = sum(waiting.late.values())
        text = (
            f"{waiting.read:,} rows were read in {spoken(lasted)} ({late:,} of them late), and no"
            f" window was closed, which takes at most {spoken(known.patience)}; {stands}"
        )
        overdue = Measure(value=lasted.total_seconds(), limit=longest.total_seconds(), unit="s")
        warned.append(Warned(NO_OUTPUT, text, overdue))
    return tuple(warned)


def _too_late(known: Symptoms, now: datetime) -> bool:
    """Whether so many rows are late that somebody has to know."""
    lately = _sum([row for row in known.rows if now - row.since < SPAN], now)
    read, late = lately.read, sum(lately.late.values())
    if known.too_late:
        return late > limits.SHARE_ENDS * limits.LATE_SHARE * read
    return late >= limits.LATE_ROWS and late > limits.LATE_SHARE * read


def _late(key: str, late_newest: int, newest: NewestRecord | None, batch: Batch) -> Late:
    """Why a reader's rows are late in this batch, of which `newest` came before."""
    watermark_ms = int(batch.watermark.timestamp() * _SECOND_MS) if batch.watermark else 0
    state = batch.watermarks[key]
    moved = newest is not None and newest.time - state.delay >= watermark_ms
    return Late(batch.time, late_newest, newest if moved else None, state.watermark >= watermark_ms)


def _sum(rows: Sequence[Rows], now: datetime) -> Rows:
    """All of them together."""
    late: Counter[str] = Counter()
    for row in rows:
        late.update(row.late)
    windows = sum(row.late_windows for row in rows)
    return Rows(rows[0].since if rows else now, sum(row.read for row in rows), late, windows)


def _late_rows(known: Symptoms, lately: Rows, now: datetime) -> str:
    late, windows = sum(lately.late.values()), lately.late_windows
    share = f" ({late / lately.read:.1%})" if lately.read else ""
    counted = f"{late:,} of the {lately.read:,} rows of the last {spoken(SPAN)}{share} came after a window of"
    missing = f"theirs was closed, and are missing from {windows:,} windows in all."
    if len(lately.late) > 1:
        by_table = (f"{rows:,} of {table}" for table, rows in sorted(lately.late.items()))
        missing += f" By stream: {', '.join(by_table)}."
    causes = [_cause(report) for report in known.late.values() if now - report.time < SPAN]
    return " ".join([counted, missing, *dict.fromkeys(causes)])


def _cause(late: Late) -> str:
    mover = late.mover
    if late.newest < 0:
        return "Spark's event time begins in 1970: windows before are closed from the beginning."
    if mover is None and late.moved:
        return "Their stream had been silent for its idle_timeout, and event time had gone on without it."
    if mover is None:
        return "Event time had come that far before this launch."
    than = timedelta(milliseconds=mover.time - late.newest)
    ahead = f"{spoken(than)} ahead of the newest of them"
    if mover.ahead >= _SECOND_MS:
        ahead = f"{spoken(timedelta(milliseconds=mover.ahead))} ahead of the clock when it was read, {ahead}"
    moved_to = datetime.fromtimestamp(mover.time / _SECOND_MS, UTC)
    return f"Event time was moved to {_instant(moved_to)} by {mover.position}: {ahead}."


def _instant(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
