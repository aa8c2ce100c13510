"""Find the partitions that event time waits for, and warn of them. Pure.

The event time of a stream is the minimum over its partitions. A partition behind the others delays every
window: no row is lost, but rows come late. It is warned of at once; after `BEHIND` the dagger is DEGRADED
(`fleet.health.degradation`) and an alert is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1.telemetry_pb2 import Measure

from chassis.durations import format_span
from daggerspec import limits
from runtime.launch.symptoms import DriverWarning
from runtime.source.status import ObservedTimes, OpenTransaction, SourceState

BEHIND: Final = timedelta(seconds=limits.BEHIND_S)
"""A partition is behind for too long if others wait for it for this long, and it is this far behind."""
# shorter waits are normal: a start, a short pause, a slow clock
_SHORT: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Behind:
    """Partition that event time waits for.

    newest: event time of its newest record in ms; None before its first one in this launch. behind: by how
    many ms that is behind the newest record of all partitions.
    """

    since: datetime
    newest: int | None
    behind: int | None
    open_transaction: OpenTransaction | None

    def costs(self, now: datetime) -> timedelta:
        """Return the delay of windows: how long the wait lasts, but at most how far the partition is behind.

        It is unknown how far a partition is behind without a record, or with an open transaction.
        """
        waited = now - self.since
        if self.open_transaction is not None or self.behind is None:
            return waited
        return min(waited, timedelta(milliseconds=self.behind))


@dataclass(frozen=True, slots=True)
class Waits:
    """Partitions that are behind, by "topic/partition"."""

    partitions: Mapping[str, Behind] = field(default_factory=dict)


def observe(waits: Waits, published: SourceState, now: datetime) -> Waits:
    """Update the waits by the readers' latest status.

    A partition is behind when it is not idle and its newest record is older than that of another, of any
    stream of the query, by more than the watermark's delay; or when a transaction is open in it.
    """
    newest: dict[str, tuple[int | None, int]] = {}
    transactions: dict[str, OpenTransaction] = {}
    for key, status in published.statuses.items():
        read = published.observed.get(key, ObservedTimes()).partitions
        idle = set(status.idle_partitions)
        newest |= {p: (read.get(p), status.delay) for p in status.partitions if p not in idle}
        transactions |= status.open_transactions
    latest = max((time for time, _ in newest.values() if time is not None), default=None)
    partitions = {}
    for partition, (time, delay) in sorted(newest.items()):
        open_ = transactions.get(partition)
        behind = None if latest is None or time is None else latest - time
        if open_ is None and (latest is None or (behind is not None and behind <= delay)):
            continue
        began = now if open_ is None else min(now, _instant(open_.since))
        before = waits.partitions.get(partition)
        since = began if before is None else min(before.since, began)
        partitions[partition] = Behind(since, time, behind, open_)
    return Waits(partitions)


def warnings(waits: Waits, now: datetime) -> Sequence[DriverWarning]:
    """Warn of the waits at `now`, by the partition that is furthest behind."""
    costly = {p: wait for p, wait in waits.partitions.items() if wait.costs(now) >= _SHORT}
    if not costly:
        return ()
    worst = min(costly, key=lambda p: (costly[p].newest is not None, costly[p].newest or 0, p))
    longest = max(wait.costs(now) for wait in costly.values())
    text = _sentence(worst, costly[worst], len(costly) - 1, now)
    if longest < BEHIND:
        return (DriverWarning("EVENT_TIME_WAITS", text),)
    measure = Measure(value=longest.total_seconds(), limit=BEHIND.total_seconds(), unit="s")
    return (DriverWarning("PARTITION_BEHIND", text, measure),)


def _sentence(partition: str, wait: Behind, others: int, now: datetime) -> str:
    more = f" and {others} more" if others else ""
    lasted = format_span(now - wait.since)
    sentence = f"event time has waited for {partition}{more} since {_format_time(wait.since)} ({lasted})"
    if wait.newest is None:
        sentence = f"{sentence}, of which this launch has read no record"
    else:
        sentence = f"{sentence}, whose newest record is of {_format_time(_instant(wait.newest))}"
        if wait.behind:
            sentence = f"{sentence}, {format_span(timedelta(milliseconds=wait.behind))} behind the others"
    if (open_ := wait.open_transaction) is not None:
        topic, _, number = partition.rpartition("/")
        tool = "kafka-transactions.sh --bootstrap-server HOST:PORT"
        place = f"--topic {topic} --partition {number}"
        since = _format_time(_instant(open_.since))
        sentence = (
            f"{sentence}. A transaction is open in it since {since}: it can be read up to"
            f" its last stable offset {open_.stable}, and ends at {open_.end};"
            f" `{tool} describe-producers {place}` shows who holds it,"
            f" `{tool} abort {place} --start-offset {open_.stable}` ends it"
        )
    return f"{sentence}. Nothing is lost: windows end later."


def _instant(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _format_time(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
