"""Fold the reports of Spark, the source and the sinks into a launch's progress, and that into a heartbeat.

Pure.

`heartbeat.py` sends it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from daggers.v1 import events_pb2
from daggers.v1.telemetry_pb2 import Heartbeat, LearningRule, Measure

from daggerspec import late
from runtime.launch import freshness
from runtime.launch.freshness import SinkFreshness

if TYPE_CHECKING:  # a lane tells of itself by a step of this module
    from runtime.launch.lane import LaneReport


# a batch that quarantines this many records or rows, and more than it keeps, is a flood
FLOOD = 1_000
_NONE: Mapping[str, events_pb2.DaggerError] = {}
_NOTHING_WAITS: Mapping[str, datetime] = {}


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a launch since it began. Steps return a new one; `beat` is never changed in place."""

    beat: Heartbeat
    """The heartbeat without the fields that depend on the time of sending."""
    sinks: tuple[str, ...] = ()
    """Names of the sinks, in the order of the spec."""
    running_since: datetime | None = None
    """Time at which the running batch began to write; None while none runs."""
    running: int = -1
    """Id of that batch, or of the last one. Spark reports a batch while the next one runs already."""
    lag_measured: int = -1
    """Batch during which the lag was measured: Spark reports the older lag of when it was planned."""
    flood_read: str = ""
    """Warning that the source quarantined most of the last batch; empty if it did not."""
    flood_written: str = ""
    """Warning that sinks refused most of the last batch; empty if they did not."""
    overflown: frozenset[str] = frozenset()
    """Sinks of whose log rows were quarantined, and that have not taken all that came later."""
    completed: Mapping[str, int] = field(default_factory=dict)
    """Offsets up to which all is in every sink or its log, by "topic/partition"."""
    fresh: Mapping[str, SinkFreshness] = field(default_factory=dict)
    """Freshness of the rows, by sink."""
    objective: timedelta | None = None
    """Greatest age that the spec allows for a row in its sink; None where it does not say."""
    late_sink: str = ""
    """Sink that takes late records; empty where they are dropped."""


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """Report of Spark and the source on one committed batch."""

    batch_id: int
    time: datetime
    duration_ms: int
    rows: int
    late_by_table: Mapping[str, int]
    """Late rows."""
    late_windows: int
    """Late rows, each counted once for every window that it is missing from."""
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


def initial(
    dagger: str,
    generation: int,
    host: str,
    pid: int,
    *,
    sinks: Sequence[str],
    objective: timedelta | None = None,
    late_sink: str = "",
) -> Progress:
    """Build the progress of a launch that has done nothing yet.

    pid: of the Python half. objective: how fresh rows have to be. late_sink: the one that takes late records.
    """
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
        fresh={sink: SinkFreshness() for sink in sinks if sink != late_sink},
        objective=objective,
        late_sink=late_sink,
    )


def set_ui_url(progress: Progress, ui_url: str) -> Progress:
    """Set the address of Spark's UI, once it has started."""
    beat = _copy_beat(progress)
    beat.ui_url = ui_url
    return replace(progress, beat=beat)


def set_warnings(
    progress: Progress, warnings: Sequence[str], measures: Mapping[str, Measure] | None = None
) -> Progress:
    """Replace the warnings, and the measures behind them by code."""
    beat = _copy_beat(progress, "warnings", "measures")
    beat.warnings.extend(warnings)
    for code, measure in (measures or {}).items():
        beat.measures[code].CopyFrom(measure)
    return replace(progress, beat=beat)


def rules_taken(progress: Progress, revision: int, digest: str) -> Progress:
    """Set the alert rules that are judged from the next batch on."""
    beat = _copy_beat(progress)
    beat.rules_revision, beat.rules_digest = revision, digest
    return replace(progress, beat=beat)


def set_learning(progress: Progress, learning: Sequence[LearningRule]) -> Progress:
    """Replace the alert rules that have not enough past yet."""
    beat = _copy_beat(progress, "learning_rules")
    beat.learning_rules.extend(learning)
    return replace(progress, beat=beat)


def set_references(progress: Progress, versions: Mapping[str, str]) -> Progress:
    """Replace the versions of reference tables in use."""
    beat = _copy_beat(progress, "references")
    beat.references.update(versions)
    return replace(progress, beat=beat)


def batch_began(progress: Progress, batch_id: int, time: datetime) -> Progress:
    """Record that a batch began to write."""
    return replace(progress, running=batch_id, running_since=time)


