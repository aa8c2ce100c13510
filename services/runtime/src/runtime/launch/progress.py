"""How far a launch has come: a pure fold over what Spark, the source and the sinks report, into a heartbeat.

A value and functions from it to the next one; no clock, no Spark. `heartbeat.py` tells the platform.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from daggers.v1 import events_pb2
from daggers.v1.telemetry_pb2 import Heartbeat, Measure

# So many records or rows that one batch quarantines, and more than it keeps, are a flood.
FLOOD = 1_000
_NONE: Mapping[str, events_pb2.DaggerError] = {}


@dataclass(frozen=True, slots=True)
class Progress:
    """What is known of a launch since it began. Steps give a new one; nobody changes its `beat`."""

    beat: Heartbeat
    """What it tells, but for what depends on when it is told."""
    sinks: tuple[str, ...] = ()
    """The names of its sinks, in the order of the spec."""
    running_since: datetime | None = None
    """When the batch that is running now began to write; None when none is."""
    running: int = -1
    """That batch, or the last one that ran. Spark tells of a batch while the next one runs already."""
    looked: int = -1
    """The batch during which it was looked at what waits behind it: Spark knows that as it was before."""
    flood_read: str = ""
    """That the source quarantined most of the last batch; empty when it did not."""
    flood_written: str = ""
    """That the sinks refused most of the last batch; empty when they did not."""
    away: frozenset[str] = frozenset()
    """Sinks that do not answer, and whose rows were set aside since they last did."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What Spark and the source say about one committed batch."""

    batch_id: int
    time: datetime
    duration_ms: int
    rows: int
    late_by_table: Mapping[str, int]
    """Late rows."""
    late_windows: int
    """The same, each as often as there are windows that it is missing from."""
    quarantined: Mapping[str, int]
    invalid: Mapping[str, int]
    watermark: datetime | None
    lag: Mapping[str, int]
    state_rows: int
    state_bytes: int = 0

    @property
    def late(self) -> int:
        """Late rows, of all tables."""
        return sum(self.late_by_table.values())


def launched(dagger: str, generation: int, host: str, pid: int, *, sinks: Sequence[str]) -> Progress:
    """A launch with these sinks that has not done anything yet; `pid` is the Python half's."""
    starting = Heartbeat.STATE_STARTING
    return Progress(
        Heartbeat(
            dagger=dagger,
            generation=generation,
            host=host,
            pid=pid,
            state=starting,
            batch_id=-1,
            rows_out=[0] * len(sinks),
            sink_rows=dict.fromkeys(sinks, 0),
            late_windows=0,
        ),
        tuple(sinks),
    )


def shown(progress: Progress, ui_url: str) -> Progress:
    """Spark has started, and its UI is there."""
    beat = _next(progress)
    beat.ui_url = ui_url
    return replace(progress, beat=beat)


def warned(
    progress: Progress, warnings: Sequence[str], measures: Mapping[str, Measure] | None = None
) -> Progress:
    """These are all the things a person should know now, and the numbers behind them by their codes."""
    beat = _next(progress, "warnings", "measures")
    beat.warnings.extend(warnings)
    for code, measure in (measures or {}).items():
        beat.measures[code].CopyFrom(measure)
    return replace(progress, beat=beat)


def referenced(progress: Progress, versions: Mapping[str, str]) -> Progress:
    """These versions of reference tables are in use."""
    beat = _next(progress, "references")
    beat.references.update(versions)
    return replace(progress, beat=beat)


def batch_began(progress: Progress, batch_id: int, time: datetime) -> Progress:
    """A batch began to write."""
    return replace(progress, running=batch_id, running_since=time)


def behind(progress: Progress, batch_id: int, records: Mapping[str, int]) -> Progress:
    """While this batch runs, these records are not read yet, by partition."""
    if progress.running_since is None or progress.running != batch_id:
        return progress
    beat = _next(progress, "lag")
    beat.lag.update(records)
    return replace(progress, beat=beat, looked=batch_id)


def retrying(progress: Progress, why: Sequence[events_pb2.DaggerError]) -> Progress:
    """Sinks do not take rows just now, for these reasons; none: they all do."""
    beat = _next(progress, "retrying", "taking")
    beat.retrying.extend(why)
    return replace(progress, beat=beat)


