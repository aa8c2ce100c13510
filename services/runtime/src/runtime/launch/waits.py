"""Which partitions event time waits for, and since when: what a person is told of it. Pure.

Event time of a stream is the least of its partitions. One that is behind the others makes every window come
later: no row is lost by it, but somebody waits for rows. It is told at once, and after `BEHIND` it makes a
dagger DEGRADED (`fleet.health.degradation`) and an alert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from daggers.v1.telemetry_pb2 import Measure

from chassis.durations import spoken
from daggerspec import limits
from runtime.launch.symptoms import Warned
from runtime.source.status import ObservedTimes, OpenTransaction, Published

BEHIND: Final = timedelta(seconds=limits.BEHIND_S)
"""A partition is behind for too long when others wait for it for so long, and it is that far behind."""
# What takes no longer is not worth a word: a start, a short pause, a clock that is a little slow.
_SHORT: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Behind:
    """A partition that event time waits for: its newest record (ms of event time), None while it has had none
    in this launch, and by how much (ms) that is behind the newest of all.
    """

    since: datetime
    newest: int | None
    behind: int | None
    open_transaction: OpenTransaction | None

    def costs(self, now: datetime) -> timedelta:
        """By how much windows end later for it: never more than it is behind, however long that has lasted.

        Nobody knows how far one is behind of which nothing was read, or cannot be.
        """
        waited = now - self.since
        if self.open_transaction is not None or self.behind is None:
            return waited
        return min(waited, timedelta(milliseconds=self.behind))


@dataclass(frozen=True, slots=True)
class Waits:
    """The partitions that are behind, as "topic/partition"."""

    partitions: Mapping[str, Behind] = field(default_factory=dict)


def looked(known: Waits, published: Published, now: datetime) -> Waits:
    """What is known after a look at what the readers have read, and at what they wait for.

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
        before = known.partitions.get(partition)
        since = began if before is None else min(before.since, began)
        partitions[partition] = Behind(since, time, behind, open_)
    return Waits(partitions)


def warnings(known: Waits, now: datetime) -> Sequence[Warned]:
    """What a person should know at `now`: of several partitions, the one that is furthest behind."""
    told = {p: one for p, one in known.partitions.items() if one.costs(now) >= _SHORT}
    if not told:
        return ()
    worst = min(told, key=lambda p: (told[p].newest is not None, told[p].newest or 0, p))
    longest = max(one.costs(now) for one in told.values())
    text = _sentence(worst, told[worst], len(told) - 1, now)
    if longest < BEHIND:
        return (Warned("EVENT_TIME_WAITS", text),)
    measure = Measure(value=longest.total_seconds(), limit=BEHIND.total_seconds(), unit="s")
    return (Warned("PARTITION_BEHIND", text, measure),)


def _sentence(partition: str, one: Behind, others: int, now: datetime) -> str:
    more = f" and {others} more" if others else ""
    what = (
        f"event time has waited for {partition}{more} since {_shown(one.since)} ({spoken(now - one.since)})"
    )
    if one.newest is None:
        what = f"{what}, of which this launch has read no record"
    else:
        what = f"{what}, whose newest record is of {_shown(_instant(one.newest))}"
        if one.behind:
            what = f"{what}, {spoken(timedelta(milliseconds=one.behind))} behind the others"
    if (open_ := one.open_transaction) is not None:
        topic, _, number = partition.rpartition("/")
        tool = "kafka-transactions.sh --bootstrap-server HOST:PORT"
        place = f"--topic {topic} --partition {number}"
        what = (
            f"{what}. A transaction is open in it since {_shown(_instant(open_.since))}: it can be read up to"
            f" its last stable offset {open_.stable}, and ends at {open_.end};"
            f" `{tool} describe-producers {place}` shows who holds it,"
            f" `{tool} abort {place} --start-offset {open_.stable}` ends it"
        )
    return f"{what}. Nothing is lost: windows end later."


def _instant(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _shown(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