def behind(progress: Progress, batch_id: int, records: Mapping[str, int]) -> Progress:
    """Set the lag, unread records by partition, if this batch still runs."""
    if progress.running_since is None or progress.running != batch_id:
        return progress
    beat = _copy_beat(progress, "lag")
    beat.lag.update(records)
    return replace(progress, beat=beat, lag_measured=batch_id)


def retrying(
    progress: Progress,
    why: Sequence[events_pb2.DaggerError],
    waiting: Mapping[str, datetime] = _NOTHING_WAITS,
) -> Progress:
    """Replace the errors of sinks that accept no rows for the moment; none: all accept.

    waiting: event time of the oldest row that waits, by sink.
    """
    beat = _copy_beat(progress, "retrying", "taking")
    beat.retrying.extend(why)
    fresh = {name: replace(sink, waiting_since=waiting.get(name)) for name, sink in progress.fresh.items()}
    return replace(progress, beat=beat, fresh=fresh)


def rows_acknowledged(progress: Progress, time: datetime, ages: Mapping[str, Mapping[int, int]]) -> Progress:
    """Add the rows of a batch that every sink has; ages: rows by bucket of their age, by sink."""
    fresh = {name: sink.add(time, ages.get(name, {})) for name, sink in progress.fresh.items()}
    return replace(progress, fresh=fresh)


def judge_freshness(progress: Progress, now: datetime) -> Progress:
    """Decide by what was acknowledged, and what waits at `now`, which sinks miss the objective."""
    objective = progress.objective
    if objective is None:
        return progress
    fresh = {name: freshness.judge(sink, objective, now) for name, sink in progress.fresh.items()}
    return replace(progress, fresh=fresh)


def set_spools(progress: Progress, reports: Mapping[str, LaneReport]) -> Progress:
    """Replace what is told of the logs of sinks, by sink; those that have everything are left out."""
    beat = _copy_beat(progress, "spools")
    for name, report in reports.items():
        beat.spools[name].CopyFrom(report.spool)
    _set_completed(beat, progress.completed)
    fresh = {
        name: replace(sink, spooled_since=reports[name].oldest if name in reports else None)
        for name, sink in progress.fresh.items()
    }
    return replace(progress, beat=beat, fresh=fresh)


def rows_drained(
    progress: Progress,
    sink: str,
    rows: int,
    refused: Mapping[str, int],
    time: datetime,
    ages: Mapping[int, int],
    *,
    is_overflow: bool = False,
) -> Progress:
    """Add rows that a sink has taken from its log. refused: rows by reason; ages: rows by bucket.

    is_overflow: they were quarantined, because the log was full.
    """
    beat = _copy_beat(progress, "rows_out") if is_overflow else _copy_beat(progress, "retrying", "rows_out")
    _add(beat.sink_rows, {sink: rows} if sink in progress.sinks else {})
    beat.rows_out.extend(beat.sink_rows[name] for name in progress.sinks)
    _add(beat.quarantined, refused)
    _add(beat.refused_rows, refused)
    fresh, overflown = dict(progress.fresh), progress.overflown
    if is_overflow:
        _add(beat.outages, dict.fromkeys({sink} - overflown, 1))
        overflown |= {sink}
    else:  # it takes rows again
        beat.retrying.extend(
            error for error in progress.beat.retrying if error.detail.partition(":")[0] != sink
        )
        overflown -= {sink} if sink not in beat.spools else set()
    if sink in fresh:
        fresh[sink] = fresh[sink].add(time, ages)
    return replace(progress, beat=beat, fresh=fresh, overflown=overflown)


def batch_written(
    progress: Progress,
    rows: Mapping[str, int],
    refused: Mapping[str, int],
    invalid: Mapping[str, int],
    away: Mapping[str, events_pb2.DaggerError] = _NONE,
) -> Progress:
    """Add a batch that is durable in all sinks, their logs or the quarantine, and not committed yet.

    rows: by sink. refused: rows by reason. invalid: values by function. away: errors of the sinks whose rows
    wait in a log.
    """
    beat = _copy_beat(progress, "retrying", "rows_out", "taking")
    beat.retrying.extend(away.values())
    overflown = progress.overflown - {sink for sink, count in rows.items() if count}
    beat.taking.extend(sink for sink in progress.sinks if sink not in {*away, *beat.spools, *overflown})
    _add(beat.sink_rows, rows)
    beat.rows_out.extend(beat.sink_rows[sink] for sink in progress.sinks)
    _add(beat.quarantined, refused)
    _add(beat.refused_rows, refused)
    _add(beat.bad_values, invalid)
    flood = _flood("rows that sinks refused", refused, max(rows.values(), default=0))
    return replace(progress, beat=beat, flood_written=flood, overflown=overflown)


