"""How far a job has come: a pure fold over what Spark, the source and the sinks report.

A value and functions from it to the next one; no clock, no Spark. `heartbeat.py` turns it into messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from daggers.v1 import events_pb2, telemetry_pb2

State = telemetry_pb2.Heartbeat.State
# So many records or rows that one batch sets aside, and more than it keeps, are a flood.
FLOOD = 1_000


@dataclass(frozen=True, slots=True)
class Progress:
    """What a driver knows about its job since it was launched."""

    rows_out: tuple[int, ...]
    """Rows written, for each sink in the order of the spec."""
    state: State.ValueType = telemetry_pb2.Heartbeat.STATE_STARTING
    batch_id: int = -1
    """Last committed batch; -1 before the first."""
    last_progress: datetime | None = None
    """When that batch was committed, or when the source was last found empty."""
    running_since: datetime | None = None
    """When the batch that is running now began to write; None when none is."""
    running: int = -1
    """That batch, or the last one that ran. Spark tells of a batch while the next one runs already."""
    batch_duration_ms: int = 0
    rows_in: int = 0
    late_rows: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """Records set aside by the source and rows set aside by the sinks, by reason."""
    refused_rows: Mapping[str, int] = field(default_factory=dict)
    """Those of the sinks."""
    bad_values: Mapping[str, int] = field(default_factory=dict)
    """Values that a function could not use and gave NULL for, by function."""
    watermark: datetime | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    """Records not read yet, for each "topic/partition"."""
    state_rows: int = 0
    retrying: tuple[events_pb2.DaggerError, ...] = ()
    warnings: tuple[str, ...] = ()
    measures: Mapping[str, telemetry_pb2.Measure] = field(default_factory=dict)
    """What was measured, by the code of the warning that it passed its limit."""
    flood_read: str = ""
    """That the source set most of the last batch aside; empty when it did not."""
    flood_written: str = ""
    """That the sinks set most of the last batch aside; empty when they did not."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Version of the content of each reference table, by its name."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What Spark and the source say about one committed batch."""

    batch_id: int
    at: datetime
    duration_ms: int
    rows: int
    late: int
    quarantined: Mapping[str, int]
    bad: Mapping[str, int]
    watermark: datetime | None
    lag: Mapping[str, int]
    state_rows: int


def launched(sinks: int) -> Progress:
    """A job with this many sinks that has not done anything yet."""
    return Progress(rows_out=(0,) * sinks)


def warned(
    progress: Progress, warnings: Sequence[str], measures: Mapping[str, telemetry_pb2.Measure] | None = None
) -> Progress:
    """These are all the things a person should know now, and the numbers behind them by their codes."""
    return replace(progress, warnings=tuple(warnings), measures=dict(measures or {}))


def referenced(progress: Progress, versions: Mapping[str, str]) -> Progress:
    """These versions of reference tables are in use."""
    return replace(progress, references=dict(versions))


def batch_began(progress: Progress, batch_id: int, at: datetime) -> Progress:
    """A batch began to write."""
    return replace(progress, running=batch_id, running_since=at)


def retrying(progress: Progress, why: Sequence[events_pb2.DaggerError]) -> Progress:
    """These sinks do not take rows just now; none: they all do."""
    return replace(progress, retrying=tuple(why))


def batch_written(
    progress: Progress, rows: Sequence[int], refused: Mapping[str, int], bad: Mapping[str, int]
) -> Progress:
    """A batch is durable in every sink, and not committed yet.

    Rows for each sink, refused rows by reason, bad values by function.
    """
    return replace(
        progress,
        rows_out=tuple(done + more for done, more in zip(progress.rows_out, rows, strict=True)),
        quarantined=_sum(progress.quarantined, refused),
        refused_rows=_sum(progress.refused_rows, refused),
        bad_values=_sum(progress.bad_values, bad),
        retrying=(),
        flood_written=_flood("rows that sinks refused", refused, max(rows, default=0)),
    )


def batch_committed(progress: Progress, batch: Committed) -> Progress:
    """Spark has committed a batch. Told twice, the second time changes nothing."""
    if batch.batch_id <= progress.batch_id:
        return progress
    return replace(
        progress,
        state=_running(progress.state),
        batch_id=batch.batch_id,
        last_progress=batch.at,
        running_since=progress.running_since if progress.running > batch.batch_id else None,
        batch_duration_ms=batch.duration_ms,
        rows_in=progress.rows_in + batch.rows,
        late_rows=progress.late_rows + batch.late,
        quarantined=_sum(progress.quarantined, batch.quarantined),
        bad_values=_sum(progress.bad_values, batch.bad),
        watermark=batch.watermark or progress.watermark,
        lag=dict(batch.lag),
        state_rows=batch.state_rows,
        flood_read=_flood("records", batch.quarantined, batch.rows),
    )


def idle(progress: Progress, at: datetime) -> Progress:
    """The source was reached and had nothing to read."""
    since = progress.running_since
    return replace(
        progress,
        state=_running(progress.state),
        last_progress=at,
        running_since=since if since is not None and since > at else None,
        lag=dict.fromkeys(progress.lag, 0),
    )


def draining(progress: Progress) -> Progress:
    """The job was told to stop and finishes its batch."""
    return replace(progress, state=telemetry_pb2.Heartbeat.STATE_DRAINING)


def exiting(progress: Progress) -> Progress:
    """The job is over."""
    return replace(progress, state=telemetry_pb2.Heartbeat.STATE_EXITING, running_since=None)


def floods(progress: Progress) -> tuple[str, ...]:
    """Warnings while most of what comes is set aside: that takes longer than to write it."""
    return tuple(each for each in (progress.flood_read, progress.flood_written) if each)


def _flood(what: str, aside: Mapping[str, int], kept: int) -> str:
    count = sum(aside.values())
    if count < FLOOD or count <= kept:
        return ""
    reason = max(aside, key=lambda each: aside[each])
    return (
        f"QUARANTINE_FLOOD: the last batch set {count} {what} aside ({aside[reason]} of them {reason}) and "
        f"kept {kept}; `daggers quarantine list` shows some."
    )


def _running(state: State.ValueType) -> State.ValueType:
    starting = state == telemetry_pb2.Heartbeat.STATE_STARTING
    return telemetry_pb2.Heartbeat.STATE_RUNNING if starting else state


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {reason: one.get(reason, 0) + other.get(reason, 0) for reason in sorted({*one, *other})}
