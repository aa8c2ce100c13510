"""Vitals of a dagger, as the API has them: rates, records read, rows written, warnings. Pure.

`fleet.health.watch` has what drivers report, `fleet.health.degradation` judges what is wrong.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import gateway_pb2, vitals_pb2

from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB
from fleet.fold.dagger import Dagger
from fleet.fold.drivers import Usage
from fleet.fold.phases import DEGRADED, RUNNING
from fleet.health import dagger_warnings
from fleet.health.degradation import SHOWN, silent, stalled, triggers
from fleet.health.watch import WINDOW, Watch, evidence_of, recent

_DAY_MS: Final = timedelta(days=1) / timedelta(milliseconds=1)
RATES: Final = timedelta(minutes=1)
"""Time over which rates are taken, and at least three triggers."""


def to_proto(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None, turn: str = ""
) -> vitals_pb2.Vitals:
    """Build the vitals at `now`.

    hearing: since when silence means something (`Hearing.begin`). turn: as in `dagger_warnings.warnings`.
    """
    vitals = vitals_pb2.Vitals(dagger=dagger.name)
    vitals.warnings.extend(dagger_warnings.warnings(dagger, watch, now=now, hearing=hearing, turn=turn))
    heartbeat = watch.heartbeat
    if heartbeat is None or watch.heard_at is None:
        return vitals
    lately = recent(watch)
    vitals.generation = heartbeat.generation
    vitals.heard_time.FromDatetime(watch.heard_at)
    lag = lag_of(dagger, watch, now=now, hearing=hearing)
    if lag is not None:
        vitals.lag = lag
    if heartbeat.HasField("watermark"):
        vitals.watermark.CopyFrom(heartbeat.watermark)
    sent_at = heartbeat.time.ToDatetime(now.tzinfo)
    for field in ("last_commit", "last_progress"):
        if heartbeat.HasField(field):  # by the driver's clock, which need not be ours
            age = max(sent_at - getattr(heartbeat, field).ToDatetime(now.tzinfo), timedelta(0))
            getattr(vitals, field).FromDatetime(watch.heard_at - age)
    vitals.records, vitals.rows = heartbeat.rows_in, max(heartbeat.rows_out, default=0)
    vitals.late_rows, vitals.recent_late_rows = heartbeat.late_rows, max(lately.late, 0)
    vitals.late_rows_by_table.update(heartbeat.late_rows_by_table)
    if heartbeat.HasField("late_windows"):  # not of older drivers
        vitals.late_windows, vitals.recent_late_windows = heartbeat.late_windows, max(lately.late_windows, 0)
    vitals.quarantined.update(heartbeat.quarantined)
    vitals.recent_quarantined = lately.quarantined.total()
    for sink, fresh in heartbeat.freshness.items():  # none of older drivers
        vitals.freshness[sink].CopyFrom(fresh)
    for sink, spool in heartbeat.spools.items():
        vitals.spools[sink].CopyFrom(spool)
    vitals.learning_rules.extend(heartbeat.learning_rules)
    vitals.state_rows, vitals.memory_bytes = heartbeat.state_rows, heartbeat.memory_bytes
    flows = rates(dagger, watch, now=now, hearing=hearing)
    if flows is not None:
        vitals.records_per_s, vitals.rows_per_s = flows
    return vitals


def rates(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None
) -> tuple[float, float] | None:
    """Return records read and rows written in a second, lately; None while that is not known."""
    last = recent(watch, min(max(RATES, triggers(dagger)), WINDOW))
    runs = dagger.phase in (RUNNING, DEGRADED) and not silent(evidence_of(watch, now, hearing), SHOWN)
    if not runs or not last.span:
        return None
    seconds = last.span.total_seconds()
    return last.rows_in / seconds, last.written / seconds


def lag_of(dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None) -> int | None:
    """Return the number of records not read yet; None where it has not looked, or not for too long.

    While a batch runs, its driver looks beside it; else each look is progress.
    """
    evidence = evidence_of(watch, now, hearing)
    heartbeat, age = evidence.heartbeat, evidence.progress_age
    if heartbeat is None or not heartbeat.lag or silent(evidence, SHOWN):
        return None
    looks = evidence.batch_age is not None or (age is not None and not stalled(dagger, age, SHOWN))
    return sum(heartbeat.lag.values()) if looks else None


def catches_up(watch: Watch) -> bool:
    """Tell whether it reads what had waited: for a minute it read half again as much as came, or more."""
    if not watch.backlogs:
        return False
    last = watch.backlogs[-1]
    first = next(one for one in watch.backlogs if last.time - one.time <= RATES)
    read, caught_up = last.read - first.read, first.lag - last.lag
    return caught_up > 0 and caught_up * 3 > read


def cost(dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None) -> gateway_pb2.DaggerCost:
    """Build the cost of a dagger, as the driver of its newest launch reports it.

    It has no rates while it catches up: they would say what the driver can do, and not what comes.
    """
    result = gateway_pb2.DaggerCost(dagger=dagger.name)
    if dagger.occupied:
        result.launch_memory_mib = Usage.of([dagger]).memory_mib(DEFAULT_DRIVER_MEMORY_MIB)
    flows = None if catches_up(watch) else rates(dagger, watch, now=now, hearing=hearing)
    records, rows = flows or (0.0, 0.0)
    result.records_per_second, result.rows_per_minute = records, rows * 60
    heartbeat = watch.heartbeat
    if heartbeat is None or not dagger.occupied:
        return result
    result.cpu_seconds, result.memory_bytes = heartbeat.cpu_seconds, heartbeat.memory_bytes
    result.records, result.state_bytes = heartbeat.rows_in, heartbeat.state_bytes
    if heartbeat.age_ms > 0:
        result.age.FromMilliseconds(heartbeat.age_ms)
        days = heartbeat.age_ms / _DAY_MS
        result.cpu_seconds_per_day = heartbeat.cpu_seconds / days
        result.records_per_day = heartbeat.rows_in / days
    return result
