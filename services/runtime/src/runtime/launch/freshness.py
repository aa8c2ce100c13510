"""Judge how fresh the rows of a launch are, by sink, from what its batches acknowledged. Pure.

An objective (`freshness` of the spec) is missed where more than 5 % of the rows of the last minutes came
later, or one that is older waits for its sink. It is missed until no more than half of that do
(`limits.SHARE_ENDS`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from daggers.v1.telemetry_pb2 import Freshness, Measure

from chassis.durations import format_span
from daggerspec import limits
from runtime.launch.row_ages import PartAges, age_of
from runtime.launch.symptoms import DriverWarning

MISSED: Final = "FRESHNESS_MISSED"
"""Code of the warning of an objective that is missed."""
_HOUR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)
_RECENT: Final = timedelta(seconds=limits.RECENT_S)


@dataclass(frozen=True, slots=True)
class Minute:
    """Rows that a sink acknowledged from `begin` on, for a minute, by the bucket of their age."""

    begin: datetime
    counts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SinkFreshness:
    """Freshness of the rows of one sink."""

    minutes: tuple[Minute, ...] = ()
    """Those of the last hour, oldest first."""
    waiting_since: datetime | None = None
    """Event time of the oldest row that the sink was given and has not taken; None while there is none."""
    is_missed: bool = False
    """True if the objective is missed, with hysteresis."""
    spooled_since: datetime | None = None
    """Event time of the oldest row that waits in the sink's log; None while there is none."""

    @property
    def oldest_waiting(self) -> datetime | None:
        """Event time of the oldest row that waits for the sink, in a batch or in its log."""
        times = [time for time in (self.waiting_since, self.spooled_since) if time is not None]
        return min(times, default=None)

    def add(self, now: datetime, counts: Mapping[int, int]) -> SinkFreshness:
        """Add rows that were acknowledged by `now`, and none of which waits any more."""
        minutes = [minute for minute in self.minutes if now - minute.begin < _HOUR]
        if counts and minutes and now - minutes[-1].begin < _MINUTE:
            last = minutes.pop()
            minutes.append(Minute(last.begin, Counter(last.counts) + Counter(counts)))
        elif counts:
            minutes.append(Minute(now, counts))
        return replace(self, minutes=tuple(minutes), waiting_since=None)

    def lately(self, now: datetime, span: timedelta) -> Counter[int]:
        """Return the rows of the last `span` by the bucket of their age."""
        total = Counter[int]()
        for minute in self.minutes:
            if now - minute.begin < span:
                total.update(minute.counts)
        return total


def count_acknowledged(parts: Sequence[PartAges], committed: float | None) -> Counter[int]:
    """Count the rows of partitions by the bucket of their age when they were acknowledged.

    committed: when the driver had made staged rows valid, in seconds since 1970; None where none were staged.
    """
    total = Counter[int]()
    for part in parts:
        when = committed if committed is not None else part.acknowledged
        if when is not None:
            total.update(part.at(when))
    return total


def quantile_ms(counts: Mapping[int, int], share: float) -> int:
    """Return the age in ms that this share of the rows does not pass; 0 without rows."""
    left = share * sum(counts.values())
    for bucket in sorted(counts):
        left -= counts[bucket]
        if left <= 0:
            return round(age_of(bucket))
    return round(age_of(max(counts))) if counts else 0


def to_proto(sink: SinkFreshness, now: datetime) -> Freshness:
    """Convert what is known of a sink into its message."""
    counts = sink.lately(now, _HOUR)
    message = Freshness(
        rows=sum(counts.values()),
        p50_ms=quantile_ms(counts, 0.5),
        p95_ms=quantile_ms(counts, 0.95),
        p99_ms=quantile_ms(counts, 0.99),
    )
    if recent := sink.lately(now, _MINUTE):
        message.recent_p95_ms = quantile_ms(recent, 0.95)
    if sink.oldest_waiting is not None:
        message.waiting_since.FromDatetime(sink.oldest_waiting)
    return message


def judge(sink: SinkFreshness, objective: timedelta, now: datetime) -> SinkFreshness:
    """Decide whether a sink misses the objective at `now`."""
    most = limits.STALE_SHARE * (limits.SHARE_ENDS if sink.is_missed else 1)
    late = _share_later(sink.lately(now, _RECENT), objective) > most
    return replace(sink, is_missed=late or _waits_too_long(sink, objective, now))


def warning(sinks: Mapping[str, SinkFreshness], objective: timedelta, now: datetime) -> DriverWarning | None:
    """Warn of the sinks that miss the objective, the worst first; None where none does."""
    missed = {name: _measured_s(sink, now) for name, sink in sinks.items() if sink.is_missed}
    if not missed:
        return None
    names = sorted(missed, key=lambda name: (-missed[name], name))
    text = "; ".join(_sentence(name, sinks[name], objective, now) for name in names)
    measure = Measure(value=missed[names[0]], limit=objective.total_seconds(), unit="s")
    return DriverWarning(MISSED, f"{text}.", measure)


def _measured_s(sink: SinkFreshness, now: datetime) -> float:
    """Return what is beside the objective: the greater of the oldest row's age and what a few rows pass.

    Of the rows half as many may pass it as may miss the objective: it is above that for as long as it is
    missed.
    """
    few = 1 - limits.STALE_SHARE * limits.SHARE_ENDS
    passed_ms = quantile_ms(sink.lately(now, _RECENT), few)
    return max(passed_ms / 1000, _waiting_time(sink, now).total_seconds())


def _sentence(name: str, sink: SinkFreshness, objective: timedelta, now: datetime) -> str:
    if _waits_too_long(sink, objective, now):
        waited, most = format_span(_waiting_time(sink, now)), format_span(objective)
        return f"a row whose window ended {waited} ago waits for {name}, where {most} is the objective"
    counts = sink.lately(now, _RECENT)
    share, p95 = _share_later(counts, objective), timedelta(milliseconds=quantile_ms(counts, 0.95))
    return (
        f"{share:.1%} of the {sum(counts.values()):,} rows of the last {format_span(_RECENT)} were in {name}"
        f" later than {format_span(objective)} after the end of their window, p95 {format_span(p95)}"
    )


def _share_later(counts: Mapping[int, int], objective: timedelta) -> float:
    limit_ms = objective.total_seconds() * 1000
    later = sum(rows for bucket, rows in counts.items() if age_of(bucket) > limit_ms)
    return later / max(sum(counts.values()), 1)


def _waiting_time(sink: SinkFreshness, now: datetime) -> timedelta:
    return timedelta() if sink.oldest_waiting is None else now - sink.oldest_waiting


def _waits_too_long(sink: SinkFreshness, objective: timedelta, now: datetime) -> bool:
    return _waiting_time(sink, now) > objective
