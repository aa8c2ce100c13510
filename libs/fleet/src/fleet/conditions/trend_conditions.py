"""Conditions that are judged over a span of time: restarts, input, lag, and a driver's own warnings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from daggers.v1 import alerts_pb2, gateway_pb2

from chassis.durations import format_span
from daggerspec.limits import BEHIND_S, OVERDUE_S
from fleet import Dagger
from fleet.alerts.alert import Condition
from fleet.conditions.finding import Finding, Measure, counted_long_enough, seconds, why
from fleet.conditions.history import History
from fleet.fold.phases import FAILED
from fleet.health import advice
from fleet.health.degradation import Limits, Reason, driver_warnings
from fleet.health.trends import ends_lately
from fleet.health.watch import Watch, pause, recent

DRIVER_CONDITIONS: Final[Mapping[Condition, tuple[Reason, str]]] = {
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
    alerts_pb2.ALERT_CONDITION_WAITING_FOR_EXECUTORS: (
        Reason.WAITING_FOR_EXECUTORS,
        "its Spark master has given it executors",
    ),
}
"""Conditions that drivers report: reason of the warning, and the text of a finding when there is none."""


def restart_loop(dagger: Dagger, history: History, *, now: datetime, limits: Limits) -> Finding | None:
    """Judge whether a driver ends again and again. Requests of people reset the count."""
    if not history.ends:
        return None
    if dagger.phase == FAILED:
        return Finding(False, "it was given up, and is not launched again", dagger.phase_time, final=True)
    if dagger.desired != gateway_pb2.DESIRED_RUNNING:
        return None
    ends = ends_lately(history.ends, dagger.update_time, limits, now)
    if len(ends) < limits.restarts:
        often = f"{advice.describe_ends(len(ends))} in {format_span(limits.restarts_within)}"
        return Finding(False, often, now, measure=Measure(len(ends), limits.restarts, "count"))
    summary = f"{advice.describe_ends(len(ends))} in {format_span(now - ends[0])}: {why(history.error)}"
    measure = Measure(len(ends), limits.restarts, "count")
    owner = advice.advise_ended(history.error, dagger.last_good_version) if history.error else None
    return Finding(True, summary, ends[0], measure=measure, advice=owner)


def no_input(dagger: Dagger, watch: Watch, *, now: datetime, limits: Limits) -> Finding | None:
    """Judge whether records stopped coming, after they came steadily: a topic may be quiet by nature."""
    missed = pause(watch, requested_at=dagger.update_time, now=now, limits=limits)
    if missed is None:
        return None
    if not missed.over_limit:
        return Finding(False, "records come", missed.flow.last)
    if not missed.flow.steady(limits):
        return None
    return Finding(True, str(missed), missed.since, measure=seconds(missed.lasted, missed.limit))


def lag_growing(watch: Watch, limits: Limits) -> Finding | None:
    """Judge whether a driver reads less than arrives: the slope of the lag counts, not its size."""
    grown = watch.growth
    if grown is None:
        return None
    share = grown.share_left if grown.records >= limits.lag_records else 0.0
    measure = Measure(share, limits.lag_share, "share")
    if not grown.too_much(limits):
        return Finding(False, "its lag does not grow for good", grown.last.time, measure=measure)
    return Finding(True, str(grown), grown.first.time, measure=measure)


def sink_behind(watch: Watch, limits: Limits) -> Finding | None:
    """Judge whether rows wait in the log of a sink for too long; not of one that somebody has paused."""
    heartbeat = watch.heartbeat
    if heartbeat is None or watch.heard_at is None:
        return None
    # By the driver's clock alone: it is the one that the times of its log are of.
    ages = {
        name: heartbeat.time.ToDatetime(tzinfo=UTC) - spool.since.ToDatetime(tzinfo=UTC)
        for name, spool in heartbeat.spools.items()
        if spool.HasField("since") and not spool.paused
    }
    if not ages:
        return Finding(False, "its sinks take its rows as they come", watch.heard_at)
    name = max(ages, key=lambda name: (ages[name], name))
    age, spool = ages[name], heartbeat.spools[name]
    measure = seconds(age, limits.sink)
    if age < limits.sink:
        return Finding(False, f"{name} is {format_span(age)} behind", watch.heard_at, measure=measure)
    summary = f"{name} is {format_span(age)} behind, {spool.rows:,} rows wait in its log"
    if spool.HasField("error"):
        summary += f": {why(spool.error)}"
    return Finding(True, summary, watch.heard_at - age, measure=measure)


def driver_warning(watch: Watch, reason: Reason, well: str, limits: Limits) -> Finding | None:
    """Judge by a driver's own warning, with its text; `well`: text of a finding without the warning.

    The monitor's limits may be higher than the driver's: a measure below them is no finding.
    """
    heartbeat = watch.heartbeat
    if heartbeat is None or watch.heard_at is None:
        return None
    measure = None
    if reason == Reason.LATE_ROWS:
        if not counted_long_enough(watch, limits):
            return None
        measure = _measure_late_rows(watch, limits)
    if reason in heartbeat.measures:  # heartbeats of older drivers have none
        warned = heartbeat.measures[reason]
        measure = Measure(warned.value, _raise_limit(reason, warned.limit, limits), warned.unit)
    if reason not in watch.warned or (measure is not None and measure.value < measure.limit):
        return Finding(False, well, watch.heard_at, measure=measure)
    return Finding(True, driver_warnings(heartbeat)[reason], watch.warned[reason], measure=measure)


def _measure_late_rows(watch: Watch, limits: Limits) -> Measure | None:
    """Compute the share of late rows from a driver's counters, as it measures only while it warns.

    None when it read no rows.
    """
    counted = recent(watch)
    share = counted.late / max(counted.rows_in, counted.late, 1)
    return Measure(share, limits.late_share, "share") if counted.rows_in else None


def _raise_limit(reason: Reason, limit: float, limits: Limits) -> float:
    """Raise a driver's limit to that of the monitor's settings."""
    if reason == Reason.LATE_ROWS:
        return max(limit, limits.late_share)
    if reason == Reason.NO_OUTPUT:
        return limit + (limits.overdue.total_seconds() - OVERDUE_S)
    if reason == Reason.PARTITION_BEHIND:
        return limit + (limits.behind.total_seconds() - BEHIND_S)
    return limit
