"""Find symptoms in a driver's own work: late rows, input without output. Pure.

LATE_ROWS and NO_OUTPUT make a dagger DEGRADED (`fleet.health.degradation`) and raise an alert
(`fleet.conditions.dagger_conditions`), with the measure and its limit from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1.telemetry_pb2 import Measure

from chassis.durations import format_span
from daggerspec import limits
from runtime.source.metrics import NewestRecord, ReaderMetrics
from runtime.source.watermark import WatermarkState

SPAN: Final = timedelta(seconds=limits.RECENT_S)
"""Time for which late rows are warned of, and the span that their share is computed over."""
OVERDUE: Final = timedelta(seconds=limits.OVERDUE_S)
"""Input without output is overdue this long after windows, delays and silences should have ended."""
NO_OUTPUT: Final = "NO_OUTPUT"
"""Code of the warning of input without output."""
WAITING_FOR_EXECUTORS: Final = "WAITING_FOR_EXECUTORS"
"""Code of the warning of a cluster that has none of the executors yet that the dagger needs."""
EXECUTORS_LOST: Final = "EXECUTORS_LOST"
"""Code of the warning of executors that ended lately."""
# span that batches are summed over: a few dozen values, however short the trigger
_GRAIN: Final = timedelta(seconds=5)
_SECOND_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Rows:
    """Sums of the batches of a short span from `since` on."""

    since: datetime
    read: int
    late: Mapping[str, int] = field(default_factory=dict)
    """Late rows by table."""
    late_windows: int = 0
    """Late rows, each counted once for every window that it is missing from."""

    def add(self, batch: Batch) -> Rows:
        """Add the rows of a batch."""
        late = Counter(self.late) + Counter(batch.late_by_table)
        return Rows(self.since, self.read + batch.read, late, self.late_windows + batch.late_windows)


@dataclass(frozen=True, slots=True)
class LateCause:
    """Cause of a reader's late rows, as of the last of them. Event times are in ms."""

    time: datetime
    newest: int
    """Greatest event time of the late rows."""
    mover: NewestRecord | None
    """Record that closed their windows; None if no record of this launch did."""
    moved: bool
    """True if this launch closed them at all: without a record, by its idle timeout."""


@dataclass(frozen=True, slots=True)
class Symptoms:
    """Symptoms of one launch's batches so far.

    patience: how long windows may take to close: their size, plus the watermark's delay and the idle timeout;
    None where nothing waits for event time.
    """

    patience: timedelta | None = None
    rows: tuple[Rows, ...] = ()
    """Sums of the last minutes, oldest first."""
    newest: Mapping[str, NewestRecord] = field(default_factory=dict)
    """Record that moved event time furthest, by reader."""
    late: Mapping[str, LateCause] = field(default_factory=dict)
    """Causes of recent late rows, by reader."""
    waiting: Rows | None = None
    """Rows read since a window closed or rows were written, while windows are open; None otherwise."""
    watermark: datetime | None = None
    too_late: bool = False
    """True if too many rows were late as of the last batch, with hysteresis: until the share is well below.
    """


@dataclass(frozen=True, slots=True)
class Batch:
    """One committed batch. watermarks: of its readers after it."""

    time: datetime
    read: int
    late_by_table: Mapping[str, int]
    """Late rows."""
    late_windows: int
    open: bool
    """True if windows are open that have rows."""
    gave: bool
    """True if windows closed, or rows were written."""
    watermark: datetime | None
    readers: Mapping[str, ReaderMetrics]
    watermarks: Mapping[str, WatermarkState]


def add_batch(symptoms: Symptoms, batch: Batch) -> Symptoms:
    """Update the symptoms by a committed batch."""
    symptoms = replace(
        symptoms, too_late=_too_late(symptoms, batch.time)
    )  # rows may have left the span since the last batch
    rows = [row for row in symptoms.rows if batch.time - row.since < SPAN]
    if rows and batch.time - rows[-1].since < _GRAIN:
        rows.append(rows.pop().add(batch))
    elif batch.read:
        rows.append(Rows(batch.time, 0).add(batch))
    newest = dict(symptoms.newest)
    late = dict(symptoms.late)
    for key, reader in batch.readers.items():
        if reader.late_newest is not None and any(batch.late_by_table.values()):
            late[key] = _late(key, reader.late_newest, newest.get(key), batch)
        if reader.newest is not None and (key not in newest or reader.newest.time > newest[key].time):
            newest[key] = reader.newest
    waiting = symptoms.waiting
    if batch.gave or not batch.open:
        waiting = None
    elif batch.read:
        waiting = (waiting or Rows(batch.time, 0)).add(batch)
    watermark = batch.watermark or symptoms.watermark
    after = replace(
        symptoms, rows=tuple(rows), newest=newest, late=late, waiting=waiting, watermark=watermark
    )
    return replace(after, too_late=_too_late(after, batch.time))


