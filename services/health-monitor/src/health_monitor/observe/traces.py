"""Traces: numbers of the heartbeats of the last half hour of each dagger, for charts of its alerts. Pure.

A trace has a point every STEP, MOST_POINTS in all, over restarts of the driver. It is a memory of this
monitor: one that has just begun has what its recall has read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from daggers.v1 import alerts_pb2

from fleet.alerts.alert import WEEK, Alert, Condition
from fleet.health.watch import Watch
from health_monitor.chart import Band, Chart, Point

STEP: Final = timedelta(seconds=30)
MOST_POINTS: Final = 60
_UNKNOWN: Final = -1
_BEFORE_ALL: Final = datetime.min.replace(tzinfo=UTC)
_LEAST_POINTS: Final = 3
_LEAST_INCIDENTS: Final = 2


class TracePoint(NamedTuple):
    """Numbers of one heartbeat; counters of one launch, and _UNKNOWN for what it does not say."""

    time_ms: int
    generation: int
    records: int
    written: int
    late: int
    quarantined: int
    lag: int
    waiting_ms: int
    """Age of the oldest row that waits in the log of a sink."""
    freshness_ms: int
    """95 of 100 rows of the last minute were fresher, of the slowest sink."""

    @property
    def time(self) -> datetime:
        """Time of its arrival."""
        return datetime.fromtimestamp(self.time_ms / 1_000, UTC)


_WIDTH: Final = len(TracePoint._fields)


class Trace:
    """Numbers of one dagger: 5 KiB at most."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._due_at = _BEFORE_ALL
        """Time of the next point."""
        self._generation = 0

    def add(self, watch: Watch) -> None:
        """Add what its newest heartbeat said, unless the newest point of the launch is less than STEP old."""
        heard_at = watch.heard_at
        if heard_at is None or (heard_at < self._due_at and watch.generation == self._generation):
            return
        point = _read(watch)
        if point is not None:
            self._numbers.extend(point)
            del self._numbers[: -MOST_POINTS * _WIDTH]
            self._due_at, self._generation = heard_at + STEP, watch.generation

    def list_points(self, watch: Watch | None) -> list[TracePoint]:
        """List the points, the oldest first, and at last what its newest heartbeat said."""
        starts = range(0, len(self._numbers), _WIDTH)
        points = [TracePoint(*self._numbers[start : start + _WIDTH]) for start in starts]
        newest = None if watch is None else _read(watch)
        is_newer = newest is not None and (not points or newest.time_ms > points[-1].time_ms)
        return [*points, newest] if newest is not None and is_newer else points


def _read(watch: Watch) -> TracePoint | None:
    """Read the newest heartbeat of a watch; None before the first."""
    heartbeat, heard_at = watch.heartbeat, watch.heard_at
    if heartbeat is None or heard_at is None or not watch.samples:
        return None
    sample = watch.samples[-1]
    sent_ms = heartbeat.time.ToMilliseconds()
    waits = [
        sent_ms - spool.since.ToMilliseconds()
        for spool in heartbeat.spools.values()
        if spool.HasField("since") and not spool.paused
    ]
    fresh = [sink.recent_p95_ms for sink in heartbeat.freshness.values() if sink.HasField("recent_p95_ms")]
    return TracePoint(
        time_ms=round(heard_at.timestamp() * 1_000),
        generation=heartbeat.generation,
        records=sample.records,
        written=sample.written,
        late=sample.late,
        quarantined=sum(sample.quarantined.values()),
        lag=sum(heartbeat.lag.values()) if heartbeat.lag else _UNKNOWN,
        waiting_ms=max(waits, default=0),
        freshness_ms=max(fresh, default=_UNKNOWN),
    )


# ---- Charts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Series:
    """Values that show a condition."""

    title: str
    unit: str
    value: Callable[[TracePoint, TracePoint], float | None]
    """Value at a point, of the one before and this one."""
    has_limit: bool = False
    """True if the limit of the alert is one of these values."""


def _rate(count: Callable[[TracePoint], int]) -> Callable[[TracePoint, TracePoint], float | None]:
    def rate(before: TracePoint, point: TracePoint) -> float | None:
        if before.generation != point.generation or point.time_ms <= before.time_ms:
            return None
        return 1_000 * (count(point) - count(before)) / (point.time_ms - before.time_ms)

    return rate


