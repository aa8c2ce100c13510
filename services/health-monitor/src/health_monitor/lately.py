"""Conditions about a while: restarts, input, lag, and what a driver counts itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from daggers.v1 import alerts_pb2, gateway_pb2

from chassis.durations import spoken
from daggerspec.limits import OVERDUE_S
from fleet import Dagger
from fleet.alerts.alert import Condition
from fleet.fold.phases import FAILED
from fleet.health import advice
from fleet.health.degradation import Limits, Reason, driver_warnings
from fleet.health.trends import ends_lately
from fleet.health.watch import Watch, pause, recent
from health_monitor.finding import Finding, Measure, counted_long_enough, seconds, why
from health_monitor.history import History

TOLD_BY_DRIVER: Final[Mapping[Condition, tuple[Reason, str]]] = {
    alerts_pb2.ALERT_CONDITION_LATE_ROWS: (Reason.LATE_ROWS, "its rows come in time, but for a few"),
    alerts_pb2.ALERT_CONDITION_NO_OUTPUT: (Reason.NO_OUTPUT, "no window of it is overdue"),
    alerts_pb2.ALERT_CONDITION_RECORDS_EXPIRED: (
        Reason.RECORDS_EXPIRED,
        "no more of its records were deleted unread; the windows that lack some stay left out",
    ),
    alerts_pb2.ALERT_CONDITION_PARTITION_BEHIND: (
        Reason.PARTITION_BEHIND,
        "event time waits for no partition of it",
    ),
    alerts_pb2.ALERT_CONDITION_FRESHNESS_MISSED: (
        Reason.FRESHNESS_MISSED,
        "its rows are in its sinks as soon as they have to be",
    ),
}
"""Conditions that a driver tells of itself: by which reason, and what is true without it."""


def restart_loop(dagger: Dagger, history: History, *, now: datetime, limits: Limits) -> Finding | None:
    """Its driver ends again and again. A request of a person begins the count anew."""
    if not history.ends:
        return None
    if dagger.phase == FAILED:
        return Finding(False, "it was given up, and is not launched again", dagger.phase_time, final=True)
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return None
    ends = ends_lately(history.ends, dagger.update_time, limits, now)
    if len(ends) < limits.restarts:
        often = f"{advice.often(len(ends))} in {spoken(limits.restarts_within)}"
        return Finding(False, often, now)
    what = f"{advice.often(len(ends))} in {spoken(now - ends[0])}: {why(history.error)}"
    measure = Measure(len(ends), limits.restarts, "count")
    whose = advice.ended(history.error, dagger.last_good_version) if history.error else None
    return Finding(True, what, ends[0], measure=measure, advice=whose)


def no_input(dagger: Dagger, watch: Watch, *, now: datetime, limits: Limits) -> Finding | None:
    """Only input that was there can be missed."""
    missed = pause(watch, asked=dagger.update_time, now=now, limits=limits)
    if missed is None:
        return None
    if not missed.over_limit:
        return Finding(False, "records come", missed.flow.last)
    if not missed.flow.steady(limits):
        return None
    return Finding(True, str(missed), missed.since, measure=seconds(missed.lasted, missed.limit))


def lag_growing(watch: Watch, limits: Limits) -> Finding | None:
    """More comes than it reads: the slope counts, not the lag."""
    grown = watch.growth
    if grown is None:
        return None
    if not grown.too_much(limits):
        return Finding(False, "its lag does not grow for good", grown.last.time)
    measure = Measure(grown.share_left, limits.lag_share, "share")
    return Finding(True, str(grown), grown.first.time, measure=measure)


def told_by_driver(watch: Watch, reason: Reason, well: str, limits: Limits) -> Finding | None:
    """What the driver tells of itself, in its own words. Its limits may be raised here."""
    heartbeat = watch.heartbeat
    if heartbeat is None or watch.heard is None:
        return None
    measure = None
    if reason == Reason.LATE_ROWS:
        if not counted_long_enough(watch, limits):
            return None
        measure = _counted_late(watch, limits)
    if reason in heartbeat.measures:  # not in those of older drivers
        told = heartbeat.measures[reason]
        measure = Measure(told.value, _raised(reason, told.limit, limits), told.unit)
    if reason not in watch.warned or (measure is not None and measure.value < measure.limit):
        return Finding(False, well, watch.heard, measure=measure)
    return Finding(True, driver_warnings(heartbeat)[reason], watch.warned[reason], measure=measure)


def _counted_late(watch: Watch, limits: Limits) -> Measure | None:
    """The share of late rows by the driver's counters, for when it tells of none; None of no rows."""
    counted = recent(watch)
    share = counted.late / max(counted.rows_in, counted.late, 1)
    return Measure(share, limits.late_share, "share") if counted.rows_in else None


def _raised(reason: Reason, limit: float, limits: Limits) -> float:
    """The limit of a driver, raised to what is set here."""
    if reason == Reason.LATE_ROWS:
        return max(limit, limits.late_share)
    if reason == Reason.NO_OUTPUT:
        return limit + (limits.overdue.total_seconds() - OVERDUE_S)
    return limit