@dataclass(frozen=True, slots=True)
class DriverWarning:
    """A warning for people, with its code."""

    code: str
    """UPPER_SNAKE."""
    text: str
    measure: Measure | None = None
    """The measure that passed its limit; None where the warning has none."""

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def warnings(symptoms: Symptoms, now: datetime) -> Sequence[DriverWarning]:
    """Warn of the symptoms at `now`."""
    active = []
    rows = [row for row in symptoms.rows if now - row.since < SPAN]
    lately = _sum(rows, now)
    read, late = lately.read, sum(lately.late.values())
    if late:
        text = _late_rows(symptoms, lately, now)
        active.append(DriverWarning("LATE_RECORDS", text))
        if _too_late(symptoms, now):
            share = Measure(value=late / max(read, late), limit=limits.LATE_SHARE, unit="share")
            active.append(DriverWarning("LATE_ROWS", text, share))
    waiting = symptoms.waiting
    if waiting and symptoms.patience is not None and now - waiting.since >= symptoms.patience + OVERDUE:
        stands = (
            f"event time stands at {_format_time(symptoms.watermark)}"
            if symptoms.watermark
            else "no event time"
        )
        lasted, longest = now - waiting.since, symptoms.patience + OVERDUE
        late = sum(waiting.late.values())
        text = (
            f"{waiting.read:,} rows were read in {format_span(lasted)} ({late:,} of them late), and no"
            f" window was closed, which takes at most {format_span(symptoms.patience)}; {stands}"
        )
        overdue = Measure(value=lasted.total_seconds(), limit=longest.total_seconds(), unit="s")
        active.append(DriverWarning(NO_OUTPUT, text, overdue))
    return tuple(active)


def _too_late(symptoms: Symptoms, now: datetime) -> bool:
    """Decide whether too many rows are late, by count and share."""
    lately = _sum([row for row in symptoms.rows if now - row.since < SPAN], now)
    read, late = lately.read, sum(lately.late.values())
    if symptoms.too_late:
        return late > limits.SHARE_ENDS * limits.LATE_SHARE * read
    return late >= limits.LATE_ROWS and late > limits.LATE_SHARE * read


def _late(key: str, late_newest: int, newest: NewestRecord | None, batch: Batch) -> LateCause:
    """Build the cause of a reader's late rows in this batch. newest: its newest record before the batch."""
    watermark_ms = int(batch.watermark.timestamp() * _SECOND_MS) if batch.watermark else 0
    state = batch.watermarks[key]
    moved = newest is not None and newest.time - state.delay >= watermark_ms
    return LateCause(batch.time, late_newest, newest if moved else None, state.watermark >= watermark_ms)


def _sum(rows: Sequence[Rows], now: datetime) -> Rows:
    """Sum several spans."""
    late: Counter[str] = Counter()
    for row in rows:
        late.update(row.late)
    windows = sum(row.late_windows for row in rows)
    return Rows(rows[0].since if rows else now, sum(row.read for row in rows), late, windows)


def _late_rows(symptoms: Symptoms, lately: Rows, now: datetime) -> str:
    late, windows = sum(lately.late.values()), lately.late_windows
    share = f" ({late / lately.read:.1%})" if lately.read else ""
    counted = (
        f"{late:,} of the {lately.read:,} rows of the last {format_span(SPAN)}{share} came after a window of"
    )
    missing = f"theirs was closed, and are missing from {windows:,} windows in all."
    if len(lately.late) > 1:
        by_table = (f"{rows:,} of {table}" for table, rows in sorted(lately.late.items()))
        missing += f" By stream: {', '.join(by_table)}."
    causes = [_cause(report) for report in symptoms.late.values() if now - report.time < SPAN]
    return " ".join([counted, missing, *dict.fromkeys(causes)])


def _cause(late: LateCause) -> str:
    mover = late.mover
    if late.newest < 0:
        return "Spark's event time begins in 1970: windows before are closed from the beginning."
    if mover is None and late.moved:
        return "Their stream had been silent for its idle_timeout, and event time had gone on without it."
    if mover is None:
        return "Event time had come that far before this launch."
    than = timedelta(milliseconds=mover.time - late.newest)
    ahead = f"{format_span(than)} ahead of the newest of them"
    if mover.ahead >= _SECOND_MS:
        ahead = (
            f"{format_span(timedelta(milliseconds=mover.ahead))} ahead of the clock when it was read, {ahead}"
        )
    moved_to = datetime.fromtimestamp(mover.time / _SECOND_MS, UTC)
    return f"Event time was moved to {_format_time(moved_to)} by {mover.position}: {ahead}."


def _format_time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