def _share(count: Callable[[TracePoint], int]) -> Callable[[TracePoint, TracePoint], float | None]:
    def share(before: TracePoint, point: TracePoint) -> float | None:
        records = point.records - before.records
        if before.generation != point.generation or records <= 0:
            return None
        return min((count(point) - count(before)) / records, 1.0)

    return share


def _level(
    read: Callable[[TracePoint], int], scale: float = 1
) -> Callable[[TracePoint, TracePoint], float | None]:
    def level(_: TracePoint, point: TracePoint) -> float | None:
        value = read(point)
        return None if value == _UNKNOWN else value / scale

    return level


_WRITTEN: Final = _Series("rows written per second", "number", _rate(lambda point: point.written))
_READ: Final = _Series("records read per second", "number", _rate(lambda point: point.records))
_SERIES: Final[Mapping[Condition, _Series]] = {
    alerts_pb2.ALERT_CONDITION_FAILED: _WRITTEN,
    alerts_pb2.ALERT_CONDITION_UNREACHABLE: _WRITTEN,
    alerts_pb2.ALERT_CONDITION_NO_PROGRESS: _WRITTEN,
    alerts_pb2.ALERT_CONDITION_NO_OUTPUT: _WRITTEN,
    alerts_pb2.ALERT_CONDITION_RESTART_LOOP: _WRITTEN,
    alerts_pb2.ALERT_CONDITION_WAITING_FOR_EXECUTORS: _WRITTEN,
    alerts_pb2.ALERT_CONDITION_NO_INPUT: _READ,
    alerts_pb2.ALERT_CONDITION_LAG_GROWING: _Series(
        "records not read yet", "count", _level(lambda point: point.lag)
    ),
    alerts_pb2.ALERT_CONDITION_LATE_ROWS: _Series(
        "share of the rows that came late", "share", _share(lambda point: point.late), has_limit=True
    ),
    alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE: _Series(
        "share of the records that were quarantined",
        "share",
        _share(lambda point: point.quarantined),
        has_limit=True,
    ),
    alerts_pb2.ALERT_CONDITION_SINK_BEHIND: _Series(
        "age of the oldest row that waits", "s", _level(lambda point: point.waiting_ms, 1_000), has_limit=True
    ),
    alerts_pb2.ALERT_CONDITION_FRESHNESS_MISSED: _Series(
        "end of window to row, 95 of 100 rows",
        "s",
        _level(lambda point: point.freshness_ms, 1_000),
        has_limit=True,
    ),
}
"""Values by condition: those of a dagger that its heartbeats tell."""


def build_chart(alert: Alert, trace: Trace | None, watch: Watch | None, now: datetime) -> Chart | None:
    """Build the chart of an alert: the values of its dagger, or when it was open in the last week. None where
    neither would say more than the message.
    """
    if alert.fired is None:
        return None
    series = _SERIES.get(alert.condition)
    points = [] if series is None or trace is None else _list_points(series, trace.list_points(watch))
    if series is None or sum(point.value is not None for point in points) < _LEAST_POINTS:
        return _build_week(alert, now)
    begin, end = points[0].time, max(now, points[-1].time)
    since = max(alert.fired.since.ToDatetime(tzinfo=UTC), begin)
    until = alert.until or end
    return Chart(
        title=series.title,
        begin=begin,
        end=end,
        points=points,
        unit=series.unit,
        limit=alert.fired.limit if series.has_limit and alert.fired.HasField("limit") else None,
        bands=[Band(since, until)] if since < until else [],
    )


def _list_points(series: _Series, points: Sequence[TracePoint]) -> list[Point]:
    return [Point(point.time, series.value(before, point)) for before, point in pairwise(points)]


def _build_week(alert: Alert, now: datetime) -> Chart | None:
    spans = alert.list_week(now)
    if len(spans) < _LEAST_INCIDENTS:
        return None
    title = f"open {len(spans)} times in the last seven days"
    return Chart(title=title, begin=now - WEEK, end=now, bands=[Band(*span) for span in spans])
