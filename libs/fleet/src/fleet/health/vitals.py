"""What a dagger does now, as the API shows it: its rates, what it has read and written, its warnings. Pure.

What drivers say is kept by `fleet.health.watch`, what is wrong is judged by `fleet.health.degradation`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from daggers.v1 import gateway_pb2, vitals_pb2

from fleet.fold.dagger import Dagger
from fleet.fold.phases import DEGRADED, RUNNING
from fleet.fold.quotas import need_mib
from fleet.health import dagger_warnings
from fleet.health.degradation import SHOWN, silent, stalled, triggers
from fleet.health.watch import WINDOW, Watch, evidence_of, recent

_DAY_MS: Final = timedelta(days=1) / timedelta(milliseconds=1)
RATES: Final = timedelta(minutes=1)
"""Rates are taken over so long, and at least over three triggers."""


def to_proto(dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None) -> vitals_pb2.Vitals:
    """What it does at `now`. `hearing`: since when silence means something (`Hearing.begin`)."""
    shown = vitals_pb2.Vitals(dagger=dagger.name)
    shown.warnings.extend(dagger_warnings.warnings(dagger, watch, now=now, hearing=hearing))
    heartbeat = watch.heartbeat
    if heartbeat is None or watch.heard is None:
        return shown
    lately = recent(watch)
    shown.generation = heartbeat.generation
    shown.heard_time.FromDatetime(watch.heard)
    lag = lag_of(dagger, watch, now=now, hearing=hearing)
    if lag is not None:
        shown.lag = lag
    if heartbeat.HasField("watermark"):
        shown.watermark.CopyFrom(heartbeat.watermark)
    told = heartbeat.time.ToDatetime(now.tzinfo)
    for field in ("last_commit", "last_progress"):
        if heartbeat.HasField(field):  # by the driver's clock, which need not be ours
            age = max(told - getattr(heartbeat, field).ToDatetime(now.tzinfo), timedelta(0))
            getattr(shown, field).FromDatetime(watch.heard - age)
    shown.records, shown.rows = heartbeat.rows_in, max(heartbeat.rows_out, default=0)
    shown.late_rows, shown.recent_late_rows = heartbeat.late_rows, max(lately.late, 0)
    shown.late_rows_by_table.update(heartbeat.late_rows_by_table)
    if heartbeat.HasField("late_windows"):  # not of older drivers
        shown.late_windows, shown.recent_late_windows = heartbeat.late_windows, max(lately.late_windows, 0)
    shown.quarantined.update(heartbeat.quarantined)
    shown.recent_quarantined = lately.quarantined.total()
    for sink, fresh in heartbeat.freshness.items():  # none of older drivers
        shown.freshness[sink].CopyFrom(fresh)
    for sink, spool in heartbeat.spools.items():
        shown.spools[sink].CopyFrom(spool)
    shown.state_rows, shown.memory_bytes = heartbeat.state_rows, heartbeat.memory_bytes
    flows = rates(dagger, watch, now=now, hearing=hearing)
    if flows is not None:
        shown.records_per_s, shown.rows_per_s = flows
    return shown


def rates(
    dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None
) -> tuple[float, float] | None:
    """Records read and rows written in a second, lately; None while that is not known."""
    last = recent(watch, min(max(RATES, triggers(dagger)), WINDOW))
    runs = dagger.phase in (RUNNING, DEGRADED) and not silent(evidence_of(watch, now, hearing), SHOWN)
    if not runs or not last.span:
        return None
    seconds = last.span.total_seconds()
    return last.rows_in / seconds, last.written / seconds


def lag_of(dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None) -> int | None:
    """Records not read yet; None where nobody knows: it has not looked, or not for too long.

    While a batch runs, its driver looks beside it; else each look is progress.
    """
    evidence = evidence_of(watch, now, hearing)
    heartbeat, age = evidence.heartbeat, evidence.progress_age
    if heartbeat is None or not heartbeat.lag or silent(evidence, SHOWN):
        return None
    looks = evidence.batch_age is not None or (age is not None and not stalled(dagger, age, SHOWN))
    return sum(heartbeat.lag.values()) if looks else None


def catches_up(watch: Watch) -> bool:
    """Whether it reads what had waited: for a minute it read half again as much as came, or more."""
    if not watch.backlogs:
        return False
    last = watch.backlogs[-1]
    first = next(one for one in watch.backlogs if last.time - one.time <= RATES)
    read, caught_up = last.read - first.read, first.lag - last.lag
    return caught_up > 0 and caught_up * 3 > read


def cost(dagger: Dagger, watch: Watch, *, now: datetime, hearing: datetime | None) -> gateway_pb2.DaggerCost:
    """What it costs, as the driver of its newest launch says.

    It has no rates while it catches up: they would say what the driver can do, and not what comes.
    """
    made = gateway_pb2.DaggerCost(dagger=dagger.name)
    if dagger.occupied:
        made.launch_memory_mib = len(dagger.running) * need_mib(dagger.spec)
    known = None if catches_up(watch) else rates(dagger, watch, now=now, hearing=hearing)
    records, rows = known or (0.0, 0.0)
    made.records_per_second, made.rows_per_minute = records, rows * 60
    heartbeat = watch.heartbeat
    if heartbeat is None or not dagger.occupied:
        return made
    made.cpu_seconds, made.memory_bytes = heartbeat.cpu_seconds, heartbeat.memory_bytes
    made.records, made.state_bytes = heartbeat.rows_in, heartbeat.state_bytes
    if heartbeat.age_ms > 0:
        made.age.FromMilliseconds(heartbeat.age_ms)
        days = heartbeat.age_ms / _DAY_MS
        made.cpu_seconds_per_day = heartbeat.cpu_seconds / days
        made.records_per_day = heartbeat.rows_in / days
    return made