def batch_committed(progress: Progress, batch: CommittedBatch) -> Progress:
    """Add a committed batch. Idempotent: a batch that is added already changes nothing."""
    if batch.batch_id <= progress.beat.batch_id:
        return progress
    beat = _copy_beat(progress, "rows_out")
    if progress.late_sink:  # readers have written them
        _add(beat.sink_rows, {progress.late_sink: batch.late - batch.quarantined.get(late.REFUSED, 0)})
    beat.rows_out.extend(beat.sink_rows[sink] for sink in progress.sinks)
    if progress.lag_measured != batch.batch_id:
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


def set_completed(progress: Progress, offsets: Mapping[str, int]) -> Progress:
    """Set the offsets up to which all that was read is in every sink, or its log, by "topic/partition"."""
    beat = _copy_beat(progress)
    _set_completed(beat, offsets)
    return replace(progress, beat=beat, completed=offsets)


def idle(progress: Progress, time: datetime) -> Progress:
    """Record that the source was reached and had nothing to read."""
    return waiting(progress, time, {})


def waiting(progress: Progress, time: datetime, records: Mapping[str, int]) -> Progress:
    """Record that the source was reached, and these records, by partition, wait for the next batch."""
    since = progress.running_since
    beat = _copy_beat(progress)
    beat.state = _running(beat.state)
    beat.last_progress.FromDatetime(time)
    beat.lag.update({**dict.fromkeys(beat.lag, 0), **records})
    return replace(progress, beat=beat, running_since=since if since is not None and since > time else None)


def draining(progress: Progress) -> Progress:
    """Record that the launch was ordered to stop, and finishes its batch."""
    beat = _copy_beat(progress)
    beat.state = Heartbeat.STATE_DRAINING
    return replace(progress, beat=beat)


def exiting(progress: Progress, error: events_pb2.DaggerError | None = None) -> Progress:
    """Record that the launch is over, with the error that ended it, if any."""
    beat = _copy_beat(progress)
    beat.state = Heartbeat.STATE_EXITING
    if error is not None:
        beat.error.CopyFrom(error)
    return replace(progress, beat=beat, running_since=None)


def heartbeat_at(progress: Progress, now: datetime) -> Heartbeat:
    """Build the heartbeat at `now`: how fresh rows are, how old the running batch, the warnings of that."""
    beat = _copy_beat(progress)
    beat.time.FromDatetime(now)
    beat.warnings.extend(warning for warning in (progress.flood_read, progress.flood_written) if warning)
    for name, sink in progress.fresh.items():
        if sink.minutes or sink.oldest_waiting is not None:
            beat.freshness[name].CopyFrom(freshness.to_proto(sink, now))
    missed = freshness.warning(progress.fresh, progress.objective, now) if progress.objective else None
    if missed is not None and missed.measure is not None:
        beat.warnings.append(str(missed))
        beat.measures[missed.code].CopyFrom(missed.measure)
    if progress.running_since is not None:
        age = (now - progress.running_since).total_seconds()
        beat.running_batch_age_ms = max(1, round(age * 1000))
        beat.running_batch_id = progress.running
    return beat


def _copy_beat(progress: Progress, *cleared: str) -> Heartbeat:
    """Copy the heartbeat, without the fields that the caller sets anew."""
    beat = Heartbeat()
    beat.CopyFrom(progress.beat)
    for name in cleared:
        beat.ClearField(name)  # type: ignore[arg-type]  # a field by its name
    return beat


def _set_completed(beat: Heartbeat, offsets: Mapping[str, int]) -> None:
    """Set the offsets up to which all is in every sink; while rows wait in a log, they stay as they were."""
    if not any(spool.rows for spool in beat.spools.values()):
        beat.ClearField("completed")
        beat.completed.update(offsets)


def _flood(noun: str, counts: Mapping[str, int], row_count: int) -> str:
    count = sum(counts.values())
    if count < FLOOD or count <= row_count:
        return ""
    reason = max(counts, key=lambda reason: counts[reason])
    return (
        f"QUARANTINE_FLOOD: the last batch quarantined {count} {noun} ({counts[reason]} of them {reason})"
        f" and kept {row_count}; `daggers quarantine list` shows some."
    )


def _running(state: Heartbeat.State.ValueType) -> Heartbeat.State.ValueType:
    return Heartbeat.STATE_RUNNING if state == Heartbeat.STATE_STARTING else state


def _add(totals: MutableMapping[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        totals[name] += count