def batch_written(
    progress: Progress,
    rows: Mapping[str, int],
    refused: Mapping[str, int],
    invalid: Mapping[str, int],
    skipping: Mapping[str, events_pb2.DaggerError] = _NONE,
    set_aside: frozenset[str] = frozenset(),
) -> Progress:
    """A batch is durable in every sink, or set aside, and not committed yet.

    Rows by sink, refused rows by reason, invalid values by function; why sinks are skipped that are away, and
    of which of them there were rows.
    """
    beat = _next(progress, "retrying", "rows_out", "taking")
    beat.retrying.extend(skipping.values())
    beat.taking.extend(sink for sink in progress.sinks if sink not in skipping)
    away = progress.away.intersection(skipping)
    _add(beat.outages, dict.fromkeys(set_aside - away, 1))
    _add(beat.sink_rows, rows)
    beat.rows_out.extend(beat.sink_rows[sink] for sink in progress.sinks)
    _add(beat.quarantined, refused)
    _add(beat.refused_rows, refused)
    _add(beat.bad_values, invalid)
    flood = _flood("rows that sinks refused", refused, max(rows.values(), default=0))
    return replace(progress, beat=beat, flood_written=flood, away=away | set_aside)


def batch_committed(progress: Progress, batch: Committed) -> Progress:
    """Spark has committed a batch. Told twice, the second time changes nothing."""
    if batch.batch_id <= progress.beat.batch_id:
        return progress
    beat = _next(progress)
    if progress.looked != batch.batch_id:
        beat.ClearField("lag")
        beat.lag.update(batch.lag)
    beat.state = _running(beat.state)
    beat.batch_id = batch.batch_id
    beat.last_progress.FromDatetime(batch.time)
    beat.last_commit.FromDatetime(batch.time)
    beat.batch_duration_ms = batch.duration_ms
    beat.rows_in += batch.rows
    beat.late_rows += batch.late
    beat.late_windows += batch.late_windows
    _add(beat.late_rows_by_table, batch.late_by_table)
    _add(beat.quarantined, batch.quarantined)
    _add(beat.bad_values, batch.invalid)
    if batch.watermark is not None:
        beat.watermark.FromDatetime(batch.watermark)
    beat.state_rows, beat.state_bytes = batch.state_rows, batch.state_bytes
    return replace(
        progress,
        beat=beat,
        running_since=progress.running_since if progress.running > batch.batch_id else None,
        flood_read=_flood("records", batch.quarantined, batch.rows),
    )


def idle(progress: Progress, time: datetime) -> Progress:
    """The source was reached and had nothing to read."""
    return waiting(progress, time, {})


def waiting(progress: Progress, time: datetime, records: Mapping[str, int]) -> Progress:
    """The source was reached, and the next batch is not due: these records wait for it, by partition."""
    since = progress.running_since
    beat = _next(progress)
    beat.state = _running(beat.state)
    beat.last_progress.FromDatetime(time)
    beat.lag.update({**dict.fromkeys(beat.lag, 0), **records})
    return replace(progress, beat=beat, running_since=since if since is not None and since > time else None)


def draining(progress: Progress) -> Progress:
    """The launch was told to stop and finishes its batch."""
    beat = _next(progress)
    beat.state = Heartbeat.STATE_DRAINING
    return replace(progress, beat=beat)


def exiting(progress: Progress, error: events_pb2.DaggerError | None = None) -> Progress:
    """The launch is over, and of what it died."""
    beat = _next(progress)
    beat.state = Heartbeat.STATE_EXITING
    if error is not None:
        beat.error.CopyFrom(error)
    return replace(progress, beat=beat, running_since=None)


def told(progress: Progress, now: datetime) -> Heartbeat:
    """The heartbeat at this time.

    While most of what comes is quarantined it warns of that, because it takes longer than writing.
    """
    beat = _next(progress)
    beat.time.FromDatetime(now)
    beat.warnings.extend(warning for warning in (progress.flood_read, progress.flood_written) if warning)
    if progress.running_since is not None:
        age = (now - progress.running_since).total_seconds()
        beat.running_batch_age_ms = max(1, round(age * 1000))
        beat.running_batch_id = progress.running
    return beat


def _next(progress: Progress, *cleared: str) -> Heartbeat:
    """A copy to change, without what is told anew."""
    beat = Heartbeat()
    beat.CopyFrom(progress.beat)
    for field in cleared:
        beat.ClearField(field)  # type: ignore[arg-type]  # a field by its name
    return beat


def _flood(what: str, counts: Mapping[str, int], kept: int) -> str:
    count = sum(counts.values())
    if count < FLOOD or count <= kept:
        return ""
    reason = max(counts, key=lambda reason: counts[reason])
    return (
        f"QUARANTINE_FLOOD: the last batch set {count} {what} aside ({counts[reason]} of them {reason}) and "
        f"kept {kept}; `daggers quarantine list` shows some."
    )


def _running(state: Heartbeat.State.ValueType) -> Heartbeat.State.ValueType:
    return Heartbeat.STATE_RUNNING if state == Heartbeat.STATE_STARTING else state


def _add(totals: MutableMapping[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        totals[name] += count
